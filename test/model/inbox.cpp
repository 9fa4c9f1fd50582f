// SPDX-License-Identifier: BSL-1.0
//
// Messages to a loop from other threads: the inbox with the owner's sleep, its end, and callbacks that are cancelled
// by one thread while the loop runs them or lets go of them.
#include "relacy_runner.hpp"

#include "async/detail/base/parker.hpp"
#include "async/detail/loop/callback_state.hpp"
#include "async/detail/loop/inbox.hpp"

using async::detail::atomic;
using async::detail::callback_state;
using async::detail::cell;
using async::detail::delivery;
using async::detail::inbox;
using async::detail::message;
using async::detail::parker;
using model::check;

namespace {

struct numbered : message {
  numbered() : message(nullptr) {}
  cell<unsigned> number;
};

/// An inbox as a loop uses it. `alive` stands for all that a wake-up touches.
struct mailbox {
  inbox box;
  parker sleeper;
  cell<bool> alive{true};

  bool push(message& m) {
    const inbox::pushed result = box.push(m);
    if (result == inbox::pushed::wake_thread) {
      check(alive.get(), "the owner waits for the wake-up before it destroys what that touches");
      sleeper.unpark();
      box.woken();
    }
    return result != inbox::pushed::refused;
  }

  /// Sleeps until there is something.
  message* wait() {
    while (true) {
      if (message* const m = box.take()) return m;
      if (box.sleep(false)) sleeper.park();
    }
  }
};

/// Two threads push, one of them twice, while the owner takes and sleeps: all arrive, in each thread's order.
struct deliver : rl::test_suite<deliver, 3> {
  mailbox loop;
  numbered messages[3];

  void thread(unsigned index) {
    if (index != 2) {
      for (unsigned i = index; i < 3; i += 2) {
        messages[i].number.set(i + 1);
        check(loop.push(messages[i]), "an open inbox takes messages");
      }
      return;
    }
    unsigned seen[4] = {};
    for (unsigned count = 0; count != 3;) {
      for (message* m = loop.wait(); m != nullptr; m = m->next.get()) {
        const unsigned number = static_cast<numbered*>(m)->number.get();
        check(++seen[number] == 1, "each message arrives once");
        check(number != 3 || seen[1] == 1, "messages of one thread arrive in order");
        ++count;
      }
    }
    check(loop.box.close() == nullptr, "nothing is left");
    loop.alive.set(false);
  }
};

/// The owner may time out while it sleeps, and then ends: what was pushed has arrived or was refused.
struct end : rl::test_suite<end, 3> {
  mailbox loop;
  numbered messages[2];
  cell<unsigned> left_behind;  // by the owner for those that it refuses
  unsigned taken[2] = {};
  unsigned refused[2] = {};

  void thread(unsigned index) {
    if (index != 2) {
      messages[index].number.set(index);
      if (!loop.push(messages[index])) {
        ++refused[index];
        check(left_behind.get() == 7, "who is refused sees what the owner did before");
      }
      return;
    }
    if (loop.box.sleep(false)) {
      static_cast<void>(loop.sleeper.park_until(async::detail::wait_clock::now() + std::chrono::seconds(1)));
    }
    count(loop.box.take());
    left_behind.set(7);
    count(loop.box.close());
    loop.alive.set(false);
  }
  void count(message* m) {
    for (; m != nullptr; m = m->next.get()) ++taken[static_cast<numbered*>(m)->number.get()];
  }
  void after() {
    check(taken[0] + refused[0] == 1 && taken[1] + refused[1] == 1, "a message is delivered once or refused");
  }
};

/// Two pushes into one sleep: exactly one wakes.
struct one_wake : rl::test_suite<one_wake, 2> {
  inbox box;
  numbered messages[2];
  unsigned wakes[2] = {};

