// SPDX-License-Identifier: BSL-1.0
//
// A forked call between the thief who makes it and the thread that waits for it, on whose stack it lies. What the
// thread frees when it goes on, and what it reads, is written by the thief before.
#include "relacy_runner.hpp"

#include <optional>

#include "async/detail/fork/fork_state.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::fork_state;
using async::detail::yield_thread;
using model::check;

namespace {

/// The scope that the thief gives the call. Its thread frees it.
struct scope {
  cell<unsigned> owner;  // plain data, unlike the product's, where it is more than a hint
  atomic<bool> is_cancelled{false};
};

/// A call on the stack of thread 0, which thread 1 has stolen.
struct fork {
  using state = fork_state<scope>;
  std::optional<state> stack{std::in_place};
  scope from_thief;
  cell<unsigned> result;

  /// As stack_job's function does.
  void steal(state::outcome called = state::outcome::made) {
    state::outcome o = state::outcome::skipped;
    from_thief.owner.set(1);
    if (stack->begin(from_thief) && !from_thief.is_cancelled.load(std::memory_order_relaxed)) {
      result.set(7);
      o = called;
    }
    stack->finish(o);
  }
  void cancel() {
    if (scope* const s = stack->cancel()) s->is_cancelled.store(true, std::memory_order_relaxed);
  }
  void wait() const {
    while (stack->result() == state::outcome::open) yield_thread();
  }
  /// As stack_job::close() does, and then the stack goes.
  void close() {
    scope* const s = stack->scope();
    check(s == &from_thief, "who has taken the call has given it a scope");
    check(s->owner.get() == 1, "which is whole");
    s->owner.set(0);
    stack.reset();
  }
};

/// Made or failed: the outcome comes last.
template <fork::state::outcome What>
struct outcome : rl::test_suite<outcome<What>, 2> {
  fork f;
  void thread(unsigned index) {
    if (index == 1) return f.steal(What);
    f.wait();
    check(f.stack->result() == What, "the outcome is the thief's");
    check(f.result.get() == 7, "what it has made can be seen");
    f.close();
  }
};

/// While the thread waits, it looks at the scope; so does a third one, on its behalf, which it outlasts.
struct helpers : rl::test_suite<helpers, 3> {
  fork f;
  atomic<unsigned> looks{1};
  void look() const {
    if (const scope* const s = f.stack->scope()) check(s->owner.get() == 1, "a scope that can be seen is whole");
  }
  void thread(unsigned index) {
    if (index == 1) return f.steal();
    look();
    if (index == 2) return looks.store(0, std::memory_order_release);
    f.wait();
    while (looks.load(std::memory_order_acquire) != 0) yield_thread();
    f.close();
  }
};

/// Not wanted any more: the thief is told, or its scope is cancelled.
struct cancelled : rl::test_suite<cancelled, 2> {
  fork f;
  cell<bool> is_told{false};
  void thread(unsigned index) {
    if (index == 1) {
      f.from_thief.owner.set(1);
      is_told.set(!f.stack->begin(f.from_thief));
      return f.stack->finish(fork::state::outcome::skipped);
    }
    scope* const s = f.stack->cancel();
    f.wait();
    check(s != nullptr || is_told.get(), "one of both sees the other");
    f.close();
  }
};

/// The same as fork_join() does it, where a call that is not made leaves no result.
struct skipped : rl::test_suite<skipped, 2> {
  fork f;
  void thread(unsigned index) {
    if (index == 1) return f.steal();
    f.cancel();
    f.wait();
    const bool is_made = f.stack->result() == fork::state::outcome::made;
    check(f.result.get() == (is_made ? 7U : 0U), "a call is made whole or skipped");
    f.close();
  }
};

/// A thief that goes on with the state after the end, against which the others are checked.
struct late_thief : rl::test_suite<late_thief, 2> {
  fork f;
  void thread(unsigned index) {
    if (index == 0) {
      f.wait();
      return f.close();
    }
    f.steal();
    f.stack->scope();
  }
};

}  // namespace

int main(int argc, char** argv) {
  using how = fork::state::outcome;
  model::runner run("fork_state", argc, argv);
  run.check<outcome<how::made>>("what a thief has made can be seen by the thread that waited, whose stack may go");
  run.check<outcome<how::failed>>("so can what it has thrown");
  run.check<helpers>("who waits, and who looks on its behalf, sees a whole scope or none");
  run.check<cancelled>("a thief that begins is told that it is not wanted, or its scope can be cancelled");
  run.check<skipped>("a cancelled call is made whole or not at all");
  run.check_fails<late_thief>("a thief that looks at the state after the end meets a stack that has gone");
  return run.result();
}
