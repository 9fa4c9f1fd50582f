// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for int64_t
#include <limits>   // for numeric_limits
#include <mutex>    // for lock_guard

#include "async/detail/base/adaptive_mutex.hpp"  // for adaptive_mutex
#include "async/detail/base/atomics.hpp"         // for atomic, wait_clock
#include "async/detail/base/chrono.hpp"          // for milliseconds
#include "async/detail/loop/timer_queue.hpp"     // for timer_queue, timer_node
#include "async/detail/pool/deadline_cover.hpp"  // for deadline_cover

namespace async::inline v0_1::detail {

/// The next deadlines of a pool's loops. A loop has its timers itself; it is armed here with the earliest one when a
/// turn ends. It stays armed while that deadline is not later than the loop's next one, so a timeout that is set and
/// cleared in every turn costs nothing here; the loop may be scheduled too early.
///
/// Workers that are awake look between tasks and turns; deadline_cover says which sleeper does.
///
/// `Mutex`: adaptive_mutex; models have another one.
///
/// Threads     any.
/// Progress    arm(), disarm() and fire() take a short lock; the others are wait-free.
template <class Mutex>
class basic_pool_timers {
 public:
  using time_point = wait_clock::time_point;
  static constexpr time_point never = (time_point::max)();
  static constexpr time_point fired_already = (time_point::min)();
  static constexpr std::size_t batch = 32;  // other workers see to the rest meanwhile

  /// A loop's place here.
  struct alarm : timer_node {
    alarm() noexcept : timer_node(nullptr) {}
    /// The time for which it is armed, or `never`. From its firing to the call of schedule() the earliest time of all,
    /// so that nobody arms it meanwhile.
    ///
    /// Relaxed, as all of this: the mutex orders what is done in the queue, and a thread that takes the lock after the
    /// firing sees the firing or what follows it. One that does not yet see that the firing is over leaves the
    /// alarm alone; the schedule() that follows brings another turn, which sees it.
    time_point at() const noexcept { return time_point(wait_clock::duration(at_.load(std::memory_order_relaxed))); }
    void set_at(time_point t) noexcept { at_.store(t.time_since_epoch().count(), std::memory_order_relaxed); }

    /// Whether it has fired, and schedule() is about to be called.
    bool has_fired() const noexcept { return at() == fired_already; }

   private:
    atomic<std::int64_t> at_{(std::numeric_limits<std::int64_t>::max)()};
  };

  /// Throws std::bad_alloc.
  explicit basic_pool_timers(time_point now) : queue_(now) { queue_.make_wheels(); }

  /// For the timer queues of the loops, so that they have the same ticks.
  time_point origin() const noexcept { return queue_.origin(); }

  /// The first deadline, or never. Relaxed: a look.
  time_point next() const noexcept { return to_time(cover_.first()); }

  /// Arms `a`, for a deadline that is earlier than the one it has. By the thread that has the loop.
  void arm(alarm& a, time_point deadline) noexcept {
    const std::lock_guard lock(mutex_);
    if (a.has_fired()) return;  // while this thread waited for the lock: the next turn follows, and arms it
    queue_.disarm(a);
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

  /// Calls schedule(alarm&) for up to `most` loops whose deadlines have come, at most `batch`. `by`: the calling
  /// worker. True: there may be more.
  template <class F>
  bool fire(time_point now, std::size_t most, const void* by, F schedule) noexcept {
    alarm* fired[batch];
    std::size_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      queue_.collect(now);
      count = queue_.take_due(most, [at = &fired[0]](timer_node& node) mutable noexcept {
        auto& a = static_cast<alarm&>(node);
        a.set_at(fired_already);
        *at++ = &a;
      });
      publish_next();
    }
    if (count != 0) last_fired_by_.store(by, std::memory_order_relaxed);  // relaxed: a hint
    for (std::size_t i = 0; i != count; ++i) {
      fired[i]->set_at(never);  // from here on the loop's thread may arm it again
      schedule(*fired[i]);
    }
    return count == most;
  }
  /// The worker that has fired timers last and is awake, so that it may fire the next. Null: none. Relaxed: a hint.
  const void* last_fired_by() const noexcept { return last_fired_by_.load(std::memory_order_relaxed); }
  /// That worker is about to sleep.
  void forget_last() noexcept { last_fired_by_.store(nullptr, std::memory_order_relaxed); }

  // --- which sleeper looks, see deadline_cover -----------------------------------------------------------------------

  time_point cover(bool others_fire) noexcept { return to_time(cover_.cover(others_fire)); }
  void uncover(time_point until) noexcept { cover_.uncover(to_ticks(until)); }
  bool is_uncovered() const noexcept { return cover_.is_uncovered(); }

 private:
  static time_point to_time(std::int64_t ticks) noexcept { return time_point(wait_clock::duration(ticks)); }
  static std::int64_t to_ticks(time_point t) noexcept { return std::int64_t{t.time_since_epoch().count()}; }
  void publish_next() noexcept { cover_.publish(to_ticks(queue_.next_deadline())); }

  Mutex mutex_;
  timer_queue<wait_clock> queue_;  // guarded by the mutex
  atomic<const void*> last_fired_by_{nullptr};
  deadline_cover cover_{std::chrono::duration_cast<wait_clock::duration>(std::chrono::milliseconds(1)).count()};
};

using pool_timers = basic_pool_timers<adaptive_mutex>;

}  // namespace async::inline v0_1::detail
