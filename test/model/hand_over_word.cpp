// SPDX-License-Identifier: BSL-1.0
//
// A continuation is handed to a pool while another thread makes its result ready and then destroys the pool.
#include "relacy_runner.hpp"

#include "async/detail/call/hand_over_word.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::hand_over_word;
using model::check;

namespace {

/// Thread 0 hands the continuation over; thread 1 has taken its result, and destroys the pool.
struct ends_the_pool : rl::test_suite<ends_the_pool, 2> {
  hand_over_word word;
  cell<unsigned> pool{1};  // 0: destroyed

  void thread(unsigned index) {
    if (index == 0) {
      if (!word.begin()) return;
      check(pool.get() == 1, "the pool is there");
      word.end();
    } else {
      word.close();
      pool.set(0);
    }
  }
  void after() {
    check(!word.begin(), "nobody hands it over again");
    word.close();  // does not wait
    check(pool.get() == 0, "the pool has ended");
  }
};

/// The pool's end waits for threads that it knows of, as that of a threadpool does.
struct ends_a_threadpool : rl::test_suite<ends_a_threadpool, 2> {
  hand_over_word word;
  atomic<unsigned> late_leavers{0};
  cell<unsigned> pool{1};

  void thread(unsigned index) {
    if (index == 0) {
      if (!word.begin()) return;
      late_leavers.fetch_add(1, std::memory_order_relaxed);
      word.end();
      check(pool.get() == 1, "the pool is there");
      late_leavers.fetch_sub(1, std::memory_order_release);
    } else {
      word.close();
      while (late_leavers.load(std::memory_order_acquire) != 0) async::detail::yield_thread();
      pool.set(0);
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("hand_over_word", argc, argv);
  run.check<ends_the_pool>("the pool is not used after its end");
  run.check<ends_a_threadpool>("the pool's end waits for a thread that has come");
  return run.result();
}