  void before() { check(box.sleep(true), "an empty inbox lets its owner sleep"); }
  void thread(unsigned index) {
    const inbox::pushed result = box.push(messages[index]);
    if (result == inbox::pushed::wake_embedder) {
      ++wakes[index];
      box.woken();
    }
  }
  void after() {
    check(wakes[0] + wakes[1] == 1, "one push wakes");
    check(box.take() != nullptr, "the messages are there");
    check(box.close() == nullptr, "nothing is left");
  }
};

struct bell : async::detail::recurring_message {
  bell() : recurring_message(nullptr) {}
};

/// Two threads send a message that recurs, to a loop that takes it as often as it comes: it is in the inbox once at
/// most, and whoever finds it under way is served by that delivery.
struct recur : rl::test_suite<recur, 3> {
  mailbox loop;
  bell message_;
  atomic<unsigned> senders{2};

  void thread(unsigned index) {
    if (index != 2) {
      if (message_.depart()) loop.push(message_);
      senders.fetch_sub(1, std::memory_order_release);
      return;
    }
    unsigned times = 0;
    for (;;) {
      const bool is_last = senders.load(std::memory_order_acquire) == 0;
      message* const m = loop.box.take();
      if (m != nullptr) {
        check(m == &message_ && m->next.get() == nullptr, "it is there once");
        ++times;
        message_.arrive();
      } else if (is_last) {
        break;
      } else {
        async::detail::yield_thread();
      }
    }
    check(times == 1 || times == 2, "it is delivered");
    loop.alive.set(false);
  }
};

/// A callback without a loop around it: what async::detail::callback does with its state, its message, and its memory.
struct callback : message {
  callback(unsigned handles, bool in_transit) : message(nullptr), state(handles, in_transit), held(!in_transit) {}
  callback_state state;
  cell<unsigned> work{0};  // what the task holds: the loop's, until the last reference goes
  bool held;               // the loop's
};

/// The loop takes a callback that was sent to it, holds it, and runs it or lets go of it, while a thread cancels it and
/// drops its handle, and another drops one.
template <bool InTransit>
struct cancel : rl::test_suite<cancel<InTransit>, 3> {
  inbox box;
  callback c{2, InTransit};
  bool ran = false;       // the loop's
  bool let_go = false;    // the loop's
  int destroyed[3] = {};  // each thread's
  bool was_cancelled = false;

  void before() {
    if (InTransit) box.push(c);
  }

  void release(unsigned index) {
    if (c.state.release()) {
      c.work.set(9);  // destruction: ordered after all uses
      ++destroyed[index];
    }
  }

  void thread(unsigned index) {
    if (index == 0) {
      const callback_state::cancelled result = c.state.cancel();
      if (result == callback_state::cancelled::tell_the_loop) box.push(c);
      was_cancelled = result != callback_state::cancelled::too_late;
      release(0);
    } else if (index == 1) {
      static_cast<void>(c.state.pending());
      release(1);
    } else {
      bool owed = false;
      if (InTransit) {
        take();
        if (let_go) return;
      }
      if (c.state.claim()) {  // it is due
        ran = true;
        finish();
      } else {
        owed = true;
      }
      while (owed && !let_go) take();
    }
  }

  void take() {
    message* const m = box.take();
    if (m == nullptr) return async::detail::yield_thread();
    check(m == &c && m->next.get() == nullptr, "one message at a time");
    if (c.held) {
      finish();
    } else if (c.state.land()) {
      c.held = true;
    } else {
      finish();
    }
  }
  void finish() {
    check(!let_go, "the loop lets go once");
    let_go = true;
    c.work.set(1);
    release(2);
  }
  void after() {
    check(ran != was_cancelled, "it has run, unless it was cancelled");
    check(let_go, "the loop has let go");
    check(destroyed[0] + destroyed[1] + destroyed[2] == 1, "the last reference destroys it");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("inbox", argc, argv);
  run.check<deliver>("messages of two threads arrive at a loop that sleeps");
  run.check<end>("a loop ends while other threads push");
  run.check<one_wake>("one push of a sleep wakes");
  run.check<recur>("a message that recurs is sent by two threads");
  run.check<cancel<false>>("a callback that waits is cancelled while it becomes due");
  run.check<cancel<true>>("a callback in transit is cancelled while it arrives and becomes due");
  return run.result();
}
