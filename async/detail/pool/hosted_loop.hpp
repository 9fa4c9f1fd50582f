// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for max
#include <cstdint>    // for uint32_t
#include <utility>    // for exchange

#include "async/detail/loop/loop_host.hpp"    // for loop_host
#include "async/detail/pool/loop_driver.hpp"  // for loop_driver
#include "async/event_loop.hpp"               // for event_loop

namespace async::detail {

struct worker;

/// The event loop of a worker, its owner for ever. Its driver is the worker whose thread turns it: the owner, another
/// worker while the owner has no thread, or none while the pool is paused; see loop_assignment. The loop's address
/// stays the same, so its users do not notice.
///
/// Threads     `driver` is written under the crew's mutex, `next` belongs to the list that the loop is in.
struct hosted_loop {
  /// `wake` wakes a sleeping driver, so that it looks at the loop.
  hosted_loop(worker& its_owner, void (*wake)(worker& driver) noexcept)
      : owner(its_owner),
        loop(task([this, wake] {
          if (worker* const w = driver.to_wake()) wake(*w);
        })),
        host(core_of(loop)) {}

  worker& owner;
  event_loop loop;
  loop_host host;
  loop_driver<worker> driver;
  hosted_loop* next = nullptr;
};

/// The loops that a worker drives: its own, and those of workers without a thread.
///
/// Threads     the worker's.
class driven_loops {
 public:
  /// Whether turn() has something to do. A waiting timer is no work: sleep() tells its deadline.
  bool has_work() const noexcept {
    if (must_turn_) return true;
    for (const hosted_loop* h = first_; h != nullptr; h = h->next) {
      if (h->host.has_work()) return true;
    }
    return false;
  }
  /// The same for calls between tasks. While timers wait, it is also true once in some tens of microseconds, counted in
  /// calls, so that turn() looks at the clock.
  bool wants_turn() noexcept {
    if (must_turn_) return true;
    bool timers = false;
    for (hosted_loop* h = first_; h != nullptr; h = h->next) {
      if (h->host.has_work()) return true;
      timers = timers || h->host.has_timers();
    }
    if (!timers) {
      ++rests_;
      return false;
    }
    rests_ = 0;
    return ++calls_ >= calls_per_look_;
  }
  /// The number of tasks that may run before the next wants_turn(): more than one when the loops had no work for long.
  unsigned tasks_per_look() const noexcept { return rests_ < 256 ? 1 : 8; }

  /// Whether a turn() since the last call of were_active() has found work.
  bool were_active() noexcept { return std::exchange(active_, false); }

  /// Turns each loop once. Exceptions of the hooks for unhandled errors pass through.
  void turn() {
    const bool look = calls_ >= calls_per_look_ || must_turn_;
    rests_ = 0;
    must_turn_ = false;
    if (look) calls_ = 0;
    const loop_core::time_point before = last_look();
    for (hosted_loop* h = first_; h != nullptr; h = h->next) {
      active_ = active_ || h->host.has_work();
      h->host.turn(look);
    }
    if (const loop_core::time_point now = last_look(); look && now != before) adapt(now - before);
  }

  /// Announces to the loops that the thread sleeps. Brings `deadline` forward to the first timer. False: a loop has
  /// work.
  bool sleep(loop_core::time_point& deadline) {
    must_turn_ = true;
    calls_per_look_ = 1;  // the tasks that come next may take long
    for (hosted_loop* h = first_; h != nullptr; h = h->next) {
      if (!h->host.sleep(deadline)) return false;
    }
    return true;
  }

  bool drives(const hosted_loop& which) const noexcept {
    for (const hosted_loop* h = first_; h != nullptr; h = h->next) {
      if (h == &which) return true;
    }
    return false;
  }

  /// Takes a list of loops in.
  void add(hosted_loop* list) noexcept {
    while (list != nullptr) {
      hosted_loop& h = *list;
      list = std::exchange(h.next, first_);
      first_ = &h;
      must_turn_ = true;
    }
  }
  /// Takes out the loops for which leaves(loop) is true, and returns them as a list. They are still to be released.
  template <class Leaves>
  hosted_loop* take(Leaves leaves) noexcept {
    hosted_loop* taken = nullptr;
    for (hosted_loop** at = &first_; *at != nullptr;) {
      hosted_loop& h = **at;
      if (!leaves(h)) {
        at = &h.next;
        continue;
      }
      *at = std::exchange(h.next, std::exchange(taken, &h));
    }
    return taken;
  }

  /// Releases a list of loops: another thread may drive them. Waits for a thread inside one of them: call without locks
  /// that this thread may need. Without argument releases all loops here, which the next turn() claims again.
  static void release(hosted_loop* list) noexcept {
    for (; list != nullptr; list = list->next) list->host.release();
  }
  void release() noexcept { release(first_); }

 private:
  /// The latest time at which one of the loops has looked at the clock. Loops without timers do not look.
  loop_core::time_point last_look() const noexcept {
    auto latest = (loop_core::time_point::min)();
    for (const hosted_loop* h = first_; h != nullptr; h = h->next) {
      latest = (std::max)(latest, h->host.core().turn_time());
    }
    return latest;
  }
  /// Adapts the number of calls between looks, so that a look comes every 20 to 50 microseconds, or after each task
  /// that takes longer.
  void adapt(std::chrono::nanoseconds since_look) noexcept {
    if (since_look > std::chrono::microseconds(50)) {
      calls_per_look_ = calls_per_look_ > 4 ? calls_per_look_ / 4 : 1;
    } else if (since_look < std::chrono::microseconds(20) && calls_per_look_ < 256) {
      calls_per_look_ *= 2;
    }
  }

  hosted_loop* first_ = nullptr;
  bool must_turn_ = true;    // a loop is new, or sleep() was called since the last turn()
  bool active_ = false;      // for were_active()
  std::uint32_t rests_ = 0;  // calls of wants_turn() since there was any work
  std::uint32_t calls_ = 0;  // of wants_turn() while timers wait, since the last look at the clock
  std::uint32_t calls_per_look_ = 1;
};

}  // namespace async::detail
