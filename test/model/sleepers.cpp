// SPDX-License-Identifier: BSL-1.0
//
// The sleep protocol of a pool. Parking slots outlive the execution, see parker's lifetime. A lost wake-up shows as a
// deadlock: work is left, and all threads sleep.
#include "relacy_runner.hpp"

#include "model_mutex.hpp"

#include "async/detail/pool/sleepers.hpp"

using async::detail::atomic;
using async::detail::basic_sleepers;
using async::detail::cell;
using async::detail::parker;
using model::check;
using model::mutex;

namespace {

struct work {};
using sleepers = basic_sleepers<mutex, work>;

/// The condition that a thread waits for inside a task: a flag. Meanwhile it may run `own`, if that is set.
struct flag_condition : sleepers::wait_condition {
  flag_condition() : sleepers::wait_condition{&ask_ready, &ask_may_run} {}

  bool is_true() const noexcept { return flag_.load(std::memory_order_acquire) != 0; }
  void make_true() noexcept { flag_.store(1, std::memory_order_release); }

  const work* own = nullptr;

 private:
  static bool ask_ready(const sleepers::wait_condition& self) noexcept {
    return static_cast<const flag_condition&>(self).is_true();
  }
  static bool ask_may_run(const sleepers::wait_condition& self, const work* w) noexcept {
    return static_cast<const flag_condition&>(self).own == w;
  }
  atomic<unsigned> flag_{0};
};

/// A pool with `Workers` workers and two sources of work: one for posts from outside, one for posts of a worker.
template <unsigned Workers>
struct pool {
  sleepers all;
  sleepers::sleeper parking_slots[Workers];
  atomic<unsigned> sources[2];
  atomic<unsigned> ran{0};
  atomic<unsigned> exit_requested{0};

  void post(unsigned source, const work* w = nullptr) {
    sources[source].fetch_add(1, std::memory_order_release);
    all.notify(w);
  }
  bool has_work() const {
    // relaxed, as the pool's looks are
    return sources[0].load(std::memory_order_relaxed) != 0 || sources[1].load(std::memory_order_relaxed) != 0;
  }
  bool take() {
    for (auto& source : sources) {
      unsigned there = source.load(std::memory_order_relaxed);
      while (there != 0) {
        if (source.compare_exchange_strong(there, there - 1, std::memory_order_acquire, std::memory_order_relaxed)) {
          return true;
        }
      }
    }
    return false;
  }
  void end_search() {
    all.end_search([this]() noexcept { return has_work(); });
  }
  bool is_exit_requested() const { return exit_requested.load(std::memory_order_relaxed) != 0; }

