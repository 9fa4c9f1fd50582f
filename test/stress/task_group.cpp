// SPDX-License-Identifier: BSL-1.0
#include "async/task_group.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "async/threadpool.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"

using async::task_group;
using async::threadpool;

namespace {

/// The fate of the callables of a test: each is made once, called at most once and destroyed once.
struct ledger {
  std::atomic<std::uint64_t> made{0};
  std::atomic<std::uint64_t> called{0};
  std::atomic<std::uint64_t> destroyed{0};
};
class entry {
 public:
  explicit entry(ledger& l) : ledger_(&l) { l.made.fetch_add(1, std::memory_order_relaxed); }
  entry(entry&& other) noexcept : ledger_(std::exchange(other.ledger_, nullptr)) {}
  ~entry() {
    if (ledger_ != nullptr) ledger_->destroyed.fetch_add(1, std::memory_order_relaxed);
  }
  void called() const { ledger_->called.fetch_add(1, std::memory_order_relaxed); }

 private:
  ledger* ledger_;
};

std::minstd_rand random_from(std::uint64_t seed) {
  return std::minstd_rand(static_cast<std::minstd_rand::result_type>(seed * 2654435761U + 1));
}

void yield_sometimes(std::uint64_t random) {
  if (random % 64 == 0) std::this_thread::yield();
}

/// A random tree of groups: each node runs its children in a group of its own and checks that they are done.
std::uint64_t grow(threadpool& pool, ledger& book, std::uint64_t seed, unsigned depth) {
  std::minstd_rand random = random_from(seed + depth);
  const std::size_t children = depth == 0 ? 0 : random() % 5;
  std::vector<std::uint64_t> nodes(children, 0);
  task_group group(pool);
  for (std::size_t i = 0; i < children; ++i) {
    const std::uint64_t child = random();
    group.run([&, i, child, e = entry(book)] {
      e.called();
      yield_sometimes(child);
      nodes[i] = grow(pool, book, child, depth - 1);
    });
  }
  yield_sometimes(random());
  group.wait();
  std::uint64_t sum = 1;
  for (const std::uint64_t n : nodes) {
    if (n == 0) throw std::logic_error("a child is missing");
    sum += n;
  }
  return sum;
}

}  // namespace

TEST_CASE("random trees of groups from several threads, inside and outside: every task runs once") {
  threadpool pool(3);
  ledger book;
  std::atomic<std::uint64_t> nodes{0};
  const std::size_t trees = testing::rounds(300);
  testing::run_threads(3, [&](std::size_t t) {
    for (std::size_t i = 0; i < trees; ++i) {
      const std::uint64_t seed = testing::seed() + i * 3 + t;
      const auto tree = [&] { return grow(pool, book, seed, 6); };
      nodes += t == 0 ? tree() : pool.post(tree).get();
    }
  });
  CHECK(book.called == book.made);
  CHECK(book.destroyed == book.made);
  CHECK(nodes == book.made + 3 * trees);
  std::printf("count: %llu tasks joined\n", static_cast<unsigned long long>(book.called.load()));
}

TEST_CASE("one group's tasks fork tasks of the same group on all threads, beside other work: every task runs once") {
  threadpool pool(3);
  ledger book;
  std::atomic<std::uint64_t> posted{0};
  std::atomic<std::uint64_t> others{0};
  const std::size_t rounds = testing::rounds(400);
  for (std::size_t round = 0; round < rounds; ++round) {
    task_group group(pool);
    // A tree of tasks, each with up to four others of this group, a group of its own, or a post.
    const auto branch = [&](const auto& self, std::uint64_t seed, unsigned depth) -> void {
      std::minstd_rand random = random_from(seed);
      const std::size_t children = depth == 0 ? 0 : random() % 5;
      for (std::size_t i = 0; i < children; ++i) {
        const std::uint64_t child = random();
        group.run([&self, child, depth, e = entry(book)] {
          e.called();
          yield_sometimes(child);
          self(self, child, depth - 1);
        });
      }
      switch (random() % 8) {
        case 0:
          posted.fetch_add(1, std::memory_order_relaxed);
          pool.execute([&others] { others.fetch_add(1, std::memory_order_relaxed); });
          break;
        case 1: {
          task_group inner(pool);
          for (int i = 0; i < 3; ++i) inner.run([e = entry(book)] { e.called(); });
          inner.wait();
          break;
        }
        default:
          break;
      }
    };
    const auto root = [&] { branch(branch, testing::seed() + round, 6); };
    std::thread third;
    switch (round % 4) {
      case 0:  // forked inside, waited for inside
        pool.post([&] {
              group.run(root);
              group.wait();
            })
            .get();
        break;
      case 1:  // forked inside, waited for outside
        pool.post([&] { group.run(root); }).get();
        group.wait();
        break;
      case 2:  // both outside
        group.run(root);
        group.wait();
        break;
      default:  // two threads wait
        group.run(root);
        third = std::thread([&group] { group.wait(); });
        group.wait();
        third.join();
        break;
    }
    CHECK(book.called == book.made);
    CHECK(book.destroyed == book.made);
  }
  pool.stop();
  CHECK(others == posted);
  std::printf("count: %llu tasks joined\n", static_cast<unsigned long long>(book.called.load()));
}

