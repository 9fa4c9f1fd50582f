// SPDX-License-Identifier: BSL-1.0
//
// The threads that compete for a flow in a pool's queue: the worker that takes and binds it, its owner, who executes it
// again, puts a mistake on record or destroys it, and threads that cancel it.
#include "relacy_runner.hpp"

#include "steps/detail/flow/executing_flag.hpp"
#include "steps/detail/flow/start_state.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::yield_thread;
using model::check;
using steps::detail::executing_flag;
using steps::detail::start_state;

namespace {

constexpr unsigned most = 3;  // executions

/// A flow, as far as who may touch it is concerned, and the pool's queue with a place for each of its tasks.
struct flow {
  start_state word;
  executing_flag active;
  cell<unsigned> core{0};     // the loop
  cell<unsigned> touched{0};  // all that only one thread at a time may touch
  atomic<std::uint32_t> tasks[most];
  unsigned touches[3] = {};  // each thread's
  unsigned ends[3] = {};     // each thread's
  unsigned executions = 0;   // the owner's
  unsigned refused = 0;      // the owner's

  static constexpr std::uint32_t nothing = 1U << 30;
  static constexpr std::uint32_t message = 2U << 30;  // to the loop that it is bound to

  void touch(unsigned thread) {
    touched.set(touched.get() + 1);
    ++touches[thread];
  }
  void settle(unsigned thread) {
    touch(thread);
    ++ends[thread];
    active.clear();
  }

  // --- the owner's ---

  void execute(unsigned number) {
    if (active.test()) {
      misuse();
      return tasks[number].store(nothing, std::memory_order_release);
    }
    touch(0);
    ++executions;
    const bool waits = core.get() == 0;
    if (waits) word.prepare();
    active.set(number);
    const std::uint32_t task = waits ? word.queue() : message;
    tasks[number].store(task, std::memory_order_release);
  }
  void misuse() {
    switch (word.hold()) {
      case start_state::held::yes:
        touch(0);
        word.put_back();
        break;
      case start_state::held::bound:
        check(core.get() == 1, "a flow that is bound has its loop");
        break;
      case start_state::held::idle:
        ++refused;
    }
  }
  /// tool()
  void look() {
    if (active.test() && !word.is_bound()) return;
    check(core.get() <= 1, "the loop can be read when it is known");
  }
  void destroy() {
    if (active.test() && !cancel_unstarted(0)) check(core.get() == 1, "it has its loop");
    while (active.test()) yield_thread();
    touch(0);
  }

  // --- any thread's ---

  bool cancel_unstarted(unsigned thread) {
    const start_state::held held = word.hold();
    if (held == start_state::held::bound) return false;
    if (held == start_state::held::yes) {
      word.cancel();
      settle(thread);
    }
    return true;
  }
  void cancel(unsigned thread) {
    if (!active.test() || cancel_unstarted(thread)) return;
    check(core.get() == 1, "a flow that is bound has its loop");
  }

  // --- the worker's ---

  void take(unsigned thread, unsigned number) {
    std::uint32_t task;
    while ((task = tasks[number].load(std::memory_order_acquire)) == 0) yield_thread();
    if (task == nothing) return;
    if (task != message) {
      if (!word.take(task)) return;
      core.set(1);
      touch(thread);
      word.bind();
    }
    settle(thread);
  }
};

/// The owner executes a flow several times, or tries to, and destroys it; a worker takes its tasks; a thread cancels
/// it.
template <unsigned Executions, unsigned Cancels>
struct life : rl::test_suite<life<Executions, Cancels>, 3> {
  flow f;

  void thread(unsigned index) {
    if (index == 0) {
      for (unsigned i = 0; i != Executions; ++i) f.execute(i);
      f.look();
      f.destroy();
    } else if (index == 1) {
      for (unsigned i = 0; i != Executions; ++i) f.take(1, i);
    } else {
      for (unsigned i = 0; i != Cancels; ++i) f.cancel(2);
    }
  }
  void after() {
    check(f.touched.get() == f.touches[0] + f.touches[1] + f.touches[2], "nobody was at the flow with another");
    check(f.executions == f.ends[0] + f.ends[1] + f.ends[2], "each execution has ended once");
  }
};

/// The owner cancels a flow before its start and executes it again, while the worker may have its old task in hand.
struct old_task : rl::test_suite<old_task, 2> {
  flow f;

  void thread(unsigned index) {
    if (index == 0) {
      f.execute(0);
      f.cancel(0);
      f.execute(1);
      f.destroy();
    } else {
      f.take(1, 1);
      f.take(1, 0);
    }
  }
  void after() {
    check(f.touched.get() == f.touches[0] + f.touches[1], "nobody was at the flow with another");
    check(f.executions == f.ends[0] + f.ends[1], "each execution has ended once");
  }
};

/// The owner cancels a flow before its start and executes it again, while another thread cancels it: that one may have
/// seen the first execution, and find the second.
struct late_cancel : rl::test_suite<late_cancel, 2> {
  flow f;

  void thread(unsigned index) {
    if (index == 0) {
      f.execute(0);
      f.cancel(0);
      f.execute(1);
      f.destroy();
    } else {
      f.cancel(1);
    }
  }
  void after() {
    check(f.touched.get() == f.touches[0] + f.touches[1], "nobody was at the flow with another");
    check(f.executions == f.ends[0] + f.ends[1], "each execution has ended once");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("start_state", argc, argv);
  run.check<life<1, 1>>("a flow is taken while it is cancelled and destroyed");
  run.check<life<2, 1>>("a flow is taken while it is executed twice, cancelled and destroyed");
  run.check<life<3, 2>>("a flow is taken while it is executed thrice, and cancelled twice");
  run.check<old_task>("a task of an execution that was cancelled starts nothing");
  run.check<late_cancel>("a thread cancels an execution, and finds the next", {.bound = 3});
  return run.result();
}
