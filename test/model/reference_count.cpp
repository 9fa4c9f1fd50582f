// SPDX-License-Identifier: BSL-1.0
//
// The counted object ends once, with the last reference, after everything that other holders did with it.
#include "relacy_runner.hpp"

#include "async/detail/base/reference_count.hpp"

using async::detail::cell;
using async::detail::reference_count;
using model::check;

namespace {

struct counted {
  explicit counted(unsigned holders) : references(holders) {}
  reference_count references;
  cell<unsigned> used[4];  // each holder's own
  cell<bool> alive{true};

  void use(unsigned holder) {
    check(alive.get(), "it lives as long as somebody holds it");
    used[holder].set(7);
  }
  /// The end writes to all of it.
  bool drop() {
    if (!references.drop()) return false;
    for (cell<unsigned>& each : used) each.set(0);
    alive.set(false);
    return true;
  }
};

/// Three holders use it and let it go.
struct three_holders : rl::test_suite<three_holders, 3> {
  counted it{3};
  unsigned ends[3] = {};
  void thread(unsigned index) {
    it.use(index);
    ends[index] = it.drop();
  }
  void after() { check(ends[0] + ends[1] + ends[2] == 1, "it ends once"); }
};

/// A holder gives a reference to another thread, and takes another one back.
struct added : rl::test_suite<added, 3> {
  counted it{2};
  unsigned ends[4] = {};
  async::detail::atomic<unsigned> handed_over{0};
  void thread(unsigned index) {
    if (index == 0) {
      it.references.add();
      handed_over.store(1, std::memory_order_relaxed);
    } else if (index == 2) {
      while (handed_over.load(std::memory_order_relaxed) == 0) async::detail::yield_thread();
    }
    it.use(index);
    ends[index] = it.drop();
  }
  void after() { check(ends[0] + ends[1] + ends[2] == 1, "it ends once"); }
};

/// A holder goes on with its own reference after the others have released theirs.
struct alone : rl::test_suite<alone, 3> {
  counted it{3};
  unsigned seen = 0;
  unsigned ends[3] = {};
  void thread(unsigned index) {
    it.use(index);
    if (index != 0) {
      ends[index] = it.drop();
      return;
    }
    while (!it.references.is_last()) async::detail::yield_thread();
    for (unsigned i = 1; i != 3; ++i) seen += it.used[i].get();
  }
  void after() {
    check(seen == 14, "what the others have done is seen");
    check(ends[1] + ends[2] == 0 && it.drop(), "it ends with the last");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("reference_count", argc, argv);
  run.check<three_holders>("three holders use and release the object");
  run.check<added>("a holder gives references to others");
  run.check<alone>("a holder waits until the others have released theirs");
  return run.result();
}
