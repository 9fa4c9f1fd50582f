// SPDX-License-Identifier: BSL-1.0
//
// A coroutine that is a step waits; a trigger on another thread ends the wait by a message to its loop, while the
// coroutine is destroyed there, and the function that has begun it is still running.
#include "relacy_runner.hpp"

#include "async/detail/loop/inbox.hpp"
#include "steps/interop/detail/operation_state.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::delivery;
using async::detail::inbox;
using async::detail::message;
using model::check;
using steps::interop::detail::operation_state;

namespace {

struct operation : message {
  operation() : message(&arrived) {}
  void drop() {
    if (!word.drop()) return;
    outcome.set(0);
    tie.set(0);
    freed.set(freed.get() + 1);
  }
  static void arrived(message& m, delivery) {
    auto& self = static_cast<operation&>(m);
    if (self.word.is_wanted()) {
      check(!self.abandoned, "nothing is resumed that has been destroyed");
      check(self.outcome.get() == 7, "the outcome is there");
      ++self.resumed;
      self.drop();  // the awaiter's
    }
    self.drop();
  }

  operation_state word;
  cell<unsigned> outcome{0};
  cell<unsigned> tie{0};  // what the beginning function writes
  cell<unsigned> freed{0};
  bool abandoned = false;  // the loop's, as is the next
  unsigned resumed = 0;
};

enum class coroutine { waits, is_destroyed };

/// Thread 0 is the loop's; thread 1 has the trigger; thread 2 is in the function that has begun the operation.
template <coroutine What>
struct wait : rl::test_suite<wait<What>, 3> {
  operation op;
  inbox box;
  bool sent = false;  // the trigger's

  void deliver() {
    for (message* m = box.take(); m != nullptr;) {
      message& each = *std::exchange(m, m->next.get());
      each.deliver(each, delivery::on_loop);
    }
  }
  void thread(unsigned index) {
    if (index == 2) {
      op.tie.set(1);
      op.drop();
    } else if (index == 1) {
      op.outcome.set(7);
      if (!op.word.is_wanted()) return op.drop();
      sent = true;
      box.push(op);
    } else {
      deliver();
      if (What == coroutine::waits) {
        while (op.resumed == 0) {
          async::detail::yield_thread();
          deliver();
        }
      } else if (op.resumed == 0) {
        op.abandoned = true;
        op.word.abandon();
        op.drop();
      }
    }
  }
  void after() {
    deliver();
    check(op.freed.get() == 1, "what they share is freed once");
    check(op.resumed == (op.abandoned ? 0U : 1U), "the coroutine goes on once, or has been destroyed");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("operation_state", argc, argv);
  run.check<wait<coroutine::waits>>("a wait is ended while the function that began it runs");
  run.check<wait<coroutine::is_destroyed>>("a wait is ended while the coroutine is destroyed");
  return run.result();
}
