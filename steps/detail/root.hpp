// SPDX-License-Identifier: BSL-1.0
// floor: 10
#pragma once
#include <chrono>     // for milliseconds
#include <cstdint>    // for uint32_t, uintptr_t
#include <exception>  // for terminate, make_exception_ptr
#include <memory>     // for destroy_at

#include "async/detail/atomics.hpp"       // for atomic, wait_on_word, wake_one
#include "async/detail/loop_entry.hpp"    // for loop_entry
#include "async/detail/loop_host.hpp"     // for loop_host
#include "async/detail/pool_core.hpp"     // for pool_core
#include "async/detail/trace_points.hpp"  // for ASYNC_TRACE_INSTANT
#include "steps/detail/remote.hpp"        // for on_loop_of, forget_remote

/// Root flows: execute, cancel, destroy, and the errors that nobody has handled.
namespace steps::detail {

using async::detail::loop_entry;

/// True when something outside of its block belongs to the flow. Asked by who has it.
inline bool has_more(const flow& f) noexcept {
  const auto word = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  return (word(f.scopes) | word(f.chunks) | word(f.state) | word(f.elsewhere.load(std::memory_order_relaxed))) !=
         0;  // relaxed: made by others before
}
[[gnu::noinline]] inline void drop_more(flow& f) noexcept {
  if (f.scopes != nullptr || f.chunks != nullptr) clear_remains(f);
  destroy_state(f);
  forget_remote(f);
}

/// The flow's end as an object; its memory stays.
inline void destroy_flow(flow& f) noexcept {
  if (has_more(f)) [[unlikely]]
    drop_more(f);
  std::destroy_at(&f);
}

/// The end of a root flow's execution by an error, or with a promise.
[[gnu::noinline]] inline void end_root_otherwise(flow& f, bool failed) {
  if (promise_base* const promise = std::exchange(f.promise, nullptr)) return promise->end(f, failed);
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

/// The end of a root flow's execution. An error goes to the promise, else to the state's hook, else to the loop's.
inline void end_root(flow& f) {
  const bool failed = f.signal() == signal::error;
  if (!failed && f.promise == nullptr) [[likely]]
    return settle(f);
  end_root_otherwise(f, failed);
}

/// There is no memory for a place in the ready queue.
[[gnu::noinline]] inline void begin_without_memory(flow& f) {
  ASYNC_TRACE_INSTANT(flow_start, "flow", async::detail::trace_id(&f));
  set_error(f, errors::InternalError, "out of memory");
  drop_built(f);
  f.has_place = false;
  f.at = phase::running;
  f.ops->end(f);
}

/// execute() of another thread arrives at the loop.
inline void begin(async::detail::message& m, async::detail::delivery how) {
  flow& f = static_cast<flow&>(m);
  if (how == async::detail::delivery::on_loop && f.signal() != signal::cancel) {
    try {
      return start(f);
    } catch (...) {
      return begin_without_memory(f);
    }
  }
  drop_built(f);
  settle(f);
}

/// Starts an execution in a turn of the flow's loop, and takes the flow's first turn at once.
inline void start_here(flow& f) {
  std::uint32_t why;
  try {
    why = prepare(f);
  } catch (...) {
    return begin_without_memory(f);
  }
  f.signal(why);
  f.at = phase::queued;
  resume(f);
}

/// The task that starts a flow on a pool: whichever worker takes it binds the flow to its loop, for good.
class start_task {
 public:
  explicit start_task(flow& f) : pool_(*f.pool), remote_(&reach(f)), number_(remote_->start.queue()) {}
  start_task(start_task&& other) noexcept
      : pool_(other.pool_), remote_(std::exchange(other.remote_, nullptr)), number_(other.number_) {}
  start_task& operator=(start_task&&) = delete;
  ~start_task() { let_go(); }

  void operator()() {
    const auto place = pool_.place_for_flow();
    async::detail::loop_core& core = place.loop.core();
    if (place.here) {
      place.loop.visit([this, &core] {  // before the flow can be reached there
        if (flow* const f = take(core)) {
          bind();
          start_here(*f);
        }
      });
    } else if (flow* const f = take(core)) {
      const bool sent = core.push(*f);
      bind();
      if (!sent) begin(*f, async::detail::delivery::dropped);
    }
  }

 private:
  flow* take(async::detail::loop_core& core) noexcept {
    if (!remote_->start.take(number_)) return nullptr;
    flow* const f = remote_->target;
    f->core = &core;
    return f;
  }
  void bind() noexcept {
    remote_->start.bind();
    let_go();
  }
  void let_go() noexcept {
    if (remote* const r = std::exchange(remote_, nullptr)) release_remote(*r);
  }

  async::detail::pool_core& pool_;
  remote* remote_;
  std::uint32_t number_;
};

/// A flow that this thread has taken out of a pool's queue, for good, and whose steps it drops.
struct unstarted_drop {
  const flow* what;
  const unstarted_drop* outer;  // the destructor of a step of that one has led here
};
inline constinit thread_local const unstarted_drop* unstarted_drops = nullptr;

inline void drop_unstarted(flow& f) noexcept {
  const unstarted_drop here{&f, unstarted_drops};
  unstarted_drops = &here;
  drop_built(f);
  unstarted_drops = here.outer;
  settle(f);
}
inline bool is_dropped_here(const flow& f) noexcept {
  const unstarted_drop* drop = unstarted_drops;
  while (drop != nullptr && drop->what != &f) drop = drop->outer;
  return drop != nullptr;
}

/// For the flow's owner, when another thread cancels it before its start: waits until that has been done.
inline void wait_for_cancel(const flow& f) noexcept {
  while (f.is_seen_to_execute()) async::detail::yield_thread();
}

inline void queue_start(flow& f) {
  start_task task(f);  // before others can look for its word
  f.show_execution();
  try {
    f.pool->submit(std::move(task));
  } catch (...) {
    start_word& word = *start_of(f);
    if (word.hold() == start_word::held::yes) {
      word.cancel();
      f.active.store(0, std::memory_order_relaxed);  // nobody else has it
    } else {
      wait_for_cancel(f);
    }
    throw;
  }
}

/// Gives the flow to its loop or pool. Throws std::bad_alloc, what the pool's queue throws, and Error when the loop has
/// gone; the flow is idle then, its steps are as they were.
[[gnu::noinline]] inline void execute_anyway(flow& f) {
  if (f.is_seen_to_execute()) return misuse_anywhere(f, "execute() of a flow that executes");
  if (f.ended) clear_remains(f);
  if (f.state != nullptr) state_access::reset(*f.state, f.signal() == signal::error);
  f.cur = &f.root;
  if (f.core == nullptr) return queue_start(f);
  f.show_execution();
  try {
    if (const loop_entry here(*f.core, loop_entry::who::owner); here) return start(f);
    if (f.core->push(f)) return;
    throw Error(errors::InternalError, "the flow's event loop has gone");
  } catch (...) {
    f.active.store(0, std::memory_order_relaxed);  // nobody else has seen it
    throw;
  }
}

/// The same; what is here is for the owner of the loop, and a flow without history.
[[gnu::noinline]] inline void execute(flow& f) {
  if (!f.is_seen_to_execute() && !f.ended && f.state == nullptr && f.core != nullptr && f.signal() == signal::none)
      [[likely]] {
    const async::detail::owner_entry here(*f.core);
    if (here && f.core->ready().try_reserve()) [[likely]] {
      f.show_execution();
      return start_with_place(f);
    }
  }
  execute_anyway(f);
}

/// Cancels a flow on its loop's thread; when it has returned it has happened.
inline void cancel_here(flow& f) noexcept {
  if (!f.executes()) return;
  if (f.at == phase::running) return cancel_running(f);
  if (f.at != phase::idle) return cancel_now(f);
  f.signal(signal::cancel);  // begin() is still to come
}

/// Cancels a flow that waits in a pool's queue. False: it is bound to a loop.
inline bool cancel_unstarted(flow& f) noexcept {
  start_word* const word = start_of(f);
  const start_word::held start = word != nullptr ? word->hold() : start_word::held::bound;
  if (start == start_word::held::bound) return false;
  if (start == start_word::held::yes) {
    word->cancel();  // first: destructors of steps are users' functions, and may cancel it, too
    drop_unstarted(f);
  }
  return true;
}

/// Cancels a flow, from any thread; from another than the loop's it is a request. Throws std::bad_alloc there.
inline void cancel(flow& f) {
  if (!f.is_seen_to_execute()) return;
  if (cancel_unstarted(f)) return;
  if (const loop_entry here(*f.core, loop_entry::who::owner); here) return cancel_here(f);
  on_loop_of(f, [](flow& target) { cancel_here(target); });
}

/// The destruction of a flow that executes on another thread's loop: the destroyer waits for the cancel, and for the
/// end of branches on other loops. While it waits for these, this has the place of the flow's promise.
class farewell final : public async::detail::message, public promise_base {
 public:
  explicit farewell(flow& f) noexcept : message(&arrived), target_(&f) {}

  /// On the loop.
  void carry_out() noexcept {
    flow* const f = std::exchange(target_, nullptr);
    if (f == nullptr) return;
    cancel_here(*f);
    if (!f->executes()) return finish();
    promise_ = std::exchange(f->promise, this);
  }
  /// The destroyer waits until `deadline`. True: the flow is the destroyer's.
  bool wait_until(async::detail::wait_clock::time_point deadline) noexcept {
    async::detail::wait_on_word(done_, 0, &deadline);
    return done_.load(std::memory_order_acquire) != 0;  // [E8] acquire, pairs with [E7]
  }
  void release() noexcept {
    // [E9] acq_rel, pairs with itself: whoever frees it has seen the other's last access
    if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    std::destroy_at(this);
    async::detail::free_block(this, sizeof(farewell));
  }

 private:
  static void arrived(message& m, async::detail::delivery) { static_cast<farewell&>(m).carry_out(); }
  void end(flow&, bool) override {}  // cancelled flows drop()
  void drop() noexcept override {
    if (promise_ != nullptr) promise_->drop();
    finish();
  }
  void finish() noexcept {
    // [E7] release, pairs with [E8]: the flow is the destroyer's from here on
    done_.store(1, std::memory_order_release);
    async::detail::wake_one(done_);
    release();
  }

  flow* target_;  // the loop thread's
  promise_base* promise_ = nullptr;
  async::detail::atomic<std::uint32_t> done_{0};
  async::detail::atomic<std::uint32_t> references_{2};  // the destroyer's, and that of the message or of the flow
};

/// A flow that is cancelled and waits for its branches: ends those whose loops nobody drives. In the flow's loop.
inline void help_branches(flow& f) noexcept {
  if (is_held(f) && f.cur->ops_ != nullptr && f.cur->ops_->help != nullptr) f.cur->ops_->help(*f.cur);
}

/// Does what the message asks for when no thread is in the loop. Messages to the flow that came before it may still be
/// in the loop's inbox: they have lost their target when another thread gets there.
inline void claim(async::detail::loop_core& core, flow& f, farewell& wait) noexcept {
  const loop_entry here(core);
  if (!here) return;
  if (core.retract(wait)) wait.carry_out();
  if (f.executes() && core.retract(f)) begin(f, async::detail::delivery::dropped);
  if (f.executes()) help_branches(f);
  if (!f.executes()) forget_remote(f);
}

/// Makes sure that the flow is idle and that no other thread reaches it, whatever thread this is. Waits for a callback
/// of the flow that is running on another thread.
[[gnu::noinline]] inline void retire_elsewhere(flow& f) noexcept {
  auto* const wait = ::new (async::detail::allocate_block(sizeof(farewell))) farewell(f);
  if (f.core->push(*wait)) {
    // The loops may be driven by nobody any more, or by this very thread, which no message tells: look now and then.
    auto again = async::detail::wait_clock::now();
    if (async::detail::home_loop == nullptr) again += std::chrono::milliseconds(5);
    for (; !wait->wait_until(again); again = async::detail::wait_clock::now() + std::chrono::milliseconds(5)) {
      claim(*f.core, f, *wait);
    }
  } else {  // the loop has cancelled its flows
    wait->release();
  }
  wait->release();
}

/// retire() of a flow that executes, or to which a message is on its way.
[[gnu::noinline]] inline bool retire_active(flow& f, bool executes) noexcept {
  if (!executes && f.core == nullptr) return true;
  if (executes && cancel_unstarted(f)) {
    if (is_dropped_here(f)) return false;
    wait_for_cancel(f);
    return true;
  }
  const bool is_in_turn = async::detail::current_loop != nullptr;
  if (const loop_entry here(*f.core, loop_entry::who::owner); here) {
    cancel_here(f);
    if (f.at == phase::idle && !f.executes()) {
      forget_remote(f);  // as in claim()
      return true;
    }
    if (is_in_turn) return false;  // what it waits for may wait for this callback
  }
  retire_elsewhere(f);
  return true;
}

/// True when the flow has ended, nobody reaches it, and there is nothing outside of its block: no more needs to be done
/// about its end.
inline bool is_bare(const flow& f) noexcept { return !f.is_seen_to_execute() && f.ended && !has_more(f); }

/// True when the flow is idle and unreachable; false: it is running a callback on this thread, or the destructor of a
/// step, and its end is to come.
inline bool retire(flow& f) noexcept {
  const bool executes = f.is_seen_to_execute();
  if (!executes && is_unreached(f)) [[likely]]
    return true;
  return retire_active(f, executes);
}

}  // namespace steps::detail
