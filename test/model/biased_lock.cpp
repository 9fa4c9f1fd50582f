// SPDX-License-Identifier: BSL-1.0
//
// Turns and claims of a loop's owner, of threads that take the loop over after disown(), and of all others.
#include "relacy_runner.hpp"

#include "async/detail/loop/biased_lock.hpp"

using async::detail::biased_lock;
using async::detail::cell;
using model::check;

namespace {

using way = biased_lock::way;

constexpr biased_lock::token token_of(unsigned thread) { return 8 * (thread + 1); }

/// A loop, and data that only the thread inside may touch.
struct guarded {
  biased_lock owner;
  cell<unsigned> touched{0};

  void touch() { touched.set(touched.get() + 1); }

  /// False: another thread is in a turn.
  bool turn(unsigned thread) {
    const way how = owner.enter(token_of(thread));
    if (how == way::refused) return false;
    check(owner.is(token_of(thread)), "a turn makes its thread the owner");
    touch();
    owner.leave(how);
    return true;
  }
  /// False: another thread is in the loop.
  bool claim(unsigned thread) {
    const way how = owner.claim(token_of(thread));
    if (how == way::refused) return false;
    touch();
    owner.leave(how);
    return true;
  }
  void adopt(unsigned thread) { owner.leave(owner.enter(token_of(thread))); }
};

/// The owner of a loop hands work in, while another thread begins to run the loop without its knowledge.
struct uninvited_turn : rl::test_suite<uninvited_turn, 2> {
  guarded loop;
  unsigned done[2] = {};

  void before() { loop.adopt(0); }
  void thread(unsigned index) {
    if (index == 0) {
      for (int i = 0; i != 2; ++i) done[0] += loop.claim(0) ? 1U : 0U;
    } else {
      check(loop.turn(1), "a turn waits for claims");
      check(loop.turn(1), "and again");
      done[1] = 2;
    }
  }
  void after() { check(loop.touched.get() == done[0] + done[1], "no two threads were in the loop together"); }
};

/// Two threads take turns at the same time: at least one gets in, and they are never in the loop together.
struct two_turns : rl::test_suite<two_turns, 2> {
  guarded loop;
  unsigned done[2] = {};

  void before() { loop.adopt(0); }
  void thread(unsigned index) {
    done[index] += loop.turn(index) ? 1U : 0U;
    done[index] += loop.turn(index) ? 1U : 0U;
  }
  void after() {
    check(done[0] + done[1] >= 2, "one thread gets in");
    check(loop.touched.get() == done[0] + done[1], "no two threads were in the loop together");
  }
};

/// Two threads claim a loop while its owner takes a turn, which waits for them.
struct uninvited_claims : rl::test_suite<uninvited_claims, 3> {
  guarded loop;
  unsigned done[3] = {};

  void before() { loop.adopt(0); }
  void thread(unsigned index) {
    if (index == 0) {
      check(loop.turn(0), "a turn waits for claims");
      done[0] = 1;
    } else {
      done[index] = loop.claim(index) ? 1 : 0;
    }
  }
  void after() { check(loop.touched.get() == done[0] + done[1] + done[2], "no two threads were in the loop together"); }
};

/// The owner disowns the loop. The next thread, which learns of it without any order, runs it, while a third claims it.
struct handed_over : rl::test_suite<handed_over, 3> {
  guarded loop;
  unsigned done[3] = {};

  void before() { loop.adopt(0); }
  void thread(unsigned index) {
    if (index == 0) {
      check(loop.turn(0), "the owner enters");
      loop.owner.disown();
      done[0] = 1;
    } else if (index == 1) {
      while (loop.owner.is(token_of(0))) async::detail::yield_thread();
      check(loop.turn(1), "the next one enters");
      done[1] = 1;
    } else {
      done[2] = loop.claim(2) ? 1 : 0;
    }
  }
  void after() { check(loop.touched.get() == done[0] + done[1] + done[2], "no two threads were in the loop together"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("biased_lock", argc, argv);
  run.check<uninvited_turn>("a thread runs the loop while its owner hands work in");
  run.check<two_turns>("two threads take turns");
  run.check<uninvited_claims>("threads claim the loop while its owner runs it");
  run.check<handed_over>("a loop is disowned, run by another thread, and claimed by a third");
  return run.result();
}
