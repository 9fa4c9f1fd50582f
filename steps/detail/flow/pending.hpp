// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdio>        // for fprintf
#include <exception>     // for exception_ptr, current_exception
#include <future>        // for future_error, future_errc
#include <memory>        // for destroy_at
#include <string_view>   // for string_view
#include <system_error>  // for system_error, errc

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_INLINED, ASYNCSTEPS_SHARED_TYPE
#include "async/errors.hpp"              // for stopped, queue_full, dropped_call
#include "steps/detail/flow/arena.hpp"   // for clear_results
#include "steps/detail/flow/flow.hpp"    // for flow, pending_error
#include "steps/state.hpp"               // for State, state_access

/// The error of a flow and its text, and the conversion of exceptions of users to errors.
namespace steps::inline v0_1::detail {

/// The exception of asi.error(). The flow knows the error already, so a user's catch (...) does not swallow the error.
class ASYNCSTEPS_SHARED_TYPE unwinding final : public Error {
 public:
  using Error::Error;
};

void make_state(flow& f);

/// The flow's State, made on first use. Throws std::bad_alloc.
inline State& state_of(flow& f) {
  if (f.state == nullptr) make_state(f);
  return *f.state;
}

void destroy_own_state(flow& f) noexcept;
inline void destroy_state(flow& f) noexcept {
  if (f.state != nullptr) [[unlikely]]
    destroy_own_state(f);
}

/// Copies the texts of an error, which may not live long enough. Without memory the info is lost, and a code that is no
/// literal becomes InternalError.
ErrorCode keep_texts(flow& f, ErrorCode code, std::string_view info) noexcept;

/// Makes `code` the error of the flow, and destroys its results. When the destructor of a result cancels the flow, the
/// cancel wins. `target`: the loop that a break or continue is for.
void set_error(flow& f, ErrorCode code, std::string_view info = {}, step* target = nullptr) noexcept;

/// An error handler has recovered.
inline void forget_error(flow& f) noexcept {
  if (f.state != nullptr) state_access::clear_info(*f.state);
}

/// Stores the exception that is being handled. Passes it to the trace hook if it is a std::exception. `own`:
/// the error was made from it.
void keep_exception(flow& f, const std::exception* known, bool own) noexcept;

// Out of line, which keeps the functions that run steps short.
ErrorCode code_of(const async::dropped_call& e) noexcept;

/// Calls call(). An exception goes to caught(code, info, exception), by rule 9; `exception` is null if it is no
/// std::exception. Exceptions of caught() pass through.
template <class F, class Caught>
[[gnu::always_inline]] inline void convert_exceptions(F&& call, const Caught& caught) {
  try {
    call();
  } catch (const Error& e) {
    caught(e.code(), e.explanation(), &e);
  } catch (const async::stopped& e) {
    caught(errors::Stopped, async::detail::text_of(e), &e);
  } catch (const async::queue_full& e) {
    caught(errors::QueueFull, async::detail::text_of(e), &e);
  } catch (const async::dropped_call& e) {
    caught(code_of(e), async::detail::text_of(e), &e);
  } catch (const std::future_error& e) {
    const bool is_broken = e.code() == std::future_errc::broken_promise;
    caught(is_broken ? errors::BrokenPromise : ErrorCode(async::detail::text_of(e)),
           is_broken ? async::detail::text_of(e) : "", &e);
  } catch (const std::system_error& e) {
    const bool would_block = e.code() == std::errc::resource_deadlock_would_occur;
    caught(would_block ? errors::InternalError : ErrorCode(async::detail::text_of(e)),
           would_block ? async::detail::text_of(e) : "", &e);
  } catch (const std::exception& e) {
    caught(ErrorCode(async::detail::text_of(e)), "", &e);
  } catch (...) {
    if (std::current_exception() == nullptr) async::detail::terminate_for(nullptr, "asyncsteps: in a step of a flow");
    caught(errors::InternalError, "an exception that is no std::exception", nullptr);
  }
}

// Out of line, which keeps the frame of the function that runs steps small.
void catch_unwinding(flow& f, const unwinding& e) noexcept;
void catch_code(flow& f, ErrorCode code) noexcept;
void catch_exception(flow& f, ErrorCode code, std::string_view info, const std::exception* e) noexcept;

/// Calls a function of the user; an exception from it becomes the flow's error (FTN12 2.2.2, 1.7).
template <class F>
[[gnu::always_inline]] inline void guarded_inline(flow& f, F&& call) noexcept {
  const auto unless_known = [&f, &call]() ASYNCSTEPS_INLINED {
    try {
      call();
    } catch (const unwinding& e) {
      catch_unwinding(f, e);
    } catch (const ErrorCode& code) {
      catch_code(f, code);
    }
  };
  convert_exceptions(unless_known, [&f](ErrorCode code, std::string_view info, const std::exception* e) {
    catch_exception(f, code, info, e);
  });
}

/// The same, out of line where the compiler prefers that: for all but the common case.
template <class F>
void guarded(flow& f, F&& call) noexcept {
  guarded_inline(f, std::forward<F>(call));
}

inline std::string_view info_of(const flow& f) noexcept {
  return f.state != nullptr ? std::string_view(f.state->error_info()) : std::string_view();
}

/// The pending error as an exception: the exception that caused it, or an Error made from code and info.
inline std::exception_ptr exception_of(flow& f) noexcept {
  if (f.state != nullptr && state_access::own_exception(*f.state)) return state_access::exception(*f.state);
  try {
    return std::make_exception_ptr(Error(f.pending.code, info_of(f)));
  } catch (...) {
    return std::current_exception();
  }
}

/// Reports an error that no error handler can get, from a message to the loop: an exception of the loop's hook must not
/// pass through the unwinding of a flow.
struct late_report : async::detail::message {
  late_report(async::detail::loop_core& c, std::exception_ptr e) noexcept
      : message(&deliver_report), core(c), error(std::move(e)) {}

