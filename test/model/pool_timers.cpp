// SPDX-License-Identifier: BSL-1.0
//
// A worker fires the alarm of a loop while another one, which has the loop for a turn, arms or disarms it. The loop's
// turns end as those of pool_loops.
#include "relacy_runner.hpp"

#include "async/detail/pool/pool_timers.hpp"
#include "async/detail/pool/turn_word.hpp"
#include "model_mutex.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::turn_word;
using async::detail::wait_clock;
using async::detail::yield_thread;
using model::check;

namespace {

using timers = async::detail::basic_pool_timers<model::mutex>;
using time_point = timers::time_point;

constexpr time_point at(int milliseconds) { return time_point(std::chrono::milliseconds(milliseconds)); }

/// A loop with one timer, which its turns move on, set and clear.
struct loop {
  timers::alarm alarm;
  turn_word word;
  atomic<unsigned> in_queue{0};
  cell<unsigned> turns{0};
  time_point wanted = timers::never;

  void schedule() {
    if (word.schedule()) enqueue();
  }
  void enqueue() { check(in_queue.exchange(1, std::memory_order_relaxed) == 0, "a loop is in one queue at most"); }

  /// The end of a turn: as pool_core::settle() and end_possession().
  void settle(timers& all) {
    if (wanted < alarm.at()) {
      all.arm(alarm, wanted);
    } else if (wanted == timers::never && alarm.at() != timers::never) {
      all.disarm(alarm);
    }
    if (word.end()) return;
    word.requeue();
    enqueue();
  }
  /// A turn, if the loop is queued, in which `next` becomes the deadline.
  bool run(timers& all, time_point next) {
    unsigned there = 1;
    if (!in_queue.compare_exchange_strong(there, 0, std::memory_order_relaxed, std::memory_order_relaxed)) return false;
    word.begin();
    turns.set(turns.get() + 1);
    wanted = next;
    settle(all);
    return true;
  }
};

/// The loop's worker has two turns with the deadlines `First` and `Second`, in milliseconds, 0: none. Meanwhile another
/// worker fires what is due.
template <int First, int Second>
struct turns_and_firings : rl::test_suite<turns_and_firings<First, Second>, 2> {
  timers all{at(0)};
  loop l;

  static constexpr time_point deadline_of(int milliseconds) {
    return milliseconds != 0 ? at(milliseconds) : timers::never;
  }
  bool fire(int milliseconds) {
    return all.fire(at(milliseconds), timers::batch, this, [this](timers::alarm& a) noexcept {
      check(&a == &l.alarm, "there is one alarm");
      l.schedule();
    });
  }
  void before() {
    l.schedule();
    check(l.run(all, at(5)), "the loop has a deadline of 5 ms");
    l.schedule();
  }
  void thread(unsigned index) {
    if (index == 0) {
      fire(6);
      return;
    }
    l.run(all, deadline_of(First));
    l.run(all, deadline_of(Second));
  }
  void after() {
    for (int i = 0; i != 4 && l.run(all, l.wanted); ++i) {
    }
    check(l.in_queue.load(std::memory_order_relaxed) == 0, "the loop comes to rest");
    check(l.alarm.at() <= l.wanted, "a loop that rests is armed for its deadline, or an earlier one");
    check(l.alarm.armed() == (l.alarm.at() != timers::never), "the alarm is armed for the time that it tells");
    const unsigned before = l.turns.get();
    fire(1000);
    check(l.run(all, timers::never) == (l.alarm.armed() || l.turns.get() != before), "an armed loop is scheduled");
    fire(1000);
    while (l.run(all, timers::never)) {
    }
    check(!l.alarm.armed() && all.next() == timers::never, "nothing is left");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("pool_timers", argc, argv);
  const model::effort some{.at_most = 30'000, .random = 20'000};
  run.check<turns_and_firings<5, 9>>("an alarm fires while its loop keeps a deadline, and has a later one", some);
  run.check<turns_and_firings<3, 2>>("an alarm fires while its loop gets earlier deadlines", some);
  run.check<turns_and_firings<0, 3>>("an alarm fires while its loop clears its deadline, and sets one", some);
  run.check<turns_and_firings<3, 0>>("an alarm fires while its loop sets a deadline, and clears it", some);
  return run.result();
}
