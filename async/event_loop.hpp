// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for invocable
#include <cstddef>      // for size_t
#include <exception>    // for exception_ptr
#include <new>          // for placement new
#include <type_traits>  // for decay_t
#include <utility>      // for move, exchange, forward

#include "async/detail/base/chrono.hpp"      // for duration, nanoseconds
#include "async/detail/base/durations.hpp"   // for to_nanoseconds, later
#include "async/detail/base/invoke.hpp"      // for invoke_and_drop, throw_bad_function_call
#include "async/detail/base/min_max.hpp"     // for max_of
#include "async/detail/base/unhandled.hpp"   // for hook_ref, unhandled_hook
#include "async/detail/loop/callback.hpp"    // for callback
#include "async/detail/loop/loop_core.hpp"   // for loop_core
#include "async/detail/loop/loop_entry.hpp"  // for loop_entry
#include "async/task.hpp"                    // for task
#include "async/time_source.hpp"             // for time_source

namespace async::inline v0_1 {

namespace detail {
struct pool_loop;
}

/// Runs callbacks one after another, on one thread at a time: at once, after a delay, or on behalf of other threads.
///
/// Use it for single-threaded code that waits a lot, with timers, many of which are cancelled. Do not use it to spread
/// work over cores (threadpool), nor to wait for files and sockets: embed it in the loop that does, see iterate().
///
/// Threads     one thread at a time owns a loop: the one that made it, or the last that called run() or iterate(). Any
///             thread may use immediate(), deferred(), post(), stop(), now(), is_same_thread(), current() and handles;
///             only the owner may use the rest. A loop of a threadpool has an owner only in a turn: the worker that
///             runs the turn, which may be another one each time. "The loop's thread" means the owner. Destroy a loop
///             only when no thread is in one of its calls. post() is the exception: its callback may cause the loop's
///             end, because post() does not touch the loop once the callback can run.
/// Order       immediates of the owner's thread run in the order made, as do posts of one thread, unless another thread
///             is destroying a flow of the loop. Timers run in the order of their deadlines, to a tick of 65.536
///             microseconds, and never early; between fast callbacks the loop looks at the clock once in up to 64. So
///             when callbacks become slow, a timer may first wait for about as many, whatever they take. A callback
///             runs on a clean stack, never from within the call that made it. One turn runs at most 256 posts first,
///             to which callbacks of other threads count, then at most 256 immediates and timers, in the order in which
///             they have become due: an immediate as it is made, also by the posts, a timer as the loop sees that its
///             time has come. So none starves the others.
/// Progress    calls from other threads are lock-free, except for the allocator, and wake the loop at most once
///             per sleep. An idle loop sleeps and uses no CPU.
/// Exceptions  an exception of a callback goes to the hook on_unhandled(). Without a hook, a message is written and the
///             program ends. An exception of the hook comes out of run() or iterate(); the loop stays usable.
///             pthread_exit() in a callback ends the thread that calls run(); on a pool, and in a step of a flow, it
///             ends the program with a message.
/// Memory      an event_loop takes 17 KiB, most of it for lists of timers. The loops of a pool share one such set. A
///             callback takes 128 recycled bytes, and one more block if its captures exceed task::inline_size. It is
///             destroyed on the loop's thread after it has run or was cancelled.
/// Lifetime    the destructor destroys callbacks that have not run, without running them; as in a callback, destructors
///             of their captures cannot wait for a result. Handles may outlive the loop.
/// Time        std::chrono::steady_clock, or another time_source, see manual_clock; now() tells it.
class event_loop {
 public:
  class handle;
  /// The result of iterate(): whether there is anything to wait for, and the time until it is due.
  using cycle_result = detail::loop_core::cycle_result;

  /// Makes a loop for run(), or for iterate() by an embedder that polls.
  event_loop() : event_loop(time_source{}) {}

  /// Makes a loop for iterate() by another loop, which calls iterate() again after `wake`. Once iterate() has said that
  /// there is nothing to do at once, `wake` is called when something is handed in or a callback is cancelled. The
  /// thread that does so calls it, perhaps two threads at a time. It is also called when iterate() throws the exception
  /// of a hook. It must not throw, nor call the loop, nor destroy it, nor wait for a lock that a thread holds while it
  /// uses the loop, an event or a future: other threads may spin until `wake` has returned. Write to a pipe or post to
  /// a queue there.
  explicit event_loop(task wake) : event_loop(time_source{}, std::move(wake)) {}

