// SPDX-License-Identifier: BSL-1.0
//
// A list that grows, from one array into the next, while threads read it.
#include "relacy_runner.hpp"

#include "async/detail/pool/published_list.hpp"

using async::detail::cell;
using model::check;

namespace {

struct entry {
  cell<unsigned> number{0};
};

/// One thread adds three entries, to an array of two and then one of four; two threads read the list.
struct growth : rl::test_suite<growth, 3> {
  async::detail::published_list<entry, 2> list;
  entry entries[3];

  void thread(unsigned index) {
    if (index == 2) {
      for (unsigned i = 0; i < 3; ++i) {
        list.reserve_one();
        entries[i].number.set(i + 1);
        list.add(entries[i]);
      }
      return;
    }
    unsigned count = 0;
    unsigned sum = 0;
    list.any_of(index, [&](entry& e) {
      ++count;
      sum += e.number.get();
      return false;
    });
    check(sum == count * (count + 1) / 2, "the visible entries were added one after the other");
    unsigned again = 0;
    list.any_of(0, [&](entry&) {
      ++again;
      return false;
    });
    check(again >= count, "no entry is removed");
  }
  void after() {
    check(list.any_of(0, [](entry& e) { return e.number.get() == 3; }), "all entries are there");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("published_list", argc, argv);
  run.check<growth>("a list grows while two threads read it");
  return run.result();
}
