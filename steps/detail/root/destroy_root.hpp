// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>  // for exception_ptr
#include <new>        // for bad_alloc
#include <utility>    // for exchange, move

#include "async/detail/base/chrono.hpp"             // for microseconds
#include "async/detail/base/config.hpp"             // for ASYNCSTEPS_SHARED
#include "async/detail/base/min_max.hpp"            // for max_of, min_of
#include "async/detail/base/naps.hpp"               // for tell_of_poll
#include "async/detail/loop/loop_entry.hpp"         // for loop_entry
#include "async/detail/loop/loop_ref.hpp"           // for loop_ref
#include "async/detail/pool/pool_worker.hpp"        // for left_over_of
#include "steps/detail/flow/destroy_handshake.hpp"  // for destroy_handshake
#include "steps/detail/root/end_message.hpp"        // for end_message, deliver_urgent_messages
#include "steps/detail/root/root.hpp"               // for cancel_on_loop, begin, detach_control_block

/// Destruction of root flows by their owner, on any thread.
namespace steps::inline v0_1::detail {

/// For a cancelled flow that waits for its branches: ends the branches whose loops no thread is in. In the flow's loop.
inline void help_branches(flow& f) noexcept {
  if (f.is_cancel_held() && f.cur->ops_->help != nullptr) f.cur->ops_->help(*f.cur);
}

/// Request of a destroyer to the loop of another thread: cancel the flow and say when it has ended. While the flow
/// waits for branches on other loops, the request takes the place of the flow's promise. It lies on the destroyer's
/// stack, so that a destructor needs no memory.
class destroy_request final : public end_message, public promise_base {
 public:
  explicit destroy_request(flow& f) noexcept : end_message(&arrived), flow_(f) {}

  /// On the loop, once. Earlier messages to the flow may still be in the inbox.
  void carry_out() noexcept {
    cancel_on_loop(flow_);
    if (flow_.executes() && flow_.core->retract(flow_)) begin(flow_, async::detail::delivery::dropped);
    if (!flow_.executes()) return finish();
    promise_ = std::exchange(flow_.promise, this);
  }
  /// The destroyer waits until `deadline`. True: the flow belongs to it, and the request, which no thread uses.
  bool wait_until(async::detail::wait_clock::time_point deadline) noexcept { return word_.wait_until(deadline); }

 private:
  static void arrived(end_message& m) { static_cast<destroy_request&>(m).carry_out(); }
  void end(flow&, bool) override {}  // a cancelled flow calls cancelled()
  void cancelled() noexcept override {
    if (promise_ != nullptr) promise_->cancelled();
    finish();
  }
  void set_reason(std::exception_ptr why) noexcept override {
    if (promise_ != nullptr) promise_->set_reason(std::move(why));
  }
  void finish() noexcept {
    detach_control_block(flow_);  // messages that are still to come have lost their target
    word_.finish();
  }

  flow& flow_;  // the loop thread's until finish()
  promise_base* promise_ = nullptr;
  destroy_handshake word_;
};

/// The same, but only to cancel the flow, which the destroyer may not own: it waits until the loop has taken the
/// request.
class cancel_request final : public end_message {
 public:
  explicit cancel_request(flow& f) noexcept : end_message(&arrived), flow_(f) {}

  void carry_out() noexcept {
    cancel_on_loop(flow_);
    word_.finish();
  }
  bool wait_until(async::detail::wait_clock::time_point deadline) noexcept { return word_.wait_until(deadline); }

 private:
  static void arrived(end_message& m) { static_cast<cancel_request&>(m).carry_out(); }

