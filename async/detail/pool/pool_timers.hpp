// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>   // for milliseconds
#include <cstdint>  // for int64_t
#include <limits>   // for numeric_limits
#include <mutex>    // for mutex, lock_guard

#include "async/detail/base/atomics.hpp"         // for atomic, wait_clock
#include "async/detail/loop/timer_queue.hpp"     // for timer_queue, timer_node
#include "async/detail/pool/deadline_cover.hpp"  // for deadline_cover

namespace async::detail {

/// The next deadlines of a pool's loops. A loop has its timers itself; it is armed here with the earliest one when a
/// turn ends. It stays armed while that deadline is not later than the loop's next one, so a timeout that is set and
/// cleared in every turn costs nothing here; the loop may be scheduled too early.
///
/// Workers that are awake look between tasks and turns; deadline_cover says which sleeper does.
///
/// Threads     any.
/// Progress    arm(), disarm() and fire() take a short lock; the others are wait-free.
class pool_timers {
 public:
  using time_point = wait_clock::time_point;
  static constexpr time_point never = (time_point::max)();
  static constexpr time_point fired_already = (time_point::min)();

  /// A loop's place here.
  struct alarm : timer_node {
    alarm() noexcept : timer_node(&fired) {}
    static void fired(timer_node& node) noexcept {
      auto& self = static_cast<alarm&>(node);
      self.set_at(fired_already);
      self.next_fired = nullptr;
      **self.list_end = &self;
      *self.list_end = &self.next_fired;
    }
    /// The time for which it is armed, or `never`. From its firing to the call of schedule() the earliest time of all,
    /// so that nobody arms it meanwhile. Relaxed: a guess, arm() and disarm() ask has_fired() under the lock.
    time_point at() const noexcept { return time_point(wait_clock::duration(at_.load(std::memory_order_relaxed))); }
    void set_at(time_point t) noexcept { at_.store(t.time_since_epoch().count(), std::memory_order_relaxed); }

    /// Whether it is in a list of those that have fired, and schedule() is about to be called.
    bool has_fired() const noexcept {
      // [PT1] acquire, pairs with [PT2]: it may be linked into another list
      return at_.load(std::memory_order_acquire) == fired_already.time_since_epoch().count();
    }
    /// It has left the list.
    void forget_firing() noexcept {
      // [PT2] release, pairs with [PT1]: this thread has read the link
      at_.store(never.time_since_epoch().count(), std::memory_order_release);
    }

    alarm* next_fired = nullptr;
    alarm*** list_end = nullptr;  // while it is armed: the end of the pool's list of those that fire
    atomic<std::int64_t> at_{(std::numeric_limits<std::int64_t>::max)()};
  };

  /// Throws std::bad_alloc.
  explicit pool_timers(time_point now) : queue_(now) { queue_.make_wheels(); }

  /// For the timer queues of the loops, so that they have the same ticks.
  time_point origin() const noexcept { return queue_.origin(); }

  /// The first deadline, or never. Relaxed: a look.
  time_point next() const noexcept { return to_time(cover_.first()); }

  /// Arms `a`, for a deadline that is earlier than the one it has. By the thread that has the loop.
  void arm(alarm& a, time_point deadline) noexcept {
    const std::lock_guard lock(mutex_);
    if (a.has_fired()) return;  // while this thread waited for the lock: the next turn follows, and arms it
    queue_.disarm(a);
    a.list_end = &end_of_fired_;
    queue_.arm(a, deadline);
    a.set_at(deadline);
    publish_next();
  }
  void disarm(alarm& a) noexcept {
    const std::lock_guard lock(mutex_);
    if (a.has_fired()) return;  // it belongs to the thread that is about to schedule it
    queue_.disarm(a);
    a.set_at(never);
    publish_next();
  }

  /// Calls schedule(alarm&) for each loop whose deadline has come. `by`: the calling worker.
  template <class F>
  void fire(time_point now, const void* by, F schedule) noexcept {
    alarm* fired = nullptr;
    {
      const std::lock_guard lock(mutex_);
      end_of_fired_ = &fired;
      static_cast<void>(queue_.expire(now));
      publish_next();
    }
    if (fired != nullptr) last_fired_by_.store(by, std::memory_order_relaxed);  // relaxed: a hint
    while (fired != nullptr) {
      alarm& a = *fired;
      fired = a.next_fired;
      a.forget_firing();  // from here on the loop's thread may arm it again
      schedule(a);
    }
  }
  /// Relaxed: a hint.
  const void* last_fired_by() const noexcept { return last_fired_by_.load(std::memory_order_relaxed); }

  // --- which sleeper looks, see deadline_cover -----------------------------------------------------------------------

  time_point cover(bool others_fire) noexcept { return to_time(cover_.cover(others_fire)); }
  void uncover(time_point until) noexcept { cover_.uncover(to_ticks(until)); }
  bool is_uncovered() const noexcept { return cover_.is_uncovered(); }

 private:
  static time_point to_time(std::int64_t ticks) noexcept { return time_point(wait_clock::duration(ticks)); }
  static std::int64_t to_ticks(time_point t) noexcept { return std::int64_t{t.time_since_epoch().count()}; }
  void publish_next() noexcept { cover_.publish(to_ticks(queue_.next_deadline())); }

  std::mutex mutex_;
  timer_queue<wait_clock> queue_;   // guarded by the mutex
  alarm** end_of_fired_ = nullptr;  // likewise
  atomic<const void*> last_fired_by_{nullptr};
  deadline_cover cover_{std::chrono::duration_cast<wait_clock::duration>(std::chrono::milliseconds(1)).count()};
};

}  // namespace async::detail
