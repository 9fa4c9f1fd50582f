// SPDX-License-Identifier: BSL-1.0
//
// The join of task_group and parallel_for: who waits sees what was done, sleeps only if it is woken, and may destroy
// the state at once.
#include "relacy_runner.hpp"

#include <optional>

#include "async/detail/base/parker.hpp"
#include "async/detail/fork/join_state.hpp"
#include "async/detail/scope/task_credit.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::join_state;
using async::detail::parker;
using async::detail::task_credit;

namespace {

using failure = cell<int>;

/// Shared by the suites: a group, the place where its owner sleeps, and what its tasks write.
struct group {
  std::optional<join_state<failure>> state{std::in_place};
  parker owner;
  cell<int> done[2];

  void finish() {
    if (state->finish()) owner.unpark();
  }
  void run(unsigned task) {
    done[task].set(1);
    finish();
  }
  /// Waits as the owner does, with or without a look before it goes to sleep.
  void wait() {
    while (!state->announce_sleep()) owner.park();
  }
  void check_done(unsigned tasks) {
    for (unsigned i = 0; i < tasks; ++i) model::check(done[i].get() == 1, "the task is done and can be seen");
  }
};

/// Two tasks on threads of their own; the owner sleeps and then destroys the state.
struct join : rl::test_suite<join, 3> {
  group g;
  void before() {
    g.state->add();
    g.state->add();
  }
  void thread(unsigned index) {
    if (index != 0) return g.run(index - 1);
    g.wait();
    g.state.reset();
    g.check_done(2);
  }
};

/// An owner that looks first, as most waits do, and one that only asks whether there is anything to tell.
template <bool IsNew>
struct look : rl::test_suite<look<IsNew>, 2> {
  group g;
  void before() { g.state->add(); }
  void thread(unsigned index) {
    if (index != 0) return g.run(0);
    while (!(IsNew ? g.state->is_new() : g.state->is_done())) async::detail::yield_thread();
    g.state.reset();
    g.check_done(1);
  }
};

/// A task adds another one, which a third thread runs.
struct child : rl::test_suite<child, 3> {
  group g;
  atomic<std::uint32_t> queued{0};
  void before() { g.state->add(); }
  void thread(unsigned index) {
    if (index == 1) {
      g.state->add();
      queued.store(1, std::memory_order_release);
      g.run(0);
    } else if (index == 2) {
      while (queued.load(std::memory_order_acquire) == 0) async::detail::yield_thread();
      g.run(1);
    } else {
      g.wait();
      g.state.reset();
      g.check_done(2);
    }
  }
};

/// Two workers in one group: one runs two tasks, of which the second forks a third from the credit of the first. The
/// other worker runs that. Unless `Counted`, the fork is not counted.
template <bool Counted>
struct credits : rl::test_suite<credits<Counted>, 3> {
  group g;
  cell<int> forked;
  atomic<std::uint32_t> queued{0};
  void before() {
    g.state->add();
    g.state->add();
  }
  void thread(unsigned index) {
    if (index == 0) {
      g.wait();
      g.state.reset();
      g.check_done(2);
      model::check(forked.get() == 1, "the forked task is done and can be seen");
      return;
    }
    task_credit own;
    if (index == 1) {
      g.done[0].set(1);
      own.put(*g.state, &g);
      if (Counted) own.take();
      queued.store(1, std::memory_order_release);
      g.done[1].set(1);
      own.put(*g.state, &g);
      settle(own);
    } else {
      while (queued.load(std::memory_order_acquire) == 0) async::detail::yield_thread();
      forked.set(1);
      if (!Counted) return;
      own.put(*g.state, &g);
      settle(own);
    }
  }
  void settle(task_credit& own) {
    if (own.settle()) g.owner.unpark();
  }
};

/// Two tasks fail. One leaves its failure, complete, and both have cancelled the group.
struct failures : rl::test_suite<failures, 3> {
  group g;
  failure thrown[2];
  cell<bool> kept[2];
  void before() {
    g.state->add();
    g.state->add();
  }
  void thread(unsigned index) {
    if (index != 0) {
      thrown[index - 1].set(static_cast<int>(index));
      kept[index - 1].set(g.state->keep(&thrown[index - 1]));
      g.state->cancel();
      return g.run(index - 1);
    }
    g.wait();
    const auto outcome = g.state->take_outcome();
    model::check(outcome.was_cancelled, "a failure cancels the group");
    model::check(kept[0].get() != kept[1].get(), "one failure is kept");
    const unsigned first = kept[0].get() ? 0 : 1;
    model::check(outcome.failure == &thrown[first], "it is the one that the owner gets");
    model::check(thrown[first].get() == static_cast<int>(first) + 1, "and it is complete");
    model::check(g.state->is_new(), "the group is as new");
  }
};

/// A failure is complete for a thread that takes it without having waited for its task.
struct early_outcome : rl::test_suite<early_outcome, 2> {
  group g;
  failure thrown;
  void before() { g.state->add(); }
  void thread(unsigned index) {
    if (index != 0) {
      thrown.set(7);
      g.state->keep(&thrown);
      g.state->finish();
    } else if (failure* const taken = g.state->take_outcome().failure) {
      model::check(taken->get() == 7, "the failure is complete");
    }
  }
};

/// A helper comes while the loop that wants it may already have ended: it touches what is the loop's or stays away.
template <bool Asks>
struct late_helper : rl::test_suite<late_helper<Asks>, 3> {
  group g;
  cell<int> body;
  void thread(unsigned index) {
    if (index == 0) {
      g.state->cancel();
      g.wait();
      body.set(1);  // the end of its life
    } else {
      const bool in_time = g.state->add();
      if (in_time || !Asks) body.get();
      g.finish();
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("task_group", argc, argv);
  run.check<join>("the last of two tasks wakes the owner, who may destroy the group");
  run.check<look<false>>("a look that finds no task left sees what they did");
  run.check<look<true>>("a look that finds nothing to tell sees what the tasks did");
  run.check<child>("a task that a task has added is waited for");
  run.check<credits<true>>("a task that is forked from a credit is waited for, and so is its credit");
  run.check_fails<credits<false>>("a fork that is not counted is not waited for");
  run.check<failures>("the first failure is kept, whole, and cancels");
  run.check<early_outcome>("a failure that is taken is whole");
  run.check<late_helper<true>>("a helper that comes too late stays away from the loop");
  run.check_fails<late_helper<false>>("a helper that does not ask touches what has gone");
  return run.result();
}
