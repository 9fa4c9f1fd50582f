// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <version>  // for __cpp_lib_jthread
#if defined(__cpp_lib_jthread)
#include <memory>       // for destroy_at
#include <stop_token>   // for stop_token, stop_source, stop_callback
#include <string_view>  // for string_view
#include <utility>      // for move

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_SHARED
#include "steps/iasyncsteps.hpp"         // for IAsyncSteps

/// std::stop_token for flows: a token of a step, and a flow that a token cancels. This header is empty where the
/// standard library has no <stop_token> (no __cpp_lib_jthread): libc++ 18 and 19 need -fexperimental-library.
namespace steps::inline v0_1 {

namespace detail {

/// The stop_source of a step: stop is requested when the step ends by an error, a timeout or cancel().
struct stop_scope : scope {
  static void left(scope& self) noexcept {
    auto& s = static_cast<stop_scope&>(self);
    if (self.ops == nullptr) s.source.request_stop();  // by error or cancel: the scope has been taken off first
    std::destroy_at(&s.source);
  }
  // As for timers: left before the cancel handlers run, and not replaced by setCancel().
  ASYNCSTEPS_SHARED static constexpr scope_ops ops{scope_ops::kind::leave_first, nullptr, &left};

  std::stop_source source;
};

inline std::stop_token stop_token_of(step& s) {
  constexpr std::string_view otherwise = "stop_token_of() outside a step function, or after success()";
  if (!may_wait(s, otherwise)) throw unwinding(errors::InternalError, otherwise);
  flow& f = *s.flow_;
  for (scope* old = f.scopes; old != nullptr && old->holder == &s; old = old->outer) {
    if (old->ops == &stop_scope::ops) return static_cast<stop_scope&>(*old).source.get_token();
  }
  if (!has_room(f, sizeof(stop_scope))) throw unwinding(errors::InternalError, info_of(f));
  return make_scope<stop_scope>(f, s).source.get_token();
}

}  // namespace detail

namespace interop {

/// A token for work on behalf of a step. Stop is requested when the step ends by an error, a timeout or cancel(),
/// before its cancel handlers run; not when it succeeds.
///
/// Use it inside a step function, for functions that take a std::stop_token. Do not use it to make the step wait: use
/// completion() or await().
///
///   asi.setTimeout(1s);
///   asi.await(pool.post([token = steps::interop::stop_token_of(asi)] { return search(token); }));
///
/// The time limit ends the step in a turn of its loop, which the pool's lookout makes while calls keep all workers. So
/// `pool` may be the flow's own if it has two workers or more; in a pool of one, the step ends only after the call.
///
/// Threads     the flow's loop; the token: any. Callbacks of the token run on the loop's thread, as the step ends: they
///             must not throw.
/// Exceptions  std::bad_alloc; Error outside of a running step function.
/// Memory      one stop state for all calls in a step, which the standard library allocates.
/// Lifetime    the token may outlive step, flow and loop.
inline std::stop_token stop_token_of(IAsyncSteps& asi) { return steps::detail::stop_token_of(asi); }

/// Cancels a root flow when stop is requested, for as long as this object lives.
///
/// Use it to end flows with the std::stop_source of a std::jthread, a server or a shutdown. Do not use it to end a
/// single step.
///
///   flow.execute();
///   steps::interop::cancel_on_stop link{flow, token};
///
/// Make it after execute() or promise(). If stop has been requested before, it cancels the flow at once. A flow that
/// does not execute has nothing to cancel.
///
/// Threads     any thread may request the stop, also while the flow ends. On the loop's thread the flow has been
///             cancelled when request_stop() returns. On another thread it is a request to the loop, which never
///             cancels a later execution.
/// Progress    the destructor waits for a request_stop() that is in the middle of this flow's cancel(), which never
///             blocks. Inside that cancel, in a cancel handler, the destructor does not wait.
/// Exceptions  std::bad_alloc if there is no memory to register the callback. Without memory for the request to another
///             thread's loop std::terminate is called, as for any exception in a stop callback.
/// Lifetime    ends before the flow's. The flow must not be moved meanwhile.
class cancel_on_stop {
 public:
  explicit cancel_on_stop(IAsyncSteps& root, std::stop_token token) : callback_(std::move(token), canceller{root}) {}
  cancel_on_stop(const cancel_on_stop&) = delete;
  cancel_on_stop& operator=(const cancel_on_stop&) = delete;

 private:
  struct canceller {
    IAsyncSteps& root;
    void operator()() const { root.cancel(); }
  };

  std::stop_callback<canceller> callback_;
};

}  // namespace interop
}  // namespace steps::inline v0_1
#endif