TEST_CASE("short groups one after the other: no wake-up is lost") {
  threadpool pool(2);
  std::uint64_t sum = 0;
  const std::size_t rounds = testing::rounds(30'000);
  for (std::size_t i = 0; i < rounds; ++i) {
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    task_group group(pool);
    group.run([&a] { a = 1; });
    group.run([&b] { b = 1; });
    group.wait();
    sum += a + b;
  }
  CHECK(sum == 2 * rounds);
}

TEST_CASE("groups that are cancelled or fail at random moments: each task runs or is skipped, and is destroyed") {
  threadpool pool(3);
  ledger book;
  std::atomic<std::uint64_t> caught{0};
  std::atomic<std::uint64_t> complete{0};
  std::atomic<std::uint64_t> wrong{0};
  const std::size_t rounds = testing::rounds(6'000);
  testing::run_threads(2, [&](std::size_t t) {
    std::minstd_rand random = random_from(testing::seed() + t);
    task_group group(pool);
    for (std::size_t i = 0; i < rounds; ++i) {
      const auto tasks = 1 + random() % 20;
      const auto victim = random() % (3 * tasks);
      const bool throws = random() % 2 == 0;
      std::atomic<std::uint64_t> ran{0};
      for (std::uint64_t k = 0; k < tasks; ++k) {
        group.run([&, k, e = entry(book)] {
          e.called();
          ran.fetch_add(1, std::memory_order_relaxed);
          if (k != victim) return;
          if (throws) throw std::runtime_error("the victim");
          group.cancel();
        });
      }
      try {
        const bool all = group.wait();
        if (all) complete.fetch_add(1);
        if (all != (victim >= tasks) || (all && ran != tasks)) wrong.fetch_add(1);
      } catch (const std::runtime_error&) {
        caught.fetch_add(1);
        if (victim >= tasks || !throws) wrong.fetch_add(1);
      }
      if (group.is_cancelling()) wrong.fetch_add(1);
    }
  });
  CHECK(wrong == 0);
  CHECK(caught > 0);
  CHECK(complete > 0);
  CHECK(book.destroyed == book.made);
  CHECK(book.called <= book.made);
}

TEST_CASE("many threads add to one group and wait for it, over and over") {
  threadpool pool(2);
  task_group group(pool);
  std::atomic<std::uint64_t> ran{0};
  std::atomic<std::uint64_t> early{0};
  const std::size_t rounds = testing::rounds(3'000);
  testing::run_threads(4, [&](std::size_t) {
    for (std::size_t i = 0; i < rounds; ++i) {
      std::atomic<int> mine{0};
      for (int k = 0; k < 5; ++k) {
        group.run([&] {
          mine.fetch_add(1, std::memory_order_relaxed);
          ran.fetch_add(1, std::memory_order_relaxed);
        });
      }
      group.wait();
      if (mine != 5) early.fetch_add(1);
    }
  });
  CHECK(early == 0);
  CHECK(ran == 4 * 5 * rounds);
}

TEST_CASE("loops of random sizes from several threads visit each number once") {
  threadpool pool(3);
  const std::size_t rounds = testing::rounds(2'000);
  std::atomic<std::uint64_t> wrong{0};
  testing::run_threads(3, [&](std::size_t t) {
    std::minstd_rand random = random_from(testing::seed() + 77 + t);
    for (std::size_t i = 0; i < rounds; ++i) {
      const std::size_t size = random() % (i % 50 == 0 ? 20'000 : 40);
      const std::size_t grain = random() % 3 == 0 ? 1 + random() % 10 : async::auto_grain;
      const std::size_t failing = random() % 8 == 0 ? random() % (size + 1) : size;
      const auto loop = [&] {
        std::vector<std::atomic<unsigned char>> visits(size);
        const auto body = [&](std::size_t k) {
          visits[k].fetch_add(1, std::memory_order_relaxed);
          if (k == failing) throw std::runtime_error("failing");
          yield_sometimes(k * 31 + i);
        };
        bool has_thrown = false;
        try {
          async::parallel_for(pool, std::size_t{0}, size, body, grain);
        } catch (const std::runtime_error&) {
          has_thrown = true;
        }
        if (has_thrown != (failing < size)) wrong.fetch_add(1);
        for (const auto& v : visits) {
          if (v > 1 || (v == 0 && !has_thrown)) wrong.fetch_add(1);
        }
      };
      if (t == 0) {
        loop();
      } else {
        pool.post(loop).get();
      }
    }
  });
  CHECK(wrong == 0);
}