  flow& flow_;
  destroy_handshake word_;
};

/// Carries out the request when no thread is in the loop.
template <class Request>
void carry_out_if_undriven(async::detail::loop_core& core, flow& f, Request& wait) noexcept {
  const loop_entry here(core);
  if (!here) return;
  if (core.retract(wait)) wait.carry_out();
  if (f.executes()) help_branches(f);
}

/// Cancels the flow and waits until it is idle and no other thread reaches it. For any thread. Waits for a callback of
/// the flow that runs on another thread, which may itself wait for flows on a loop that this thread is in.
void destroy_on_other_thread(flow& f) noexcept;

/// cancel() without memory: then it waits until the flow's loop has taken the request.
void cancel_in_destructor(flow& f) noexcept;

/// A turn on this thread of a flow that may be a branch on a loop of its own, or within one. Its callbacks may destroy
/// the root that the branch belongs to, whose loop another thread may be in.
struct branch_turn {
  explicit branch_turn(const flow& b) noexcept;
  ~branch_turn();
  branch_turn(const branch_turn&) = delete;
  branch_turn& operator=(const branch_turn&) = delete;
  const flow* branch;  // null: the flow is no branch, or has ended
  branch_turn* const outer;
};
ASYNCSTEPS_SHARED inline constinit thread_local branch_turn* branch_turns = nullptr;
inline branch_turn::branch_turn(const flow& b) noexcept
    : branch(b.root.parent_ != nullptr ? &b : nullptr), outer(std::exchange(branch_turns, this)) {}
inline branch_turn::~branch_turn() { branch_turns = outer; }

/// The branch is about to be destroyed, perhaps in its own turn.
inline void end_turn_of(const flow& b) noexcept {
  for (branch_turn* turn = branch_turns; turn != nullptr; turn = turn->outer) {
    if (turn->branch == &b) turn->branch = nullptr;
  }
}

/// resume() for a branch on a loop of its own.
inline void resume_branch(async::detail::runnable& r) {
  const branch_turn here(static_cast<flow&>(r));
  resume(r);
}

/// True when the flow waits for a branch that is in a callback on this thread.
inline bool is_in_branch_of(const flow& f) noexcept {
  for (const branch_turn* turn = branch_turns; turn != nullptr; turn = turn->outer) {
    const flow* at = turn->branch;
    while (at != nullptr && at != &f) at = at->root.parent_ != nullptr ? at->root.parent_->flow_ : nullptr;
    if (at != nullptr) return true;
  }
  return false;
}

/// destroy_root() of a flow that executes, or to which a message is on its way.
bool destroy_executing(flow& f, bool executes) noexcept;

/// True when the flow has ended, no thread reaches it, and nothing outside of its block belongs to it: its memory may
/// be freed at once.
inline bool needs_no_teardown(const flow& f) noexcept {
  return !f.is_known_to_execute() && f.has_remains() && !has_extras(f);
}

/// Cancels the flow and waits until it is idle and unreachable. False: a callback of the flow or a destructor of one of
/// its steps is on this thread's stack, or that of an object of the root, and the flow ends after that has returned:
/// the caller detaches it.
inline bool destroy_root(flow& f) noexcept {
  const bool executes = f.is_known_to_execute();
  if (!executes && is_unreached(f) && !f.is_running()) [[likely]]
    return true;
  return destroy_executing(f, executes);
}

#if ASYNCSTEPS_DEFINED
/// Waits for a request that has been pushed to the flow's loop.
template <class Request>
void wait_for_loop(async::detail::loop_core& loop, flow& f, Request& wait) noexcept {
  using std::chrono::microseconds;
  // Perhaps no thread runs the loops: their drivers have gone, or are this thread, or workers that all wait. So poll.
  constexpr microseconds shortest(50);
  constexpr microseconds longest(5'000);
  // A worker, or the thread that ends a pool.
  const bool may_drive = async::detail::worker_loop != nullptr || async::detail::left_over_of != nullptr;
  microseconds pause = may_drive ? microseconds::zero() : async::detail::current_loop != nullptr ? shortest : longest;
  while (!wait.wait_until(async::detail::wait_clock::now() + pause)) {
    deliver_urgent_messages();
    async::detail::tell_of_poll();
    if (may_drive || pause == longest) carry_out_if_undriven(loop, f, wait);
    pause = async::detail::min_of(async::detail::max_of(2 * pause, shortest), longest);
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void destroy_on_other_thread(flow& f) noexcept {
  const async::detail::loop_ref loop(*f.core);  // which may go as soon as the flow has ended
  destroy_request wait(f);
  if (loop.push(wait)) {
    wait_for_loop(*loop.get(), f, wait);
  } else {  // the loop has cancelled its flows, or is about to drop the message that would start this one
    wait_for_cancel(f);
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void cancel_in_destructor(flow& f) noexcept {
  try {
    cancel(f);
  } catch (const std::bad_alloc&) {
    const async::detail::loop_ref loop(*f.core);
    cancel_request wait(f);
    if (loop.push(wait)) wait_for_loop(*loop.get(), f, wait);  // else the loop has cancelled its flows
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION bool destroy_executing(flow& f, bool executes) noexcept {
  if (!executes && f.is_running()) return false;  // an object of the last execution destroys it
  if (!executes && f.core == nullptr) return true;
  if (executes && is_ending_here(f)) return false;
  if (executes && cancel_in_pool_queue(f, f.seen_execution())) {
    wait_for_cancel(f);
    return true;
  }
  const bool is_in_turn = async::detail::current_loop != nullptr;
  if (const loop_entry here(*f.core, loop_entry::who::owner); here) {
    cancel_on_loop(f);
    if (f.is_idle() && !f.executes()) {
      detach_control_block(f);  // as in finish()
      return true;
    }
    if (is_in_turn) return false;  // the branches that the flow waits for may wait for this callback
  }
  if (is_in_branch_of(f)) {
    cancel_in_destructor(f);
    return false;
  }
  destroy_on_other_thread(f);
  return true;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION bool leave_root_scopes_anew(flow& f) noexcept {
  leave_root_scopes(f);
  if (!f.is_detached()) return true;
  static_cast<void>(destroy_root(f));  // for messages that are on their way
  f.ops().release(f);
  return false;
}
#endif

}  // namespace steps::inline v0_1::detail