  /// A worker's life until `expected` tasks have run: the worker that runs the last one ends all.
  template <class Task>
  void live(unsigned index, unsigned expected, Task task) {
    bool searching = false;
    while (!is_exit_requested()) {
      if (take()) {
        if (searching) end_search();
        searching = false;
        task();
        all.notify_event();
        if (ran.fetch_add(1, std::memory_order_acq_rel) + 1 == expected) {
          exit_requested.store(1, std::memory_order_relaxed);
          for (sleepers::sleeper& parking_slot : parking_slots) all.wake(parking_slot);
        }
        continue;
      }
      if (!searching) searching = all.begin_search(1);
      if (searching && has_work()) continue;
      all.announce(parking_slots[index], searching);
      searching = has_work() || is_exit_requested() ? all.cancel(parking_slots[index]) : all.park(parking_slots[index]);
    }
    if (searching) end_search();
  }
};

/// Two posts to two workers, which may be asleep or on their way to it.
struct two_posts : rl::test_suite<two_posts, 3> {
  pool<2> p;
  void thread(unsigned index) {
    if (index != 2) return p.live(index, 2, [] {});
    p.post(0);
    p.post(0);
  }
};

/// Two producers, one worker.
struct two_producers : rl::test_suite<two_producers, 3> {
  pool<1> p;
  void thread(unsigned index) {
    if (index == 0) return p.live(0, 2, [] {});
    p.post(index - 1);
  }
};

/// Two tasks that wait for each other: both workers must be awake at the same time.
struct meeting : rl::test_suite<meeting, 3> {
  pool<2> p;
  atomic<unsigned> there{0};
  parker places[2];
  void thread(unsigned index) {
    if (index == 2) {
      p.post(0);
      p.post(0);
      return;
    }
    p.live(index, 2, [this, index] {
      if (there.fetch_add(1, std::memory_order_acq_rel) == 0) {
        places[index].park();
      } else {
        places[1 - index].unpark();
      }
    });
  }
};

/// The same, posted by a task: the worker that runs it wakes the other for the second one.
struct inner_meeting : rl::test_suite<inner_meeting, 3> {
  pool<2> p;
  atomic<unsigned> started{0};
  parker places[2];
  void thread(unsigned index) {
    if (index == 2) return p.post(0);
    p.live(index, 2, [this, index] {
      if (started.fetch_add(1, std::memory_order_acq_rel) == 0) {
        p.post(1);
        places[index].park();
      } else {
        places[1 - index].unpark();
      }
    });
  }
};

/// A thread sleeps inside a task until another thread has done something.
struct waiter : rl::test_suite<waiter, 2> {
  sleepers all;
  sleepers::sleeper parking_slots[1];
  flag_condition condition;
  cell<unsigned> result;
  void thread(unsigned index) {
    if (index == 1) {
      result.set(1);
      condition.make_true();
      all.notify_event();
      return;
    }
    sleepers::sleeper& parking_slot = parking_slots[0];
    parking_slot.condition = &condition;
    while (!condition.is_true()) {
      all.announce(parking_slot, false);
      if (condition.is_true()) {
        if (all.cancel(parking_slot)) all.end_search([]() noexcept { return false; });
      } else {
        check(!all.park(parking_slot), "no thread was woken to search");
      }
    }
    check(result.get() == 1, "what was waited for can be seen");
  }
};

/// A thread sleeps inside a task for a condition that nobody asks, until another thread wakes it. It may time out.
template <bool TimesOut>
struct unasked_waiter : rl::test_suite<unasked_waiter<TimesOut>, 2> {
  struct condition : sleepers::wait_condition {
    condition() : sleepers::wait_condition{nullptr, nullptr} {}
  };
  sleepers all;
  sleepers::sleeper parking_slot;
  condition waits;
  async::detail::atomic<bool> is_true{false};
  cell<unsigned> result;
  void thread(unsigned index) {
    if (index == 1) {
      result.set(1);
      is_true.store(true, std::memory_order_release);
      all.notify();
      all.notify_event();
      return all.wake(parking_slot);
    }
    parking_slot.condition = &waits;
    while (!is_true.load(std::memory_order_acquire)) {
      all.announce(parking_slot, false);
      bool searches = false;
      if (is_true.load(std::memory_order_acquire)) {
        searches = all.cancel(parking_slot);
      } else if (TimesOut) {
        searches = all.park_until(parking_slot, async::detail::wait_clock::now() + std::chrono::seconds(1));
      } else {
        searches = all.park(parking_slot);
      }
      check(!searches, "no thread was woken to search");
    }
    check(result.get() == 1, "what was waited for can be seen");
  }
};

/// Two threads wait. The one whose condition is true is woken, or both have looked. One of them may time out.
struct two_waiters : rl::test_suite<two_waiters, 3> {
  sleepers all;
  sleepers::sleeper parking_slots[2];
  flag_condition conditions[2];
  void thread(unsigned index) {
    if (index == 2) {
      for (flag_condition& condition : conditions) {
        condition.make_true();
        all.notify_event();
      }
      return;
    }
    sleepers::sleeper& parking_slot = parking_slots[index];
    const flag_condition& condition = conditions[index];
    parking_slot.condition = &condition;
    bool searching = false;
    while (!condition.is_true()) {
      all.announce(parking_slot, searching);
      if (condition.is_true()) {
        searching = all.cancel(parking_slot);
      } else if (index == 0) {
        searching = all.park(parking_slot);
      } else {
        searching = all.park_until(parking_slot, async::detail::wait_clock::now() + std::chrono::seconds(1));
      }
    }
    if (searching) all.end_search([]() noexcept { return false; });
  }
};

/// A thread that sleeps inside a task is woken for work that it may run, when no thread is idle.
struct waiter_helps : rl::test_suite<waiter_helps, 2> {
  pool<1> p;
  work own;
  flag_condition condition;
  void before() { condition.own = &own; }
  void thread(unsigned index) {
    if (index == 1) return p.post(0, &own);
    sleepers::sleeper& parking_slot = p.parking_slots[0];
    parking_slot.condition = &condition;
    while (!condition.is_true()) {
      if (p.take()) {
        condition.make_true();
        continue;
      }
      p.all.announce(parking_slot, false);
      check(!(p.has_work() ? p.all.cancel(parking_slot) : p.all.park(parking_slot)),
            "a waiting thread does not search");
    }
  }
};

/// It stays asleep when another thread is idle, and when it may not run the work.
struct idle_first : rl::test_suite<idle_first, 3> {
  pool<2> p;
  work foreign;
  flag_condition condition;
  void thread(unsigned index) {
    if (index == 2) return p.post(0, &foreign);
    if (index == 0) {
      return p.live(0, 1, [this] {
        condition.make_true();
        p.all.notify_event();
      });
    }
    sleepers::sleeper& parking_slot = p.parking_slots[1];
    parking_slot.condition = &condition;
    while (!condition.is_true()) {
      p.all.announce(parking_slot, false);
      check(!(condition.is_true() ? p.all.cancel(parking_slot) : p.all.park(parking_slot)),
            "a waiting thread does not search");
      check(condition.is_true(), "it is woken for its condition only");
    }
    parking_slot.condition = nullptr;
  }
};

/// Two threads wait. The one that may run the work is woken, even if the other one is first in the list.
struct one_of_two : rl::test_suite<one_of_two, 3> {
  pool<2> p;
  work own;
  atomic<unsigned> ready{0};
  /// The same flag for both; only one of them may run the work.
  struct shared_condition : sleepers::wait_condition {
    shared_condition() : sleepers::wait_condition{&ask_ready, &ask_may_run} {}
    static bool ask_ready(const sleepers::wait_condition& self) noexcept {
      return static_cast<const shared_condition&>(self).test->is_ready();
    }
    static bool ask_may_run(const sleepers::wait_condition& self, const work* w) noexcept {
      return static_cast<const shared_condition&>(self).own == w;
    }
    one_of_two* test = nullptr;
    const work* own = nullptr;
  };
  shared_condition conditions[2];
  bool is_ready() const { return ready.load(std::memory_order_acquire) != 0; }
  void before() {
    for (shared_condition& condition : conditions) condition.test = this;
    conditions[0].own = &own;
  }

