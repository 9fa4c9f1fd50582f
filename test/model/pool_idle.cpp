// SPDX-License-Identifier: BSL-1.0
//
// The wait for an idle pool. When a thread reports idleness, no thread has a task in hand: none that has just begun or
// ended, and no helper from outside. A thread that waits for idleness is woken.
#include "relacy_runner.hpp"

#include "model_mutex.hpp"

#include "async/detail/pool/idle_condition.hpp"
#include "async/detail/pool/quiescence.hpp"
#include "async/detail/pool/sleepers.hpp"

using async::detail::atomic;
using async::detail::basic_idle_condition;
using async::detail::basic_sleepers;
using async::detail::cell;
using async::detail::quiescence;
using async::detail::yield_thread;
using model::check;
using model::mutex;

namespace {

/// Replaces std::condition_variable.
class variable {
 public:
  template <class Lock, class Condition>
  void wait(Lock& lock, Condition condition) {
    while (!condition()) {
      const std::uint32_t seen = changes_.load(std::memory_order_relaxed);
      lock.unlock();
      async::detail::wait_on_word(changes_, seen);
      lock.lock();
    }
  }
  /// A `deadline` that comes at any moment.
  template <class Lock, class Condition>
  bool wait_until(Lock& lock, int deadline, Condition condition) {
    static_cast<void>(deadline);
    while (!condition()) {
      if (rl::rand(2) == 0) return condition();
      lock.unlock();
      yield_thread();
      lock.lock();
    }
    return true;
  }
  void notify_all() noexcept {
    changes_.fetch_add(1, std::memory_order_relaxed);
    async::detail::wake_all(changes_);
  }

 private:
  atomic<std::uint32_t> changes_{0};
};
using sleepers = basic_sleepers<mutex>;

/// A pool with one task, which writes `done`.
struct pool {
  sleepers all;
  sleepers::sleeper parking_slot;
  quiescence threads;
  basic_idle_condition<mutex, variable> idle_condition;
  atomic<unsigned> tasks{0};
  atomic<unsigned> exit_requested{0};
  cell<unsigned> done{0};

  // relaxed, as the pool's looks are
  bool has_work() const noexcept { return tasks.load(std::memory_order_relaxed) != 0; }
  bool run_one() {
    unsigned there = 1;
    if (!has_work() || !tasks.compare_exchange_strong(there, 0, std::memory_order_acquire, std::memory_order_relaxed)) {
      return false;
    }
    done.set(1);
    return true;
  }
  bool is_idle() {
    return threads.is_idle(all, [this]() noexcept { return has_work(); });
  }
  void must_be_done_when_idle() {
    if (is_idle()) check(done.get() == 1, "the task has been run, and what it did can be seen");
  }

  bool is_at_rest() { return !threads.has_starting() && is_idle(); }

