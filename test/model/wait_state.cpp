// SPDX-License-Identifier: BSL-1.0
//
// The end of a wait: tokens on two threads race to end it, one of them may fail to store its result; meanwhile the step
// stops waiting, and its loop ends. The shared block is as in steps/completion.hpp.
#include "relacy_runner.hpp"

#include <utility>  // for exchange

#include "async/detail/loop/inbox.hpp"
#include "steps/detail/flow/wait_state.hpp"

using async::detail::cell;
using async::detail::delivery;
using async::detail::inbox;
using async::detail::message;
using model::check;
using steps::detail::wait_state;

namespace {

/// Shared by the step and its tokens.
struct block : message {
  block() : message(&arrived) {}

  static void arrived(message& m, delivery how) {
    block& self = static_cast<block&>(m);
    if (how == delivery::on_loop && self.waiting) {
      check(self.value.get() != 0, "the step gets the winner's result");
      self.received.set(self.received.get() + 1);
      self.step_leaves();
    }
    self.release();
  }
  void release() {
    if (!word.release()) return;
    check(value.get() < 3, "the last one has seen what the others did");
    freed.set(freed.get() + 1);
  }
  void step_leaves() {
    if (!std::exchange(waiting, false)) return;
    word.close();
    release();
  }

  wait_state word;
  cell<unsigned> value{0};
  cell<unsigned> received{0};
  cell<unsigned> freed{0};
  bool waiting = true;  // the loop's
};

enum class step_does { waits, times_out };

/// Thread 0 is the loop's; the others have a token each.
template <step_does What, bool LoopEnds>
struct wait : rl::test_suite<wait<What, LoopEnds>, 3> {
  block shared;
  inbox box;
  bool sent[3] = {};         // each thread's
  unsigned refused[3] = {};  // each thread's

  void before() { shared.word.share(); }  // the second token

  void success(unsigned thread, bool storing_fails) {
    if (!shared.word.win()) return;
    shared.value.set(thread);
    if (storing_fails) {
      shared.value.set(0);
      return shared.word.take_back();
    }
    shared.word.share();
    if (box.push(shared) != inbox::pushed::refused) {
      sent[thread] = 1;
      return;
    }
    refused[thread] = 1;
    shared.word.refused();
    shared.release();
  }
  void deliver(message* chain, delivery how) {
    while (chain != nullptr) {
      message& m = *chain;
      chain = m.next.get();
      m.deliver(m, how);
    }
  }
  void thread(unsigned index) {
    if (index != 0) {
      if (index == 1) success(1, true);
      success(index, false);
      return shared.release();
    }
    deliver(box.take(), delivery::on_loop);
    if (What == step_does::times_out) {
      shared.step_leaves();
    } else if (!LoopEnds) {
      while (shared.waiting) {
        async::detail::yield_thread();
        deliver(box.take(), delivery::on_loop);
      }
    }
    if (!LoopEnds) return;
    deliver(box.close(), delivery::dropped);
    shared.step_leaves();
  }
  void after() {
    if (!LoopEnds) deliver(box.take(), delivery::on_loop);
    shared.step_leaves();
    const unsigned ends = sent[1] + sent[2] + refused[1] + refused[2];
    check(ends <= 1, "one token ends a wait");
    check(shared.freed.get() == 1, "what they share is freed once");
    check(shared.received.get() <= 1, "a step goes on once");
    if (What == step_does::waits && !LoopEnds) check(ends == 1 && shared.received.get() == 1, "a wait is ended");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("wait_state", argc, argv);
  run.check<wait<step_does::waits, false>>("a wait is ended by one of two tokens");
  run.check<wait<step_does::times_out, false>>("a wait is ended by a token while the step leaves it");
  run.check<wait<step_does::waits, true>>("a wait is ended by a token while its loop ends");
  return run.result();
}
