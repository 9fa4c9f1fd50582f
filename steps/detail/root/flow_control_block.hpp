// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for byte, size_t
#include <cstdint>      // for uint32_t
#include <exception>    // for exception_ptr, rethrow_exception
#include <memory>       // for destroy_at
#include <new>          // for launder
#include <string_view>  // for string_view
#include <tuple>        // for tuple, apply
#include <utility>      // for forward

#include "async/detail/base/block_cache.hpp"     // for allocate_block, free_block
#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_FUNCTION
#include "async/detail/base/would_deadlock.hpp"  // for unknown_here
#include "async/detail/loop/loop_entry.hpp"      // for loop_entry
#include "steps/detail/engine/engine.hpp"        // for raise, wake

/// Requests of other threads to a flow: one message to its loop, for which no thread waits. The flow may end or be
/// destroyed before the message arrives, so the message refers to the flow's control block, which outlives it.
namespace steps::inline v0_1::detail {

/// The block of a flow on a pool. With a future, an object, a timer and a completion, a flow that waits in its second
/// level fits in, and so does its control block.
inline constexpr std::size_t pool_flow_block = 568;

/// The place of a control block within the block of a flow on a pool: at its end.
inline void* control_block_within(flow& f) noexcept {
  return reinterpret_cast<std::byte*>(&f) + (pool_flow_block - sizeof(flow_control_block));
}

void release_control_block(flow_control_block& r) noexcept;

/// The flow's control block, made on first use. The flow exists during the call. Throws std::bad_alloc.
flow_control_block& control_block_of(flow& f);

/// The same with a reference for the caller.
inline flow_control_block& share_control_block(flow& f) {
  flow_control_block& known = control_block_of(f);
  known.references.add();  // the flow holds one meanwhile
  return known;
}

/// The start_state of a flow that executes and has been queued in a pool; null: its loop may be used.
inline start_state* start_of(flow& f) noexcept {
  if (f.pool == nullptr) return nullptr;
  flow_control_block* const r = f.control_block.get();
  return r != nullptr ? &r->start : nullptr;
}

/// The flow's loop; null: no worker of its pool has taken it yet.
inline async::detail::loop_core* known_core_of(flow& f) noexcept {
  if (f.pool != nullptr && f.is_known_to_execute()) {  // else the loop does not change
    const start_state* const word = start_of(f);
    if (word != nullptr && !word->is_bound()) return nullptr;
  }
  return f.core;
}

/// True when neither a message to the flow nor the task that starts it is on its way. At the destruction of a flow no
/// thread makes new ones.
inline bool is_unreached(flow& f) noexcept {
  flow_control_block* const r = f.control_block.get_own();
  return r == nullptr || r->references.is_last();
}

/// The flow is about to go: messages on their way lose their target. On the loop's thread, or when there are none.
inline void detach_control_block(flow& f) noexcept {
  flow_control_block* const r = f.control_block.get_own();
  if (r == nullptr) return;
  f.control_block.clear();
  r->lose_target();
  if (!r->is_within_flow()) release_control_block(*r);  // else the flow's reference goes with its memory
}

/// A message that calls act(flow) on the loop's thread unless the flow has gone.
template <class Act>
struct remote_call final : async::detail::message {
  template <class A>
  remote_call(flow_control_block& r, A&& a) : message(&arrived), control(r), act(std::forward<A>(a)) {}

  static void arrived(message& m, async::detail::delivery how) {
    auto& call = static_cast<remote_call&>(m);
    flow* const f = how == async::detail::delivery::on_loop ? call.control.target() : nullptr;
    if (f != nullptr) call.act(*f);
    destroy(call);
  }
  static void destroy(remote_call& call) noexcept {
    release_control_block(call.control);
    std::destroy_at(&call);
    async::detail::free_block(&call, sizeof(remote_call), alignof(remote_call));
  }