  /// Makes a loop with another time source.
  explicit event_loop(time_source time, task wake = {})
      : core_(&detail::loop_core::make(this, time, std::move(wake))) {}

  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;

  /// Destroys callbacks that have not run. Called by one of its own callbacks, it ends the program with a message.
  ~event_loop() {
    if (core_->is_left_behind()) return;  // in a child of fork(): the parent's memory stays as it is
    core_->close();
    core_->release();
  }

  /// Runs `work` in the loop's next turn. Throws std::bad_function_call if it is empty, std::bad_alloc, and
  /// stopped_by_fork in a child of fork() whose parent has the loop's thread.
  handle immediate(task work);

  /// Runs `work` when at least `delay` has passed; in the next turn if it is not positive. Throws like immediate().
  handle deferred(std::chrono::nanoseconds delay, task work);
  /// The same with any duration, clamped to the range of nanoseconds (292 years).
  template <class Rep, class Period>
  handle deferred(std::chrono::duration<Rep, Period> delay, task work);

  /// Runs `work` on the loop's thread soon, like immediate() without a handle. Also from the loop's own thread it goes
  /// through the inbox, so that posts of all threads keep their order. Throws like immediate().
  void post(task work) {
    require_callable(work);
    detail::callback::post(*core_, std::move(work));
  }

  /// The loop's time: that of its time_source, such as a manual_clock, else of std::chrono::steady_clock. Each call
  /// reads the clock. A callback of deferred() runs when now() has moved on by at least its delay.
  time_source::time_point now() const noexcept { return core_->now(); }

  /// True on the thread that owns the loop; for a loop of a threadpool, in a turn of it.
  bool is_same_thread() const noexcept { return core_->is_same_thread(); }

  /// Runs one turn, for use inside another loop. Never blocks.
  /// {true, 0}: call again at once. {true, d}: there is nothing to do for `d`, unless woken. {false, 0}: there is
  /// nothing to do until woken. Throws std::logic_error inside a callback of this loop, when another thread is in it,
  /// and for a loop of a threadpool.
  cycle_result iterate() { return core_->turn(); }

  /// Runs callbacks, and sleeps in between, until stop(). Throws std::logic_error like iterate(). In a task of a pool
  /// it holds up the pool's thread: put it into a blocking_section there.
  void run() { core_->run_until((detail::loop_core::time_point::max)()); }

  /// The same until `duration` has passed, at least one turn. The end waits for callbacks as a timer does: see Order.
  void run_for(std::chrono::nanoseconds duration) { core_->run_until(after(duration)); }
  /// The same with any duration, clamped like that of deferred().
  template <class Rep, class Period>
  void run_for(std::chrono::duration<Rep, Period> duration) {
    run_for(detail::to_nanoseconds(duration));
  }

  /// Makes run() or run_for() return soon. Ready callbacks may still run; the rest stays. If neither is running, the
  /// next call of either returns at once. Does nothing to a loop of a threadpool.
  void stop() noexcept { core_->stop(); }

  /// The loop that is running a callback on this thread. Otherwise, in a task or hook on worker number i of a
  /// threadpool, or on a stand-in for it, loop(i): what the task gives to it may run on another worker, also while the
  /// task goes on. Null: neither, as in a task that a thread outside of pools runs, in a wait for its group or because
  /// the pool is full. A worker that runs such a task of another pool keeps the loop of its own pool.
  static event_loop* current() noexcept {
    detail::loop_core* const core = detail::current_loop != nullptr ? detail::current_loop : detail::worker_loop;
    return core != nullptr ? &core->loop() : nullptr;
  }

  /// Gives `hook` the exceptions that callbacks and flows leave unhandled, on the loop's thread. Without a hook they
  /// end the program with a message. Only the owner may call this, outside of run() and iterate() or in a callback.
  template <std::invocable<std::exception_ptr> F>
  void on_unhandled(F&& hook) {
    core_->set_unhandled(detail::hook_ref(new hook_of<std::decay_t<F>>(std::forward<F>(hook))));
  }

  /// Returns unused memory to the system. Returns the number of bytes; 0 while another thread is in the loop. Only the
  /// owner may call this.
  std::size_t trim() noexcept {
    const detail::loop_entry here(*core_);
    return here ? core_->trim() : 0;
  }

 private:
  friend struct detail::pool_loop;
  friend detail::loop_core& detail::core_of(event_loop& loop) noexcept;

