// SPDX-License-Identifier: BSL-1.0
//
// A result is made ready while threads begin to wait for it, stop waiting, and try to make it themselves.
#include "relacy_runner.hpp"

#include "async/detail/future/result_word.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::continuation;
using async::detail::result_word;
using async::detail::run_all;
using async::detail::yield_thread;
using model::check;

namespace {

/// An action that counts its runs.
struct action : continuation {
  action() : continuation(&count) {}
  static continuation* count(continuation& c) noexcept {
    auto& self = static_cast<action&>(c);
    self.times.set(self.times.get() + 1);
    self.has_run.store(1, std::memory_order_release);
    return nullptr;
  }
  bool waits_to_run() {
    while (has_run.load(std::memory_order_acquire) == 0) yield_thread();
    return times.get() == 1;
  }
  cell<unsigned> times{0};
  atomic<unsigned> has_run{0};
};

struct shared_result {
  result_word word;
  cell<unsigned> value{0};

  /// True: this thread has made it.
  bool make(unsigned with) {
    if (!word.take()) return false;
    value.set(with);
    run_all(word.publish());
    return true;
  }
};

/// Two threads make the result, one waits.
struct made_once : rl::test_suite<made_once, 3> {
  shared_result result;
  action waiter;
  bool has_made[3] = {};

  void thread(unsigned index) {
    if (index != 2) {
      has_made[index] = result.make(7 + index);
      return;
    }
    if (result.word.add(waiter)) {
      check(waiter.waits_to_run(), "the action runs once");
    } else {
      check(result.word.is_ready(), "an action is refused when the result is ready only");
    }
    check(result.value.get() >= 7, "the value is there");
  }
  void after() {
    check(has_made[0] != has_made[1], "the result is made once");
    check(result.value.get() == (has_made[0] ? 7U : 8U), "by the thread that has taken it");
  }
};

/// Two threads wait for the result, and one of them may stop: its memory is its own again.
struct removed : rl::test_suite<removed, 3> {
  shared_result result;
  action waiters[2];

  void thread(unsigned index) {
    if (index == 2) {
      check(result.make(7), "no other thread makes it");
      return;
    }
    action& mine = waiters[index];
    const bool is_listed = result.word.add(mine);
    if (!is_listed) check(result.value.get() == 7, "an action that is refused can see the value");
    if (index == 0) {
      if (is_listed) check(mine.waits_to_run(), "the action runs once");
    } else if (is_listed) {
      if (result.word.remove(mine)) {
        check(mine.times.get() == 0, "a removed action has not run");
      } else {
        check(mine.waits_to_run(), "an action that cannot be removed runs");
      }
    }
    if (result.word.is_ready()) check(result.value.get() == 7, "the value is there");
    mine.times.set(100);  // the memory is used for something else
    mine.next.set(nullptr);
    mine.ahead.set(nullptr);
  }
  void after() {
    for (const action& a : waiters) check(a.times.get() == 100, "nothing runs afterwards");
  }
};

/// Both waiters stop, the first one from below the other in the list.
struct both_removed : rl::test_suite<both_removed, 2> {
  shared_result result;
  action waiters[2];

  void thread(unsigned index) {
    action& mine = waiters[index];
    check(result.word.add(mine), "it is not ready");
    check(result.word.remove(mine), "the action was listed");
    check(!result.word.remove(mine), "and is not any more");
    mine.next.set(nullptr);
    mine.ahead.set(nullptr);
  }
  void after() {
    check(result.make(7), "the list is intact");
    for (const action& a : waiters) check(a.times.get() == 0, "nothing runs");
  }
};

/// One thread's actions leave in any order, and one comes back, beside those of another: the rest runs once.
struct some_removed : rl::test_suite<some_removed, 2> {
  shared_result result;
  action waiters[6];

  void thread(unsigned index) {
    if (index == 0) {
      for (unsigned i = 0; i != 4; ++i) check(result.word.add(waiters[i]), "it is not ready");
      check(result.word.remove(waiters[1]), "from the middle");
      check(result.word.remove(waiters[3]), "the newest of this thread");
      check(result.word.remove(waiters[0]), "the oldest of this thread");
      check(result.word.add(waiters[1]), "again");
      check(!result.word.remove(waiters[0]), "it was removed");
    } else {
      check(result.word.add(waiters[4]), "it is not ready");
      check(result.word.add(waiters[5]), "it is not ready");
      check(result.word.remove(waiters[4]), "the action was listed");
    }
  }
  void after() {
    check(result.make(7), "the list is intact");
    const unsigned runs[6] = {0, 1, 1, 0, 0, 1};
    for (unsigned i = 0; i != 6; ++i) check(waiters[i].times.get() == runs[i], "what was left runs once");
  }
};

/// The constructor of a value throws: another thread makes the result with the same memory.
struct given_back : rl::test_suite<given_back, 2> {
  shared_result result;
  bool has_made = false;

  void thread(unsigned index) {
    if (index == 0) {
      if (!result.word.take()) return;
      result.value.set(1);
      result.word.give_back();
    } else {
      has_made = result.make(7);
    }
  }
  void after() { check(has_made == result.word.is_ready(), "ready if a thread has made it"); }
};

/// Thread 1 runs an action that makes another result ready: its actions run, too.
struct chained : rl::test_suite<chained, 2> {
  struct link : continuation {
    explicit link(shared_result& r) : continuation(&go), result(r) {}
    static continuation* go(continuation& c) noexcept {
      auto& self = static_cast<link&>(c);
      if (!self.result.word.take()) return nullptr;
      self.result.value.set(9);
      return self.result.word.publish();
    }
    shared_result& result;
  };
  shared_result first, second;
  link between{second};
  action last;

  void before() { check(first.word.add(between), "it is not ready"); }
  void thread(unsigned index) {
    if (index == 1) {
      check(first.make(7), "no other thread makes it");
    } else {
      if (second.word.add(last)) check(last.waits_to_run(), "the action runs once");
      check(second.value.get() == 9, "the value is there");
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("result_word", argc, argv);
  run.check<made_once>("a result is made once, and who waits sees it");
  run.check<removed>("a result is made ready while a thread stops waiting for it");
  run.check<both_removed>("two threads stop waiting for a result");
  run.check<some_removed>("actions leave from anywhere");
  run.check<given_back>("a thread that cannot make the value leaves it to another");
  run.check<chained>("an action makes another result ready");
  return run.result();
}
