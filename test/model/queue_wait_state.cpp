// SPDX-License-Identifier: BSL-1.0
//
// A coroutine waits for a queue; it is chosen, notified, let go on by a thread, and destroyed, at any time. The block
// that they share is freed once, by the last that uses it.
#include "relacy_runner.hpp"

#include "async/detail/queue/queue_wait_state.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::queue_wait_state;
using model::check;

namespace {

/// The block, and who has it. `used` is written by everyone that has it.
struct block {
  queue_wait_state state;
  cell<unsigned> used{0};
  cell<unsigned> freed{0};
  cell<unsigned> frame{0};  // the coroutine's
  cell<unsigned> resumed{0};

  void use() { used.set(used.get() + 1); }
  void destroy() {
    use();
    frame.set(2);  // after what the coroutine's side did
    freed.set(freed.get() + 1);
  }
  /// The notifier's side. True: it passes the block on.
  bool notify() {
    use();
    switch (state.notify()) {
      case queue_wait_state::next::nothing:
        return false;
      case queue_wait_state::next::pass_on:
        return true;
      case queue_wait_state::next::free:
        destroy();
        return false;
    }
    return false;
  }
  /// By the thread that lets the coroutine go on.
  void go_on() {
    use();
    if (!state.claim()) return destroy();
    check(frame.get() == 1, "the coroutine has suspended");
    resumed.set(resumed.get() + 1);
    destroy();
  }
};

/// Thread 0 begins to wait and has been chosen; thread 1 notifies it, and resumes it.
struct suspends : rl::test_suite<suspends, 2> {
  block b;
  bool suspended = false;

  void thread(unsigned index) {
    if (index == 1) {
      if (b.notify()) b.go_on();
      return;
    }
    b.frame.set(1);
    suspended = b.state.suspend();
    if (suspended) return;
    b.use();  // notified: its own again
    b.state.again();
    b.destroy();
  }
  void after() {
    check(b.freed.get() == 1, "freed once");
    check((b.resumed.get() == 1) == suspended, "a coroutine that has suspended is resumed");
  }
};

/// The same; thread 0 waits a second time, and thread 2 notifies it then.
struct suspends_again : rl::test_suite<suspends_again, 3> {
  block b;
  atomic<unsigned> again{0};

  void thread(unsigned index) {
    if (index == 0) {
      b.frame.set(1);
      if (b.state.suspend()) return;
      b.use();
      b.state.again();
      list_again();
    } else if (index == 1) {
      if (!b.notify()) return;
      b.use();
      check(b.state.claim(), "it has not been destroyed");
      list_again();
    } else {
      while (again.load(std::memory_order_acquire) == 0) async::detail::yield_thread();
      if (b.notify()) b.go_on();
    }
  }
  /// Lists the block once more, as the event_count does by its lock, and suspends.
  void list_again() {
    again.store(1, std::memory_order_release);
    if (b.state.suspend()) return;
    b.use();
    b.state.again();
    b.destroy();
  }
  void after() { check(b.freed.get() == 1, "freed once"); }
};

/// Thread 0 finds a result after it has been chosen; thread 1 notifies it.
struct detaches : rl::test_suite<detaches, 2> {
  block b;

  void thread(unsigned index) {
    if (index == 1) {
      check(!b.notify(), "it has not suspended");
      return;
    }
    b.frame.set(1);
    if (b.state.detach()) b.destroy();
  }
  void after() { check(b.freed.get() == 1, "freed once"); }
};

/// Thread 0 destroys a coroutine that waits and has been chosen. Thread 1 notifies it, and takes
/// the block when the coroutine cannot be resumed.
struct is_destroyed : rl::test_suite<is_destroyed, 2> {
  block b;

  void before() {
    b.frame.set(1);
    check(b.state.suspend(), "nobody has notified it");
  }
  void thread(unsigned index) {
    if (index == 0) {
      b.frame.set(0);
      if (b.state.abandon()) b.destroy();
    } else if (b.notify()) {
      b.use();
      if (!b.state.claim()) b.destroy();  // else the coroutine has it, until it is destroyed
    }
  }
  void after() { check(b.freed.get() == 1, "freed once"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("queue_wait_state", argc, argv);
  run.check<suspends>("a coroutine suspends while it is notified");
  run.check<suspends_again>("a coroutine waits again after it was notified");
  run.check<detaches>("a coroutine has a result while it is notified");
  run.check<is_destroyed>("a coroutine is destroyed while it is notified");
  return run.result();
}