  void thread(unsigned index) {
    if (index == 2) return p.post(0, &own);
    sleepers::sleeper& parking_slot = p.parking_slots[index];
    parking_slot.condition = &conditions[index];
    while (!is_ready()) {
      if (index == 0 && p.take()) {
        ready.store(1, std::memory_order_release);
        p.all.notify_event();
        continue;
      }
      p.all.announce(parking_slot, false);
      const bool stays = is_ready() || (index == 0 && p.has_work());
      check(!(stays ? p.all.cancel(parking_slot) : p.all.park(parking_slot)), "a waiting thread does not search");
      check(index == 0 || is_ready(), "it is woken for its condition only");
    }
  }
};

/// Idleness that is_still() confirms is real: no thread has a task in hand, also when tasks go from one thread to the
/// next.
struct idle : rl::test_suite<idle, 3> {
  pool<2> p;
  cell<unsigned> done;
  void before() { p.sources[0].store(1, std::memory_order_relaxed); }
  void thread(unsigned index) {
    if (index == 2) {
      const sleepers::idleness seen = p.all.idle();
      if (seen.count() == 2 && !p.has_work() && p.all.is_still(seen)) {
        check(done.get() == 2, "all tasks have been run, and what they did can be seen");
      }
      p.exit_requested.store(1, std::memory_order_relaxed);
      for (sleepers::sleeper& parking_slot : p.parking_slots) p.all.wake(parking_slot);
      return;
    }
    p.live(index, 99, [this] {
      const unsigned before = done.get();
      done.set(before + 1);
      if (before == 0) p.post(1);
    });
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("sleepers", argc, argv);
  const model::effort some{.at_most = 150'000, .random = 100'000};
  // More schedules than a search gets through: chance finds more than the first of them.
  const model::effort vast{.at_most = 60'000, .random = 200'000};
  run.check<two_posts>("two posts, two workers", some);
  run.check<two_producers>("two producers, one worker", some);
  run.check<meeting>("two tasks that wait for each other", some);
  run.check<inner_meeting>("a task that waits for the one it posts", vast);
  run.check<waiter>("a wait inside a task, and its event");
  run.check<unasked_waiter<false>>("a thread that nobody asks is woken");
  run.check<unasked_waiter<true>>("a thread that nobody asks is woken, or times out");
  run.check<two_waiters>("two waits inside tasks, one with a time-out", vast);
  run.check<idle_first>("an idle thread is woken first, and no waiting thread for work that it may not run", some);
  run.check<waiter_helps>("a wait inside a task is woken for work");
  run.check<one_of_two>("of two waits inside tasks, the one that may run the work is woken", some);
  run.check<idle>("idleness", some);
  return run.result();
}
