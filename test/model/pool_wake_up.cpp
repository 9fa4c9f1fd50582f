// SPDX-License-Identifier: BSL-1.0
//
// A thread of a pool waits for a result that another thread makes ready, or stops waiting; then the result is used and
// the pool goes.
#include "relacy_runner.hpp"

#include "async/detail/call/pool_wake_up.hpp"

using async::detail::cell;
using async::detail::result_word;
using async::detail::run_all;
using async::detail::yield_thread;
using model::check;

namespace {

struct pool {
  cell<unsigned> memory{1};
  cell<unsigned> wake_ups{0};
  unsigned part = 0;
  void wake(unsigned&) noexcept {
    check(memory.get() == 1, "the pool is there");
    wake_ups.set(wake_ups.get() + 1);
  }
};

/// `Stops`: the waiter goes whether the result is ready or not.
template <bool Stops>
struct wait : rl::test_suite<wait<Stops>, 2> {
  pool p;
  result_word word;
  cell<unsigned> value{0};
  bool was_due = false;

  void thread(unsigned index) {
    if (index == 0) {
      check(word.take(), "no other thread makes the result");
      value.set(7);
      return run_all(word.publish());
    }
    {
      const async::detail::pool_wake_up<pool, unsigned> alarm(p, p.part, word);
      while (!alarm.is_due() && !Stops) yield_thread();
      was_due = alarm.is_due();
      if (was_due) check(value.get() == 7, "the result of a wait that is due is there");
    }
    p.memory.set(9);  // the pool has gone
    if (was_due) value.set(8);
  }
  void after() {
    check(p.wake_ups.get() <= 1, "the waiters are told once at most");
    check(Stops || was_due, "the wait is over when the result is ready");
  }
};

/// Two threads of a pool wait for one result.
struct two_waits : rl::test_suite<two_waits, 3> {
  pool pools[2];
  result_word word;
  cell<unsigned> value{0};

  void thread(unsigned index) {
    if (index == 2) {
      check(word.take(), "no other thread makes the result");
      value.set(7);
      return run_all(word.publish());
    }
    {
      const async::detail::pool_wake_up<pool, unsigned> alarm(pools[index], pools[index].part, word);
      while (index == 0 && !alarm.is_due()) yield_thread();
      if (alarm.is_due()) check(value.get() == 7, "the result of a wait that is due is there");
    }
    pools[index].memory.set(9);
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("pool_wake_up", argc, argv);
  run.check<wait<false>>("a thread waits until the result is ready");
  run.check<wait<true>>("a thread stops waiting while the result becomes ready");
  run.check<two_waits>("two threads wait, of which one stops");
  return run.result();
}
