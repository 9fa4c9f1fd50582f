// SPDX-License-Identifier: BSL-1.0
//
// The end of a pool while tasks are posted from outside: each accepted task is run by some thread.
#include "relacy_runner.hpp"

#include "async/detail/pool/shutdown_state.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::shutdown_state;
using model::check;

namespace {

/// Two threads post; one stops the pool, whose own threads run nothing.
struct posts_and_stop : rl::test_suite<posts_and_stop, 3> {
  shutdown_state state;
  atomic<unsigned> waiting{0};
  cell<unsigned> late_posts{0};  // the policy for them: written before the stop
  unsigned ran[3] = {};
  unsigned refused[3] = {};

  void run_left_over(unsigned index) {
    unsigned there = waiting.load(std::memory_order_relaxed);
    while (there != 0) {
      if (waiting.compare_exchange_strong(there, there - 1, std::memory_order_acquire, std::memory_order_relaxed)) {
        ++ran[index];
        there = waiting.load(std::memory_order_relaxed);
      }
    }
  }
  void thread(unsigned index) {
    if (index == 2) {
      late_posts.set(7);
      state.begin();
      check(state.is_closing(), "the stopping thread sees it");
      state.finish();
      return run_left_over(2);
    }
    if (state.has_begun()) {
      check(late_posts.get() == 7, "a refused post sees what was done before begin()");
      ++refused[index];
      return;
    }
    waiting.fetch_add(1, std::memory_order_release);
    if (state.is_over()) run_left_over(index);
  }
  void after() { check(ran[0] + ran[1] + ran[2] + refused[0] + refused[1] == 2, "each task is run or refused"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("shutdown_state", argc, argv);
  run.check<posts_and_stop>("two posts while a pool is stopped");
  return run.result();
}