  /// For the loops of a pool, see loop_core. `memory`: for the core.
  event_loop(detail::loop_setting& setting, void* memory, detail::loop_core::time_point origin) noexcept
      : core_(::new(memory) detail::loop_core(this, setting, origin)) {}

  template <class F>
  struct hook_of final : detail::unhandled_hook {
    explicit hook_of(const F& f) : function(f) {}
    explicit hook_of(F&& f) : function(std::move(f)) {}
    void operator()(std::exception_ptr error) override { detail::invoke_and_drop(function, std::move(error)); }
    F function;
  };

  handle next_turn(task& work);
  handle after_delay(std::chrono::nanoseconds delay, task& work);
  handle immediate_between_turns(task&& work);
  static void require_callable(const task& work) {
    if (!work) detail::throw_bad_function_call();
  }
  detail::loop_core::time_point after(std::chrono::nanoseconds delay) const noexcept {
    return detail::later(core_->now(), detail::max_of(delay, delay.zero()));
  }

  detail::loop_core* const core_;
};

/// Refers to a callback that was given to immediate() or deferred() of an event_loop. A default-made handle refers to
/// none.
///
/// Threads     one thread at a time for each handle; copies may be used by different threads.
/// Lifetime    may outlive the callback and the loop: all calls are no-ops then.
class event_loop::handle {
 public:
  handle() noexcept = default;
  handle(const handle& other) noexcept : callback_(other.callback_) {
    if (callback_ != nullptr) callback_->add_ref();
  }
  handle(handle&& other) noexcept : callback_(std::exchange(other.callback_, nullptr)) {}
  handle& operator=(handle other) noexcept {
    std::swap(callback_, other.callback_);
    return *this;
  }
  ~handle() { reset(); }

  /// Cancels the callback. True: it will not run. False: it has run, was cancelled before, or the loop's thread is just
  /// starting it and goes on. Afterwards the handle refers to none. The callback's captures are destroyed on the loop's
  /// thread: before cancel() returns if that is the calling thread, else, or if another thread has just made it, in the
  /// next turn. Where cancel() destroys them between turns, that is in no callback, and they may own the loop.
  bool cancel() noexcept {
    const handle taken(std::move(*this));  // *this may be among the captures that are destroyed
    return taken.callback_ != nullptr && taken.callback_->cancel();
  }

  /// True while the callback has neither started nor been cancelled. On other threads than the loop's the answer may be
  /// out of date already.
  explicit operator bool() const noexcept { return callback_ != nullptr && callback_->pending(); }

  /// Refers to none from here on; the callback still runs.
  void reset() noexcept {
    if (detail::callback* const old = std::exchange(callback_, nullptr); old != nullptr) old->release();
  }

 private:
  friend class event_loop;
  explicit handle(detail::callback* c) noexcept : callback_(c) {}

  detail::callback* callback_ = nullptr;
};

inline event_loop::handle event_loop::immediate(task work) { return next_turn(work); }

inline event_loop::handle event_loop::next_turn(task& work) {
  require_callable(work);
  if (detail::current_loop != core_) return immediate_between_turns(std::move(work));
  return core_->closing() ? handle() : handle(detail::callback::immediate(*core_, std::move(work)));
}

[[gnu::noinline]] inline event_loop::handle event_loop::immediate_between_turns(task&& work) {
  const detail::loop_entry entry(*core_, detail::loop_entry::who::owner);
  if (!entry) return handle(detail::callback::sent(*core_, std::move(work)));
  if (core_->closing()) return {};
  return handle(detail::callback::immediate(*core_, std::move(work)));
}

inline event_loop::handle event_loop::deferred(std::chrono::nanoseconds delay, task work) {
  return after_delay(delay, work);
}

inline event_loop::handle event_loop::after_delay(std::chrono::nanoseconds delay, task& work) {
  if (delay <= delay.zero()) return next_turn(work);
  require_callable(work);
  const detail::loop_entry entry(*core_, detail::loop_entry::who::owner);
  if (!entry) return handle(detail::callback::sent(*core_, after(delay), std::move(work)));
  if (core_->closing()) return {};
  return handle(detail::callback::deferred(*core_, after(delay), std::move(work)));
}

template <class Rep, class Period>
event_loop::handle event_loop::deferred(std::chrono::duration<Rep, Period> delay, task work) {
  return after_delay(detail::to_nanoseconds(delay), work);
}

namespace detail {
/// The part that flows and pools are built on.
inline loop_core& core_of(event_loop& loop) noexcept { return *loop.core_; }
}  // namespace detail

}  // namespace async::inline v0_1
