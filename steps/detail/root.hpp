// SPDX-License-Identifier: BSL-1.0
// floor: 10
#pragma once
#include <chrono>     // for milliseconds
#include <cstdint>    // for uint32_t
#include <exception>  // for terminate, make_exception_ptr
#include <memory>     // for destroy_at

#include "async/detail/atomics.hpp"     // for atomic, wait_on_word, wake_one
#include "async/detail/loop_entry.hpp"  // for loop_entry
#include "steps/detail/remote.hpp"      // for on_loop_of, forget_remote

/// Root flows: execute, cancel, destroy, and the errors that nobody has handled.
namespace steps::detail {

using async::detail::loop_entry;

/// The flow's end as an object; its memory stays.
inline void destroy_flow(flow& f) noexcept {
  clear_remains(f);
  destroy_state(f);
  forget_remote(f);
  std::destroy_at(&f);
}

/// The end of a root flow's execution. An error goes to the promise, else to the state's hook, else to the loop's.
inline void end_root(flow& f) {
  const bool failed = f.signal() == signal::error;
  if (promise_base* const promise = std::exchange(f.promise, nullptr)) return promise->end(f, failed);
  if (!failed) return settle(f);
  if (f.state != nullptr) {
    if (const auto& hook = state_access::unhandled(*f.state)) {
      try {
        hook(f.pending.code);
      } catch (...) {
        report_exception(f, false);
      }
      return settle(f);
    }
  }
  const std::exception_ptr error = exception_of(f);
  async::detail::loop_core& core = *f.core;
  settle(f);
  core.unhandled(error);
}

/// execute() of another thread arrives at the loop.
inline void begin(async::detail::message& m, async::detail::delivery how) {
  flow& f = static_cast<flow&>(m);
  if (how == async::detail::delivery::on_loop && f.signal() != signal::cancel) {
    try {
      return start(f);
    } catch (...) {  // no memory for a place in the ready queue
      set_error(f, errors::InternalError, "out of memory");
    }
  }
  drop_steps(f, arena_of(f), f.root.sub_end_);
  f.cur = &f.root;
  f.has_place = false;
  if (f.signal() != signal::error) return settle(f);
  f.at = phase::running;
  f.ops->end(f);
}

/// Gives the flow to its loop. Throws std::bad_alloc, and Error when the loop has gone; the flow is idle then, its
/// steps are as they were.
inline void execute(flow& f) {
  if (f.executes()) {
    if (is_mine(f)) return misuse(f, "execute() of a flow that executes");
    return on_loop_of(f, [](flow& target) { misuse(target, "execute() of a flow that executes"); });
  }
  if (f.ended) clear_remains(f);
  if (f.state != nullptr) state_access::reset(*f.state, f.signal() == signal::error);
  f.cur = &f.root;
  f.root.sub_end_ = f.top;
  f.active.store(1, std::memory_order_relaxed);  // published with the message
  try {
    if (const loop_entry here(*f.core, loop_entry::who::owner); here) return start(f);
    if (f.core->push(f)) return;
    throw Error(errors::InternalError, "the flow's event loop has gone");
  } catch (...) {
    f.active.store(0, std::memory_order_relaxed);  // nobody else has seen it
    throw;
  }
}

/// Cancels a flow on its loop's thread; when it has returned it has happened.
inline void cancel_here(flow& f) noexcept {
  if (!f.executes()) return;
  if (f.at == phase::running) return cancel_running(f);
  if (f.at != phase::idle) return cancel_now(f);
  f.signal(signal::cancel);  // begin() is still to come
}

/// Cancels a flow, from any thread; from another than the loop's it is a request. Throws std::bad_alloc there.
inline void cancel(flow& f) {
  // [E2] acquire, pairs with [E1]: the flow's end is complete
  if (f.active.load(std::memory_order_acquire) == 0) return;
  if (const loop_entry here(*f.core, loop_entry::who::owner); here) return cancel_here(f);
  on_loop_of(f, [](flow& target) { cancel_here(target); });
}

/// The destruction of a flow that executes on another thread's loop: the destroyer waits for the cancel.
struct farewell : async::detail::message {
  explicit farewell(flow& f) noexcept : message(&arrived), target(&f) {}

  static void arrived(message& m, async::detail::delivery) {
    auto& self = static_cast<farewell&>(m);
    if (flow* const f = std::exchange(self.target, nullptr)) cancel_here(*f);
    self.finish();
  }
  void finish() noexcept {
    // [E7] release, pairs with [E8]: the flow is the destroyer's from here on
    done.store(1, std::memory_order_release);
    async::detail::wake_one(done);
    release();
  }
  void release() noexcept {
    // [E9] acq_rel, pairs with itself: whoever frees it has seen the other's last access
    if (references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    std::destroy_at(this);
    async::detail::free_block(this, sizeof(farewell));
  }

  flow* target;  // the loop thread's
  async::detail::atomic<std::uint32_t> done{0};
  async::detail::atomic<std::uint32_t> references{2};  // the destroyer's and the message's
};

/// Does what the message asks for when no thread is in the loop. False: one is.
inline bool claim(async::detail::loop_core& core, flow& f, farewell& wait) noexcept {
  const loop_entry here(core);
  if (!here) return false;
  if (core.retract(wait)) wait.release();
  if (flow* const target = std::exchange(wait.target, nullptr)) cancel_here(*target);
  if (f.executes() && core.retract(f)) begin(f, async::detail::delivery::dropped);
  return true;
}

/// Makes sure that the flow is idle and that no other thread reaches it, whatever thread this is. Waits for a callback
/// of the flow that is running on another thread.
[[gnu::noinline]] inline void retire_elsewhere(flow& f) noexcept {
  auto* const wait = ::new (async::detail::allocate_block(sizeof(farewell))) farewell(f);
  if (!f.core->push(*wait)) {  // the loop has cancelled its flows
    wait->release();
    wait->release();
    return;
  }
  for (;;) {
    // The loop may be driven by nobody any more, which no message tells: look now and then.
    const auto again = async::detail::wait_clock::now() + std::chrono::milliseconds(5);
    async::detail::wait_on_word(wait->done, 0, &again);
    // [E8] acquire, pairs with [E7]
    if (wait->done.load(std::memory_order_acquire) != 0 || claim(*f.core, f, *wait)) break;
  }
  wait->release();
}

/// True when the flow is idle and unreachable; false: it is running a callback on this thread, and its end is to come.
inline bool retire(flow& f) noexcept {
  const bool executes = f.active.load(std::memory_order_acquire) != 0;  // [E2]
  if (!executes && f.elsewhere.load(std::memory_order_relaxed) == nullptr) [[likely]]
    return true;
  if (const loop_entry here(*f.core, loop_entry::who::owner); here) {
    cancel_here(f);
    return f.at == phase::idle && !f.executes();
  }
  retire_elsewhere(f);
  return true;
}

}  // namespace steps::detail
