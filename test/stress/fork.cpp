// SPDX-License-Identifier: BSL-1.0
//
// Children of a program whose pools are busy: forked by main, by other threads and inside tasks. None hangs.
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "support/fork_traffic.hpp"
#include "support/forked.hpp"
#include "support/scale.hpp"

using async::threadpool;
using testing::fork_traffic;
using testing::forked;
using testing::forked_ending;
using testing::require_in_child;
using testing::use_new_pools;

namespace {

/// What a child does, and how it ends.
struct plan {
  explicit plan(unsigned random) : use(random % 4), end(random / 4 % 3) {}

  /// In the child. `of_parent`: a pool of the parent, other than the shared ones. May return only on a thread whose
  /// function is over then.
  void follow(threadpool& of_parent, bool may_return) const {
    if (use == 0) use_new_pools();
    if (use == 1) require_in_child(async::async([] { return 1; }).get() == 1, "async::async");
    if (use == 2) {
      bool is_refused = false;
      try {
        of_parent.execute([] {});
      } catch (const async::stopped_by_fork&) {
        is_refused = true;
      }
      require_in_child(is_refused, "a pool of the parent");
      of_parent.wait_idle();
      of_parent.stop();
    }
    if (end == 0 && may_return && use > 1) return;
    end == 1 ? ::_exit(3) : std::exit(3);
  }
  int expected(bool may_return) const { return end == 0 && may_return && use > 1 ? 0 : 3; }

  unsigned use;
  unsigned end;
};

/// Forks, and says in the parent whether the child ends as planned.
bool ends_well(threadpool& own, const plan& p, bool may_return, bool& is_child) {
  const forked child;
  is_child = child.is_child();
  if (is_child) {
    p.follow(own, may_return);
    return true;
  }
  const forked_ending e = child.wait();
  if (e.exit_code != p.expected(may_return) || !e.error.empty()) {
    std::printf("use %u, end %u: exit %d, signal %d, %s\n", p.use, p.end, e.exit_code, e.signal, e.error.c_str());
    return false;
  }
  return true;
}

}  // namespace

TEST_CASE("children of a busy program end") {
  if (!testing::can_fork_with_threads()) return;
  auto own = std::make_unique<threadpool>(2);
  auto traffic = std::make_unique<fork_traffic>(threadpool::shared());
  auto more = std::make_unique<fork_traffic>(*own);
  const std::size_t rounds = testing::rounds(250);
  std::atomic<std::size_t> good{0};

  std::thread other([&] {  // threads that end in the child, where they are the last
    std::minstd_rand random(1);
    for (std::size_t i = 0; i < rounds; ++i) {
      std::thread([&good, pool = own.get(), p = plan(static_cast<unsigned>(random()))] {
        bool is_child = false;
        const bool is_good = ends_well(*pool, p, true, is_child);
        if (!is_child && is_good) ++good;
      }).join();
    }
  });
  std::thread tasks([&] {
    std::minstd_rand random(2);
    for (std::size_t i = 0; i < rounds; ++i) {
      threadpool& pool = i % 2 == 0 ? *own : threadpool::shared();
      // By value: in the child, the stack of this thread is used for others.
      auto task = [of_parent = own.get(), p = plan(static_cast<unsigned>(random()))] {
        bool is_child = false;
        return ends_well(*of_parent, p, false, is_child);
      };
      if (pool.post(task).get()) ++good;
    }
  });
  std::minstd_rand random(3);
  for (std::size_t i = 0; i < 2 * rounds; ++i) {
    bool is_child = false;
    if (ends_well(*own, plan(static_cast<unsigned>(random())), false, is_child)) ++good;
  }
  other.join();
  tasks.join();
  CHECK(good == 4 * rounds);
  std::printf("count: %zu forks of a busy program\n", good.load());
  more.reset();
  traffic.reset();
  own.reset();
}