  flow_control_block& control;
  Act act;
};

/// Calls act(flow&) on the loop's thread, unless the flow or the loop has gone by then. For any thread, while the flow
/// exists. Throws std::bad_alloc.
template <class Act>
void on_loop_of(flow& f, Act&& act) {
  using call = remote_call<std::decay_t<Act>>;
  flow_control_block& r = share_control_block(f);
  void* block = nullptr;
  call* made = nullptr;
  try {
    block = async::detail::allocate_block(sizeof(call), alignof(call));
    made = ::new (block) call(r, std::forward<Act>(act));
  } catch (...) {
    if (block != nullptr) async::detail::free_block(block, sizeof(call), alignof(call));
    release_control_block(r);
    throw;
  }
  if (!f.core->push(*made)) call::destroy(*made);
}

/// The same for the wait that the requesting thread has seen as `epoch`.
inline bool ends_wait_of(flow& f, const step& s, std::uint32_t epoch) noexcept {
  return f.wait_number() == epoch && ends_wait_of(f, s);
}

/// Ends a wait with the results that `call` stores or the error that it marks. It calls functions of users, which may
/// cancel the flow.
template <class Call>
void resume_after(flow& f, Call&& call) noexcept {
  if (!call_outside(f, [&f, &call] { guarded(f, call); })) return;
  wake(f, f.is_failing() ? verdict::error : verdict::success);
}

/// Ends a wait by success, on the loop's thread.
template <class... A>
void resume_with(flow& f, A&&... results) {
  resume_after(f, [&] { put_results(f, std::forward<A>(results)...); });
}

/// Permission to touch a flow, held for the lifetime of this object. Given on the flow's loop, while the flow is in a
/// pool's queue, and while it does not execute.
class flow_entry {
 public:
  explicit flow_entry(flow& f) noexcept {
    if (f.is_known_to_execute()) {
      enter(f);
    } else {
      given_ = true;
    }
  }
  ~flow_entry() {
    if (held_ != nullptr) held_->put_back();
    if (has_loop_) leave_loop();
  }
  flow_entry(const flow_entry&) = delete;
  flow_entry& operator=(const flow_entry&) = delete;

  explicit operator bool() const noexcept { return given_; }
  /// The flow is being cancelled before its start: there is nothing left to do.
  bool is_too_late() const noexcept { return too_late_; }
  /// The thread is in the flow's loop, but only another module knows, which shares nothing with this one.
  bool is_unknown() const noexcept { return unknown_; }

 private:
  void enter(flow& f) noexcept;
  void leave_loop() noexcept;

