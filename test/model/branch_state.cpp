// SPDX-License-Identifier: BSL-1.0
//
// The join of branches on other loops: they begin, end, and are asked to end while they are being taken; the parent
// frees them when the count is zero, but for those that nobody had taken: these the later of parent and worker frees.
// The count is as in steps/detail/parallel/pool_parallel.hpp.
#include "relacy_runner.hpp"

#include "async/detail/base/reference_count.hpp"
#include "steps/detail/flow/branch_state.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::reference_count;
using async::detail::yield_thread;
using model::check;
using steps::detail::branch_state;

namespace {

struct branch {
  atomic<std::uint32_t> word{0};
  atomic<unsigned> message{0};  // stands for its loop's inbox
  cell<unsigned> core{0};
  cell<unsigned> memory{0};
  cell<unsigned> freed{0};
  bool disposed = false;  // the parent's
};

/// The parent asks two branches to end, at any time, and frees them.
template <bool Asks>
struct join : rl::test_suite<join<Asks>, 3> {
  branch branches[2];
  reference_count left{2};
  atomic<unsigned> over{0};
  unsigned zeros[3] = {};

  void before() {
    for (branch& b : branches) branch_state(b.word).offer();
  }
  void count_down(unsigned thread) {
    if (!left.drop()) return;
    ++zeros[thread];
    over.store(1, std::memory_order_release);
  }
  void run(unsigned thread, branch& b) {
    branch_state word(b.word);
    b.core.set(thread);
    const branch_state::binding how = word.bind(false);
    if (how == branch_state::binding::free) {
      check(b.memory.get() == 7, "a branch is freed after it has been disposed of");
      b.freed.set(b.freed.get() + 1);
    }
    if (how != branch_state::binding::wanted) return;
    b.memory.set(1);
    bool told = b.message.load(std::memory_order_acquire) != 0;
    if (told) count_down(thread);  // asked before its end
    word.end();
    b.memory.set(2);
    count_down(thread);
    while (!told && over.load(std::memory_order_acquire) == 0) {
      told = b.message.load(std::memory_order_acquire) != 0;
      if (told) {
        check(word.has_ended(), "the message comes to a branch that has ended");
        b.memory.set(3);
        count_down(thread);
      }
      yield_thread();
    }
  }
  void thread(unsigned index) {
    if (index != 0) return run(index, branches[index - 1]);
    const bool asks = Asks && left.try_add();
    for (unsigned i = 0; asks && i != 2; ++i) {
      branch& b = branches[i];
      switch (branch_state(b.word).ask_to_end()) {
        case branch_state::request::send:
          check(b.core.get() == i + 1, "the loop of a branch that is told to end is known");
          left.add();
          b.message.store(1, std::memory_order_release);
          break;
        case branch_state::request::dispose:
          b.disposed = true;
          b.memory.set(7);
          if (branch_state(b.word).disposed()) {
            check(b.core.get() == i + 1, "the worker has let go of a branch that the parent frees");
            b.freed.set(b.freed.get() + 1);
          }
          count_down(0);
          break;
        default:
          break;
      }
    }
    if (asks) count_down(0);
    while (over.load(std::memory_order_acquire) == 0) yield_thread();
    for (branch& b : branches) {
      if (!b.disposed) b.memory.set(9);  // freed
    }
  }
  void after() {
    check(zeros[0] + zeros[1] + zeros[2] == 1, "the count comes to zero once");
    for (branch& b : branches) check(b.freed.get() == (b.disposed ? 1U : 0U), "a disposed branch is freed once");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("branch_state", argc, argv);
  run.check<join<false>>("branches end, and are freed");
  run.check<join<true>>("branches are asked to end while they are taken, run and end");
  return run.result();
}
