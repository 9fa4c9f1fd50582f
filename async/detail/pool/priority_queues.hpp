// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <mutex>        // for mutex, lock_guard
#include <type_traits>  // for is_nothrow_invocable_v

#include "async/detail/base/atomics.hpp"    // for atomic
#include "async/detail/base/config.hpp"     // for ASYNCSTEPS_FUNCTION
#include "async/detail/base/min_max.hpp"    // for max_of
#include "async/detail/pool/backlog.hpp"    // for backlog
#include "async/detail/pool/injector.hpp"   // for injector
#include "async/detail/pool/loop_slot.hpp"  // for loop_slot
#include "async/priority.hpp"               // for priority
#include "async/task.hpp"                   // for task

namespace async::inline v0_1::detail {

/// The queues of a pool for tasks and event loops of high and of low priority. They are made when the first such task
/// or flow comes.
///
/// For basic_sleepers they are sources of work like the injector and the backlog: work is put in before notify(), whose
/// fence also makes the queues visible to a thread that looks at every source before it sleeps.
///
/// Threads     any.
/// Progress    get() takes a lock the first time, close() always; the rest as async::queue and backlog.
class priority_queues {
 public:
  priority_queues() noexcept = default;
  ~priority_queues();
  priority_queues(const priority_queues&) = delete;
  priority_queues& operator=(const priority_queues&) = delete;

  struct level {
    explicit level(const injector& normal) : tasks(normal.capacity(), normal.when_full()) {}
    bool empty() const noexcept { return tasks.empty() && loops.empty(); }
    /// The oldest loop; null: none.
    pool_loop* take_loop() noexcept {
      const loop_slot* const s = loops.take(1);
      return s != nullptr ? s->loop : nullptr;
    }

    injector tasks;
    backlog<loop_slot> loops;
  };
  struct both {
    explicit both(const injector& normal) : high(normal), low(normal) {}
    level& of(priority wanted) noexcept { return wanted == priority::high ? high : low; }
    bool has_tasks() const noexcept { return !high.tasks.empty() || !low.tasks.empty(); }
    bool has_loops() const noexcept { return !high.loops.empty() || !low.loops.empty(); }
    void sample() noexcept {
      high.tasks.sample();
      low.tasks.sample();
    }

    level high;
    level low;
  };

  /// Null: no task or flow of high or low priority has come yet.
  both* find() const noexcept {
    return made_.load(std::memory_order_acquire);  // [W41] acquire, pairs with [W42]; not modelled: a pointer, once
  }
  /// The queues. Makes them the first time, with the limits of `normal`, and calls before() first. Throws
  /// std::bad_alloc.
  template <class Before>
    requires std::is_nothrow_invocable_v<Before&>
  both& get(const injector& normal, Before before) {
    if (both* const there = find()) return *there;
    const std::lock_guard lock(mutex_);
    if (both* const there = find()) return *there;
    both* const fresh = make(normal);
    before();
    made_.store(fresh, std::memory_order_release);  // [W42] release, pairs with [W41]; not modelled: see there
    return *fresh;
  }

  bool has_tasks() const noexcept {
    const both* const there = find();
    return there != nullptr && there->has_tasks();
  }
  bool has_loops() const noexcept {
    const both* const there = find();
    return there != nullptr && there->has_loops();
  }
  /// As injector::close(), also for queues that are made later.
  void close() noexcept;
  std::size_t peak() const noexcept {
    const both* const there = find();
    return there == nullptr ? 0 : max_of(there->high.tasks.peak(), there->low.tasks.peak());
  }
  std::size_t trim() noexcept;

 private:
  both* make(const injector& normal) const;
  static void close(both& all) noexcept {
    all.high.tasks.close();
    all.low.tasks.close();
  }

  atomic<both*> made_{nullptr};  // owned; written under the mutex
  std::mutex mutex_;             // guards what follows
  bool is_closed_ = false;
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION priority_queues::~priority_queues() { delete find(); }

ASYNCSTEPS_FUNCTION priority_queues::both* priority_queues::make(const injector& normal) const {
  auto* const made = new both(normal);
  if (is_closed_) close(*made);
  return made;
}

ASYNCSTEPS_FUNCTION void priority_queues::close() noexcept {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  if (both* const there = find()) close(*there);
}

ASYNCSTEPS_FUNCTION std::size_t priority_queues::trim() noexcept {
  both* const there = find();
  return there == nullptr ? 0 : there->high.tasks.trim() + there->low.tasks.trim();
}
#endif

/// Decides for a thread when its next task or loop comes from these queues, so that no priority starves another. One
/// thread's.
class priority_order {
 public:
  using both = priority_queues::both;
  using level = priority_queues::level;

  static constexpr unsigned most_high = 16;    // tasks and loops of high priority in a row
  static constexpr unsigned most_others = 61;  // while one of low priority waits

  /// To be called first in each turn of the thread. The level that comes before tasks and loops of normal priority;
  /// null: it is the turn of these.
  level* first(both& from) noexcept {
    if (from.low.empty()) {
      others_ = 0;
    } else if (others_++ == most_others) {
      others_ = 0;
      return &from.low;
    }
    if (from.high.empty() || high_++ == most_high) {
      high_ = 0;
      return nullptr;
    }
    return &from.high;
  }
  /// To be called where work of low priority is taken because there is no other.
  void begin_low() noexcept { others_ = 0; }

  /// Whether a thread that has just asked for a level looks at its loops before its tasks: every other time.
  bool are_loops_first() noexcept { return loops_first_ = !loops_first_; }

  /// Takes a loop, those of normal priority by take_normal(), which returns null if there is none. `from` may be null.
  template <class TakeNormal>
  pool_loop* take_loop(both* from, TakeNormal take_normal) noexcept {
    if (from == nullptr) return take_normal();
    level* const before = first(*from);
    pool_loop* h = before != nullptr ? before->take_loop() : nullptr;
    if (h == nullptr) h = take_normal();
    if (h == nullptr) h = from->high.take_loop();
    if (h == nullptr && (h = from->low.take_loop()) != nullptr) begin_low();
    return h;
  }
  /// Takes a task of either level, when there are no others. False: there is none.
  bool take_last(both& from, task& out) noexcept;

 private:
  unsigned others_ = 0;
  unsigned high_ = 0;
  bool loops_first_ = false;
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION bool priority_order::take_last(both& from, task& out) noexcept {
  if (from.high.tasks.take(out)) return true;
  begin_low();
  return from.low.tasks.take(out);
}
#endif

}  // namespace async::inline v0_1::detail
