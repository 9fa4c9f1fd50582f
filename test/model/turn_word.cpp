// SPDX-License-Identifier: BSL-1.0
//
// The turns of a pool's loop: threads bring it work and schedule it, runners take it from a queue, a visitor begins a
// turn while it rests. A turn does one piece of work. The queue passes on nothing but the loop, so that all else
// depends on the word; or it links the loops that it holds, which the word orders from one queue to the next.
#include "relacy_runner.hpp"

#include "async/detail/pool/turn_word.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::turn_word;
using model::check;

namespace {

constexpr unsigned pieces = 2;

template <bool Links = false>
struct scheduled_loop {
  turn_word word;
  atomic<unsigned> in_queue{0};
  atomic<unsigned> work[pieces];
  cell<unsigned> done[pieces];  // only touched in turns
  cell<unsigned> turns{0};      // likewise
  cell<unsigned> link{0};       // of the thread that puts the loop into a queue, then of the one that takes it

  void enqueue() {
    if (Links) link.set(1);
    const unsigned before = in_queue.exchange(1, Links ? std::memory_order_release : std::memory_order_relaxed);
    check(before == 0, "a loop is in one queue at most");
  }
  bool dequeue() {
    unsigned there = 1;
    if (!in_queue.compare_exchange_strong(there, 0, Links ? std::memory_order_acquire : std::memory_order_relaxed,
                                          std::memory_order_relaxed)) {
      return false;
    }
    if (Links) link.set(0);
    return true;
  }

  void bring(unsigned piece) {
    work[piece].store(1, std::memory_order_relaxed);
    if (word.schedule()) enqueue();
  }
  bool is_there(unsigned piece) const {
    return done[piece].get() == 0 && work[piece].load(std::memory_order_relaxed) != 0;
  }
  void turn() {
    turns.set(turns.get() + 1);
    bool is_left = false;
    bool has_done_one = false;
    for (unsigned piece = 0; piece != pieces; ++piece) {
      if (!is_there(piece)) continue;
      if (has_done_one) {
        is_left = true;
      } else {
        done[piece].set(1);
        has_done_one = true;
      }
    }
    if (!is_left && word.end()) return;
    word.requeue();
    enqueue();
  }
  void run() {
    if (!dequeue()) return;
    word.begin();
    turn();
  }
  void visit() {
    if (word.try_begin()) turn();
  }

  void check_end(unsigned brought) {
    while (in_queue.load(std::memory_order_relaxed) != 0) run();
    for (unsigned piece = 0; piece != brought; ++piece) check(done[piece].get() == 1, "a turn sees each piece of work");
    check(word.try_begin(), "the loop rests");
  }
};

/// Two threads bring work, two others run the loop.
template <bool Links>
struct turns : rl::test_suite<turns<Links>, 4> {
  scheduled_loop<Links> loop;
  void thread(unsigned index) {
    if (index < pieces) return loop.bring(index);
    loop.run();
    loop.run();
  }
  void after() { loop.check_end(pieces); }
};

/// Two threads bring work and then run the loop, a third runs it, too.
struct busy_turns : rl::test_suite<busy_turns, 3> {
  scheduled_loop<> loop;
  void thread(unsigned index) {
    if (index < pieces) loop.bring(index);
    loop.run();
    loop.run();
  }
  void after() { loop.check_end(pieces); }
};

/// A thread visits the loop while another one brings work and a third runs it.
struct visits : rl::test_suite<visits, 3> {
  scheduled_loop<> loop;
  void thread(unsigned index) {
    if (index == 0) return loop.bring(0);
    if (index == 1) {
      loop.run();
      return loop.run();
    }
    loop.visit();
    loop.bring(1);
    loop.visit();
  }
  void after() { loop.check_end(pieces); }
};

/// Two threads visit the loop while a third brings work.
struct two_visitors : rl::test_suite<two_visitors, 3> {
  scheduled_loop<> loop;
  void thread(unsigned index) {
    if (index == 0) return loop.bring(0);
    loop.visit();
    loop.run();
  }
  void after() { loop.check_end(1); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("turn_word", argc, argv);
  run.check<turns<false>>("two threads bring work, two run the loop");
  run.check<turns<true>>("the same with a queue that links the loops");
  run.check<busy_turns>("threads bring work and run the loop");
  run.check<visits>("a visitor that also brings work, and a runner");
  run.check<two_visitors>("two visitors");
  return run.result();
}