  /// The life of a thread.
  void live() {
    threads.thread_arrived();
    while (exit_requested.load(std::memory_order_relaxed) == 0) {
      if (run_one()) continue;
      all.announce(parking_slot, false);
      if (has_work() || exit_requested.load(std::memory_order_relaxed) != 0) {
        if (all.cancel(parking_slot)) all.end_search([this]() noexcept { return has_work(); });
        continue;
      }
      idle_condition.notify();
      if (all.park(parking_slot)) all.end_search([this]() noexcept { return has_work(); });
    }
    threads.thread_left();
    idle_condition.notify();
  }
  /// The visit of a thread from outside.
  void help() {
    threads.helper_arrived();
    run_one();
    threads.helper_left();
    idle_condition.notify();
  }
};

/// A thread posts a task and waits for idleness. The pool's thread begins, runs the task and falls asleep.
struct wait : rl::test_suite<wait, 2> {
  pool p;
  void before() { p.threads.thread_starting(); }
  void thread(unsigned index) {
    if (index == 0) return p.live();
    p.tasks.store(1, std::memory_order_release);
    p.all.notify();
    p.idle_condition.wait([this] { return p.is_at_rest(); });
    check(p.done.get() == 1, "the task has been run, and what it did can be seen");
    check(p.all.idle().count() == 1, "the thread has arrived, and sleeps");
    p.exit_requested.store(1, std::memory_order_relaxed);
    p.all.wake(p.parking_slot);
  }
};

/// The same while a thread from outside helps, and may take the task.
struct wait_with_helper : rl::test_suite<wait_with_helper, 2> {
  pool p;
  void before() { p.tasks.store(1, std::memory_order_relaxed); }
  void thread(unsigned index) {
    if (index == 0) return p.help();
    p.idle_condition.wait([this] { return p.is_idle(); });
    check(p.done.get() == 1, "the task has been run, and what it did can be seen");
  }
};

/// One look while a helper arrives, takes the task and leaves; another one may arrive.
struct look_with_helpers : rl::test_suite<look_with_helpers, 3> {
  pool p;
  void before() { p.tasks.store(1, std::memory_order_relaxed); }
  void thread(unsigned index) {
    if (index == 2) return p.must_be_done_when_idle();
    p.threads.helper_arrived();
    p.run_one();
    p.threads.helper_left();
  }
};

/// One look while two threads begin, one of which takes the task, and end.
struct look_at_start : rl::test_suite<look_at_start, 3> {
  pool p;
  void before() {
    p.threads.thread_starting();
    p.threads.thread_starting();
    p.tasks.store(1, std::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 2) return p.must_be_done_when_idle();
    p.threads.thread_arrived();
    p.run_one();
    p.threads.thread_left();
  }
};

/// One look while one thread begins and takes the task, and another one, which was asleep, ends: the number of threads
/// stays the same.
struct look_at_exchange : rl::test_suite<look_at_exchange, 3> {
  pool p;
  void before() {
    p.tasks.store(1, std::memory_order_relaxed);
    p.threads.thread_starting();
    p.threads.thread_starting();
    p.threads.thread_arrived();
    p.all.announce(p.parking_slot, false);
  }
  void thread(unsigned index) {
    if (index == 0) {
      p.threads.thread_arrived();
      unsigned there = 1;
      check(p.tasks.compare_exchange_strong(there, 0, std::memory_order_acquire, std::memory_order_relaxed), "there");
      p.all.wake(p.parking_slot);
      p.done.set(1);
    } else if (index == 1) {
      static_cast<void>(p.all.park(p.parking_slot));
      p.threads.thread_left();
    } else {
      p.must_be_done_when_idle();
    }
  }
};

/// One look while a thread ends a task that has waited until a thread outside has posted the next one. So one of the
/// two tasks exists all the time, until the second has been run.
struct look_after_post : rl::test_suite<look_after_post, 3> {
  pool p;
  atomic<unsigned> posted{0};
  void before() {
    p.threads.thread_starting();
    p.threads.thread_arrived();
  }
  void thread(unsigned index) {
    if (index == 2) return p.must_be_done_when_idle();
    if (index == 1) {
      p.tasks.store(1, std::memory_order_release);
      p.all.notify();
      posted.store(1, std::memory_order_release);
      return;
    }
    while (posted.load(std::memory_order_acquire) == 0) yield_thread();
    p.all.announce(p.parking_slot, false);
    const bool found = p.has_work();
    check(found, "the last look finds the task");
    if (p.all.cancel(p.parking_slot)) p.all.end_search([]() noexcept { return false; });
    p.run_one();
  }
};

/// A wait whose time may be up, and another one that is woken.
struct timed_wait : rl::test_suite<timed_wait, 3> {
  pool p;
  void before() { p.tasks.store(1, std::memory_order_relaxed); }
  void thread(unsigned index) {
    if (index == 0) return p.help();
    const auto is_idle = [this] { return p.is_idle(); };
    if (index == 1) {
      if (!p.idle_condition.wait_until(0, is_idle)) return;
    } else {
      p.idle_condition.wait(is_idle);
    }
    check(p.done.get() == 1, "the task has been run, and what it did can be seen");
  }
};

/// A thread could not be started: a waiting thread is told.
struct failed_start : rl::test_suite<failed_start, 2> {
  pool p;
  void thread(unsigned index) {
    if (index == 1) return p.idle_condition.wait([this] { return p.is_at_rest(); });
    p.threads.thread_starting();
    p.threads.thread_not_started();
    p.idle_condition.notify();
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("pool_idle", argc, argv);
  run.check<wait>("a wait for the end of a task, by the thread that has posted it");
  run.check<wait_with_helper>("a wait for the end of a task that a helper takes");
  run.check<look_with_helpers>("a look while helpers arrive and leave");
  run.check<look_at_start>("a look while threads begin and end");
  run.check<look_at_exchange>("a look while a thread begins and another one ends");
  run.check<look_after_post>("a look while a task ends that has seen the next one posted");
  run.check<timed_wait>("a wait for a limited time beside one without a limit");
  run.check<failed_start>("a wait while a thread cannot be started");
  return run.result();
}
