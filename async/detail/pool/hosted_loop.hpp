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

/// The event loop of a worker. It stays with its worker, whose thread drives it; while the worker has no thread, that
/// of another one does, or nobody, when the pool is paused. So whoever has the loop's address does not notice.
///
/// Threads     `driver` is written under the crew's mutex, `next` belongs to whoever has the list.
struct hosted_loop {
  /// `wake` brings the driver, who sleeps, to look at the loop.
  hosted_loop(worker& owner, void (*wake)(worker& driver) noexcept)
      : home(owner),
        loop(task([this, wake] {
          if (worker* const w = driver.whom_to_wake()) wake(*w);
        })),
        host(core_of(loop)) {}

  worker& home;
  event_loop loop;
  loop_host host;
  loop_driver<worker> driver;
  hosted_loop* next = nullptr;
};

/// The loops that a worker's thread drives: its own, and those of workers without a thread.
///
/// Threads     the worker's.
class driven_loops {
 public:
  /// True when turn() has something to do. A timer that waits is no work: who sleeps is told until when.
  bool has_work() const noexcept {
    if (must_turn_) return true;
    for (const hosted_loop* h = first_; h != nullptr; h = h->next) {
      if (h->host.has_work()) return true;
    }
    return false;
  }
  /// The same for calls between tasks: also when timers wait and it is time for a look at the clock, which is after as
  /// many calls as pass in some ten microseconds.
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
  /// How many tasks may run before the next call of wants_turn(): more than one where the loops have long had no work.
  unsigned tasks_per_look() const noexcept { return rests_ < 256 ? 1 : 8; }

  /// True when a turn() since the last call of this has found work.
  bool were_active() noexcept { return std::exchange(active_, false); }

  /// One pass over the loops. Exceptions of the hooks for unhandled errors pass through.
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

  /// Announces to the loops that the thread sleeps. False: there is something to do at once.
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

  /// Takes a list over.
  void add(hosted_loop* list) noexcept {
    while (list != nullptr) {
      hosted_loop& h = *list;
      list = std::exchange(h.next, first_);
      first_ = &h;
      must_turn_ = true;
    }
  }
  /// Takes those out that should go, according to leaves(loop); returns them as a list. They are to be released.
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

  /// Lets go of a list of loops; of all here, if nothing else is said, which the next turn() takes hold of again. Waits
  /// for whoever is in one of them, so under no lock that he may need.
  static void release(hosted_loop* list) noexcept {
    for (; list != nullptr; list = list->next) list->host.release();
  }
  void release() noexcept { release(first_); }

 private:
  /// When a loop has looked at the clock, which those without timers do not.
  loop_core::time_point last_look() const noexcept {
    auto latest = (loop_core::time_point::min)();
    for (const hosted_loop* h = first_; h != nullptr; h = h->next) {
      latest = (std::max)(latest, h->host.core().turn_time());
    }
    return latest;
  }
  /// Between tasks, timers are looked at every 20 to 50 microseconds, or after each longer task.
  void adapt(std::chrono::nanoseconds since_look) noexcept {
    if (since_look > std::chrono::microseconds(50)) {
      calls_per_look_ = calls_per_look_ > 4 ? calls_per_look_ / 4 : 1;
    } else if (since_look < std::chrono::microseconds(20) && calls_per_look_ < 256) {
      calls_per_look_ *= 2;
    }
  }

  hosted_loop* first_ = nullptr;
  bool must_turn_ = true;
  bool active_ = false;
  std::uint32_t rests_ = 0;  // calls of wants_turn() since there was any work
  std::uint32_t calls_ = 0;
  std::uint32_t calls_per_look_ = 1;
};

}  // namespace async::detail
