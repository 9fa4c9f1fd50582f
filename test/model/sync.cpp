// SPDX-License-Identifier: BSL-1.0
//
// A mutex among loops: the lock, and places that are handed over while the flows that get them are cancelled and their
// loops end.
#include "relacy_runner.hpp"

#include "steps/detail/wait/fair_semaphore.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::delivery;
using async::detail::inbox;
using async::detail::message;
using async::detail::spin_lock;
using model::check;
using steps::detail::fair_semaphore;
using steps::detail::sync_entry;

namespace {

/// Three threads change something under the lock.
struct exclusion : rl::test_suite<exclusion, 3> {
  spin_lock lock;
  cell<unsigned> count{0};

  void thread(unsigned) {
    lock.lock();
    count.set(count.get() + 1);
    lock.unlock();
  }
  void after() { check(count.get() == 3, "nobody interrupts another"); }
};

/// A loop_core as far as waiters know it: its inbox, its thread, and its counted references.
struct loop {
  explicit loop(unsigned thread) : owner(thread) {}
  bool is_current() const { return rl::ctx().threadx_->index_ == static_cast<rl::thread_id_t>(owner); }
  void add_ref() {
    check(alive.get(), "the loop exists");
    references.fetch_add(1, std::memory_order_relaxed);
  }
  void release() {
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) alive.set(false);
  }
  bool push(message& m) {
    check(alive.get(), "the loop exists");
    return box.push(m) != inbox::pushed::refused;
  }

  inbox box;
  atomic<unsigned> references{1};
  cell<bool> alive{true};
  const unsigned owner;
};

struct waiter : steps::detail::sync_waiter_base<waiter, loop> {
  explicit waiter(loop& l) : sync_waiter_base(l) {}
  bool is_on_loop() const { return core->is_current(); }
  void wake() { woken = true; }
  static void destroy(waiter& t) { delete &t; }
  bool woken = false;
  waiter* behind = nullptr;
  waiter* before = nullptr;
};

void deliver(message* chain, delivery how) {
  while (chain != nullptr) {
    message& m = *chain;
    chain = m.next.get();
    m.deliver(m, how);
  }
}

/// A flow that wants a place, on a loop of its own.
struct client {
  explicit client(unsigned thread) : tool(thread) {}

  bool enter(fair_semaphore<waiter>& places) {
    if (places.try_enter() == sync_entry::entered) return true;
    waiting = new waiter(tool);
    if (places.enqueue(*waiting) == sync_entry::queued) return false;
    waiter::destroy(*std::exchange(waiting, nullptr));
    return true;
  }
  /// One turn of the loop. True: the flow has been let in.
  bool turn() {
    deliver(tool.box.take(), delivery::on_loop);
    if (!waiting->woken) return false;
    waiter::destroy(*std::exchange(waiting, nullptr));
    return true;
  }
  void wait() {
    while (!turn()) async::detail::yield_thread();
  }
  void cancel(fair_semaphore<waiter>& places) {
    std::exchange(waiting, nullptr)->abandon(places, [&places] { places.leave(); });
  }
  void close() {
    deliver(tool.box.close(), delivery::dropped);
    tool.release();
  }

  loop tool;
  waiter* waiting = nullptr;
};

/// Flows of several loops, one of whom is cancelled while it waits, or has just been let in, and whose loop ends.
template <unsigned Flows, unsigned Cancelled>
struct hand_over : rl::test_suite<hand_over<Flows, Cancelled>, static_cast<int>(Flows)> {
  fair_semaphore<waiter> places{1, 9};
  cell<unsigned> inside{0};
  client clients[3] = {client(0), client(1), client(2)};

  void thread(unsigned index) {
    client& me = clients[index];
    bool in = me.enter(places);
    if (!in && index == Cancelled) {
      in = me.turn();
      if (!in) me.cancel(places);
    } else if (!in) {
      me.wait();
      in = true;
    }
    if (in) {
      inside.set(inside.get() + 1);
      places.leave();
    }
    me.close();
  }
  void after() {
    const unsigned passed = inside.get();
    check(passed == Flows || passed + 1 == Flows, "all pass but the one that may be cancelled");
    check(places.try_enter() == sync_entry::entered, "the place is free");
    check(places.try_enter() == sync_entry::must_queue, "there is one place");
    for (unsigned i = 0; i < Flows; ++i) check(!clients[i].tool.alive.get(), "nobody holds a loop");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("sync", argc, argv);
  run.check<exclusion>("a lock is one thread's at a time");
  run.check<hand_over<2, 9>>("a place is handed over");
  run.check<hand_over<2, 1>>("a place is handed to a flow that is cancelled and whose loop ends");
  run.check<hand_over<3, 1>>("a place is handed on by a flow that is cancelled");
  return run.result();
}