  static void deliver_report(message& self, async::detail::delivery how) {
    auto& report = static_cast<late_report&>(self);
    async::detail::loop_core& core = report.core;
    const std::exception_ptr error = std::move(report.error);
    std::destroy_at(&report);
    async::detail::free_block(&report, sizeof(late_report));
    if (how == async::detail::delivery::on_loop) return core.unhandled(error);
    std::fprintf(stderr,
                 "asyncsteps: an error of a cancel handler or an onEnd function was not reported: the loop is being "
                 "destroyed\n");
  }

  async::detail::loop_core& core;
  std::exception_ptr error;
};

/// Reports the exception that is being handled, which has left a cancel handler, an onEnd() function or a hook, as an
/// unhandled error.
void report_exception(flow& f, bool to_hook) noexcept;

#if ASYNCSTEPS_DEFINED
[[gnu::noinline, gnu::cold]] ASYNCSTEPS_FUNCTION ErrorCode code_of(const async::dropped_call& e) noexcept {
  using reason = async::dropped_call::reason;
  if (e.why() == reason::cancelled) return errors::BrokenPromise;
  return e.why() == reason::stopped ? errors::Stopped : errors::QueueFull;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void make_state(flow& f) {
  State* shared = nullptr;
  if (f.root.parent_ != nullptr) {
    flow& above = *f.root.parent_->flow_;
    if (above.state == nullptr) make_state(above);
    shared = &state_access::root(*above.state);
  }
  if (may_allocate(f)) {
    void* const block = async::detail::allocate_block(sizeof(State));
    f.state = state_access::make(block, f, shared, nullptr);
  } else {
    limits& limit = *f.limit;
    const bool is_branch = f.root.parent_ != nullptr;
    void* const memory = is_branch ? limit.branch.state_of(f) : limit.state_memory;
    f.state = state_access::make(memory, f, shared, &limit.values);
    state_access::use_buffer(*f.state, is_branch ? limit.branch.texts_of(f) : limit.texts,
                             is_branch ? limit.branch.texts : limit.texts_size);
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void destroy_own_state(flow& f) noexcept {
  state_access::clear(*f.state);
  state_access::set_exception(*f.state, nullptr, false);
  State* const s = std::exchange(f.state, nullptr);
  std::destroy_at(s);
  if (may_allocate(f)) async::detail::free_block(s, sizeof(State));
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION ErrorCode keep_texts(flow& f, ErrorCode code, std::string_view info) noexcept {
  try {
    State& s = state_of(f);
    state_access::disown_exception(s);  // first: the rest may throw
    code = state_access::keep_texts(s, code, info);
  } catch (...) {
    if (f.state != nullptr) state_access::clear_info(*f.state);
    if (!code.is_lasting()) code = errors::InternalError;
  }
  return code;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void keep_exception(flow& f, const std::exception* known, bool own) noexcept {
  try {
    State& s = state_of(f);
    state_access::set_exception(s, std::current_exception(), own);
    if (known == nullptr) return;
    if (const auto& trace = state_access::trace(s)) trace(*known);
  } catch (...) {  // no memory, or the trace hook has thrown: the error itself is known
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void catch_unwinding(flow& f, const unwinding& e) noexcept {
  if (f.is_cancelled()) return;
  if (!f.is_failing()) set_error(f, e.code(), e.explanation());
  keep_exception(f, &e, false);
}

/// As error(code), for `throw steps::errors::Timeout`.
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void catch_code(flow& f, ErrorCode code) noexcept {
  if (!f.is_cancelled()) set_error(f, code, {});
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void catch_exception(flow& f, ErrorCode code, std::string_view info,
                                                           const std::exception* e) noexcept {
  if (f.is_cancelled()) return;
  set_error(f, code, info);
  keep_exception(f, e, true);
}

/// False: the root flow has no State, and so no hook.
inline bool may_have_hook(const flow& f) noexcept {
  const flow* at = &f;
  while (at->state == nullptr && at->root.parent_ != nullptr) at = at->root.parent_->flow_;
  return at->state != nullptr;
}

ASYNCSTEPS_FUNCTION void report_exception(flow& f, bool to_hook) noexcept {
  const std::exception_ptr error = std::current_exception();
  if (error == nullptr) async::detail::terminate_for(nullptr, "asyncsteps: in a cancel handler or onEnd function");
  try {
    if (to_hook && may_have_hook(f)) {
      State& s = state_of(f);
      if (const auto& unhandled = state_access::unhandled(s)) {
        const auto call_hook = [&](ErrorCode code, std::string_view info, const std::exception*) {
          state_access::show(s, info, error, [&] { unhandled(code); });
        };
        return convert_exceptions([&error] { std::rethrow_exception(error); }, call_hook);
      }
    }
    if (f.pool != nullptr && !f.executes()) return f.ops().report(f, error);  // it has no loop
    void* const block = async::detail::allocate_block(sizeof(late_report));
    auto* const report = ::new (block) late_report(*f.core, error);
    if (!f.core->push(*report)) report->deliver(*report, async::detail::delivery::dropped);
  } catch (...) {
    std::fprintf(stderr, "asyncsteps: an error of a cancel handler or an onEnd function could not be reported\n");
  }
}

ASYNCSTEPS_FUNCTION std::exception_ptr error_of(flow& f) {
  const step* const in = f.run_by;
  const bool is_handled = in != nullptr && (in->flags_ & record_flag::handles) != 0 && f.has_no_verdict();
  return is_handled || f.is_failing() ? exception_of(f) : nullptr;
}

ASYNCSTEPS_FUNCTION void set_error(flow& f, ErrorCode code, std::string_view info, step* target) noexcept {
  if (f.state != nullptr || !info.empty() || !code.is_lasting()) [[unlikely]]
    code = keep_texts(f, code, info);
  f.mark_error();  // first: a mistake of the results' destructors does not replace the error
  if (results_in_hand::is_of(f)) [[unlikely]]
    return;
  clear_results(f);
  ::new (static_cast<void*>(&f.pending)) pending_error{code, target};
}
#endif

}  // namespace steps::inline v0_1::detail
