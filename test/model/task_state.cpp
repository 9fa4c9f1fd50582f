// SPDX-License-Identifier: BSL-1.0
//
// A coroutine that is awaited ends on another thread, at any time of the call that has resumed it: the awaiting one
// goes on once, with its result, and with both frames to itself.
#include "relacy_runner.hpp"

#include "steps/interop/detail/task_state.hpp"

using async::detail::atomic;
using async::detail::cell;
using model::check;
using steps::interop::detail::task_state;

namespace {

/// Thread 0 awaits; the coroutine waits for something that thread 1 ends, and on which it is resumed there.
struct awaited : rl::test_suite<awaited, 2> {
  task_state word;
  atomic<unsigned> resumed{0};  // stands for what the coroutine waits for
  cell<unsigned> continuation{0};
  cell<unsigned> frame{0};  // the coroutine's: what runs in it, and its end
  cell<unsigned> start{0};  // what the first thread still has to do there when the other one may resume it
  cell<unsigned> result{0};
  unsigned went_on[2] = {};

  void go_on(unsigned thread) {
    ++went_on[thread];
    check(result.get() == 7, "the result is there");
    check(start.get() == 1, "the other thread has done with the frame");
    frame.set(0);  // destroyed, as are the rest
    start.set(0);
    result.set(0);
  }
  void thread(unsigned index) {
    if (index == 0) {
      continuation.set(1);
      frame.set(1);
      resumed.store(1, std::memory_order_release);
      start.set(1);
      if (!word.await()) go_on(0);
      return;
    }
    while (resumed.load(std::memory_order_acquire) == 0) async::detail::yield_thread();
    frame.set(frame.get() + 1);
    result.set(7);
    check(continuation.get() == 1, "who awaits is known before the coroutine runs");
    if (word.end()) go_on(1);
  }
  void after() { check(went_on[0] + went_on[1] == 1, "the awaiting coroutine goes on once"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("task_state", argc, argv);
  run.check<awaited>("a coroutine ends on another thread while it is being awaited");
  return run.result();
}