  bool given_ = false;
  bool too_late_ = false;
  bool unknown_ = false;
  start_state* held_ = nullptr;
  bool has_loop_ = false;
  alignas(async::detail::loop_entry) std::byte loop_[sizeof(async::detail::loop_entry)];  // g++ warns of an optional
};

/// Ends a wait by the exception of a call that the step has waited for, on the loop's thread.
void raise_thrown(flow& f, const std::exception_ptr& thrown) noexcept;

/// misuse() from any thread, in the execution that it has seen.
void misuse_anywhere(flow& f, std::string_view literal);

/// For success() of a waiting step. True: the step is a parallel() or race() step, which is misuse and has been
/// reported.
bool refuse_success_of_parallel(flow& f, const step& s) noexcept;

/// What a success() that comes after its step's function, or from elsewhere, is to do. nothing: it is too late, or a
/// mistake, which is known.
enum class late_call : std::uint8_t { nothing, ends_wait, goes_to_loop };
late_call judge_late_success(const flow_entry& here, step& s);

/// asi.success(...) in all cases but the plain one of a running step.
template <class... A>
[[gnu::noinline]] void late_success(step& s, A&&... results) {
  flow& f = *s.flow_;
  const flow_entry here(f);
  const late_call todo = judge_late_success(here, s);
  if (todo == late_call::nothing) return;
  if (todo == late_call::ends_wait) return resume_with(f, std::forward<A>(results)...);
  const std::uint32_t epoch = f.wait_number();
  on_loop_of(f, [&s, epoch, values = std::tuple<stored_t<A>...>(std::forward<A>(results)...)](flow& target) mutable {
    if (!ends_wait_of(target, s, epoch) || refuse_success_of_parallel(target, s)) return;
    std::apply([&target](auto&... v) { resume_with(target, std::move(v)...); }, values);
  });
}

/// asi.errorNoThrow() in all cases but the plain one of a running step.
void late_error(step& s, ErrorCode code, std::string_view info);

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void flow_entry::enter(flow& f) noexcept {
  if (start_state* const word = start_of(f)) {
    const start_state::held start = word->hold();
    if (start != start_state::held::bound) {
      given_ = start == start_state::held::yes;
      too_late_ = !given_;
      if (given_) held_ = word;
      return;
    }
  }
  if (async::detail::current_loop == f.core) {
    given_ = true;
  } else {
    given_ = static_cast<bool>(*::new (static_cast<void*>(loop_))
                                   async::detail::loop_entry(*f.core, async::detail::loop_entry::who::owner));
    has_loop_ = true;
    unknown_ = !given_ && f.core->is_current_elsewhere();
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void flow_entry::leave_loop() noexcept {
  std::destroy_at(std::launder(reinterpret_cast<async::detail::loop_entry*>(loop_)));
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void raise_thrown(flow& f, const std::exception_ptr& thrown) noexcept {
  resume_after(f, [&thrown] { std::rethrow_exception(thrown); });
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void misuse_anywhere(flow& f, std::string_view literal) {
  const auto act = [literal, seen = f.seen_execution()](flow& target) {
    if (target.is_execution(seen)) misuse(target, literal);
  };
  const flow_entry here(f);
  if (here) return act(f);
  if (here.is_too_late()) return;
  if (here.is_unknown()) return misuse(f, async::detail::unknown_here);
  on_loop_of(f, act);
}

ASYNCSTEPS_FUNCTION bool refuse_success_of_parallel(flow& f, const step& s) noexcept {
  if ((s.flags_ & record_flag::is_group) == 0) return false;
  misuse(f, "success() of a parallel() or race() step");
  return true;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION late_call judge_late_success(const flow_entry& here, step& s) {
  flow& f = *s.flow_;
  const auto refuse = [&f](std::string_view what) {
    misuse(f, what);
    return late_call::nothing;
  };
  if (here.is_too_late()) return late_call::nothing;
  if (here.is_unknown()) return refuse(async::detail::unknown_here);
  if (!here) return late_call::goes_to_loop;
  if (f.run_by != nullptr) {
    if (f.is_failing() || f.is_cancelled()) return late_call::nothing;
    return refuse(f.run_by != &s      ? "success() of a step that is not running"
                  : f.has_succeeded() ? "success() after success()"
                                      : "success() of a step with sub-steps");
  }
  if (!ends_wait_of(f, s) || refuse_success_of_parallel(f, s)) return late_call::nothing;
  return late_call::ends_wait;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void late_error(step& s, ErrorCode code, std::string_view info) {
  flow& f = *s.flow_;
  const flow_entry here(f);
  if (here.is_too_late()) return;
  if (here.is_unknown()) return misuse(f, async::detail::unknown_here);
  if (!here) {
    const std::uint32_t epoch = f.wait_number();
    return on_loop_of(f, [&s, epoch, error = Error(code, info)](flow& target) {
      if (ends_wait_of(target, s, epoch)) raise(target, error.code(), error.explanation());
    });
  }
  if (f.run_by != nullptr) {
    return misuse(f, f.run_by != &s ? "error() of a step that is not running" : "error() after success()");
  }
  if (ends_wait_of(f, s)) raise(f, code, info);
}

ASYNCSTEPS_FUNCTION void release_control_block(flow_control_block& r) noexcept {
  if (!r.references.drop()) return;
  if (r.home != nullptr) r.home->remove_tenant();
  flow* const around = r.is_within_flow() ? r.address() : nullptr;
  std::destroy_at(&r);
  if (around != nullptr) return async::detail::free_block(around, pool_flow_block);
  async::detail::free_block(&r, sizeof(flow_control_block));
}

ASYNCSTEPS_FUNCTION flow_control_block& control_block_of(flow& f) {
  flow_control_block* known = f.control_block.get();
  if (known == nullptr) {
    auto* const made = ::new (async::detail::allocate_block(sizeof(flow_control_block)))
        flow_control_block(f, flow_control_block::place::apart);
    known = f.control_block.put(made);
    if (known != made) release_control_block(*made);
  }
  return *known;
}
#endif

}  // namespace steps::inline v0_1::detail
