// SPDX-License-Identifier: BSL-1.0
//
// async::threadpool under load: every task is called once and destroyed once, whatever happens to the pool meanwhile.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <future>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "async/detail/base/atomics.hpp"
#include "async/threadpool.hpp"
#include "support/run_delay.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"

using async::threadpool;
using async::threadpool_options;
using namespace std::chrono_literals;

namespace {

/// Counts how tasks end.
struct ledger {
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> called{0};
  std::atomic<std::uint64_t> destroyed{0};

  void check() const {
    CHECK(called == accepted);
    CHECK(destroyed == accepted);
    std::printf("count: %llu tasks\n", static_cast<unsigned long long>(accepted.load()));
  }
};

/// A task's entry, which moves with it. Its last owner reports the end.
class entry {
 public:
  explicit entry(ledger& book) noexcept : book_(&book) {}
  entry(entry&& other) noexcept : book_(std::exchange(other.book_, nullptr)), accepted_(other.accepted_) {}
  entry& operator=(entry&&) = delete;
  ~entry() {
    if (book_ != nullptr && accepted_) book_->destroyed.fetch_add(1, std::memory_order_relaxed);
  }
  void called() noexcept {
    accepted_ = true;
    book_->called.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  ledger* book_;
  bool accepted_ = false;
};

/// Posts a task that posts `depth` generations of two tasks each.
void post_tree(threadpool& pool, ledger& book, unsigned depth) {
  pool.execute([&pool, &book, depth, e = entry(book)]() mutable {
    e.called();
    if (depth == 0) return;
    post_tree(pool, book, depth - 1);
    post_tree(pool, book, depth - 1);
  });
  book.accepted.fetch_add(1, std::memory_order_relaxed);
}

template <class F>
std::vector<std::thread> threads(std::size_t count, testing::start_line& line, F body) {
  std::vector<std::thread> made;
  for (std::size_t i = 0; i < count; ++i) {
    made.emplace_back([&line, body, i] {
      line.wait();
      body(i);
    });
  }
  return made;
}

void join(std::vector<std::thread>& all) {
  for (std::thread& t : all) t.join();
}

}  // namespace

TEST_CASE("tasks of many producers, with and without futures, and the tasks these post, run once each") {
  ledger book;
  std::atomic<std::uint64_t> sum{0};
  const std::uint64_t rounds = testing::rounds(20000);
  {
    threadpool pool(4);
    testing::start_line line(4);
    auto producers = threads(4, line, [&](std::size_t me) {
      std::vector<std::future<std::uint64_t>> results;
      for (std::uint64_t i = 0; i < rounds; ++i) {
        if (i % 64 == 0) post_tree(pool, book, 5);
        if (i % 4 != me) continue;
        results.push_back(pool.post([i, e = entry(book)]() mutable {
          e.called();
          return i;
        }));
        book.accepted.fetch_add(1, std::memory_order_relaxed);
      }
      for (auto& r : results) sum.fetch_add(r.get(), std::memory_order_relaxed);
    });
    join(producers);
    pool.wait_idle();
    CHECK(book.called == book.accepted);
  }
  book.check();
  CHECK(sum == rounds * (rounds - 1) / 2);
}

TEST_CASE("no task is lost or run twice while the pool is resized between 0 and 8 threads") {
  ledger book;
  const std::uint64_t resizes = testing::rounds(testing::emulated() ? 5'000 : 25'000);  // Wine takes 2 ms for a thread
  {
    threadpool pool(2);
    std::atomic<bool> over{false};
    testing::start_line line(5);
    auto posters = threads(4, line, [&](std::size_t me) {
      std::minstd_rand random(static_cast<unsigned>(me + 1));
      std::uint64_t mine = 0;
      while (!over.load(std::memory_order_relaxed)) {
        post_tree(pool, book, static_cast<unsigned>(random() % 4));
        if (++mine % 16 != 0) continue;
        // A short backlog only, so that the test is about resizing.
        while (!over.load(std::memory_order_relaxed) &&
               book.accepted.load(std::memory_order_relaxed) > book.called.load(std::memory_order_relaxed) + 1000) {
          std::this_thread::sleep_for(50us);
        }
      }
    });
    line.wait();
    std::minstd_rand random(17);
    for (std::uint64_t i = 0; i < resizes; ++i) {
      const std::size_t wanted = random() % 9;
      if (random() % 4 == 0) {
        pool.execute([&pool, wanted, e = entry(book)]() mutable {
          e.called();
          try {
            pool.configurepool(wanted);
          } catch (const async::stopped&) {  // the test has ended
            return;
          }
        });
        book.accepted.fetch_add(1, std::memory_order_relaxed);
      } else {
        pool.configurepool(wanted);
      }
      if (i % 64 != 0 || wanted == 0) continue;
      // Some tasks run between resizes, unless another thread has paused the pool.
      const std::uint64_t before = book.called.load(std::memory_order_relaxed);
      const auto latest = std::chrono::steady_clock::now() + 1ms;
      while (book.called.load(std::memory_order_relaxed) == before && std::chrono::steady_clock::now() < latest) {
        std::this_thread::yield();
      }
    }
    over = true;
    join(posters);
  }
  book.check();
  std::printf("count: %llu resizes\n", static_cast<unsigned long long>(resizes));
}

TEST_CASE("a bounded pool loses no task under any overflow policy") {
  for (const auto when_full : {threadpool_options::overflow::block, threadpool_options::overflow::reject,
                               threadpool_options::overflow::caller_runs}) {
    CAPTURE(static_cast<int>(when_full));
    ledger book;
    std::atomic<std::uint64_t> refused{0};
    const std::uint64_t rounds = testing::rounds(20000);
    {
      threadpool_options options;
      options.threads = 2;
      options.max_queue = 8;
      options.when_full = when_full;
      threadpool pool(std::move(options));
      testing::start_line line(3);
      auto producers = threads(3, line, [&](std::size_t) {
        for (std::uint64_t i = 0; i < rounds; ++i) {
          try {
            pool.execute([e = entry(book)]() mutable { e.called(); });
            book.accepted.fetch_add(1, std::memory_order_relaxed);
          } catch (const async::queue_full&) {
            refused.fetch_add(1, std::memory_order_relaxed);
          }
        }
      });
      join(producers);
    }
    book.check();
    CHECK(book.accepted + refused == 3 * rounds);
    if (when_full != threadpool_options::overflow::reject) CHECK(refused == 0);
  }
}

TEST_CASE("a task is accepted and run, or its post throws stopped, when the pool stops under load") {
  const std::size_t pools = testing::rounds(100);
  ledger book;
  std::uint64_t late = 0;
  for (std::size_t n = 0; n < pools; ++n) {
    threadpool pool(1 + n % 4);
    std::atomic<std::uint64_t> refused{0};
    testing::start_line line(3);
    auto posters = threads(2, line, [&](std::size_t) {
      try {
        for (;;) {
          pool.execute([e = entry(book)]() mutable { e.called(); });
          book.accepted.fetch_add(1, std::memory_order_relaxed);
        }
      } catch (const async::stopped&) {
        refused.fetch_add(1, std::memory_order_relaxed);
      }
    });
    line.wait();
    if (n % 2 == 0) std::this_thread::yield();
    pool.stop();
    join(posters);
    late += refused;
    REQUIRE(book.called == book.accepted);
  }
  book.check();
  CHECK(late == 2 * pools);
}

TEST_CASE("a task that a full pool runs on its poster ends before stop() returns, or its post throws stopped") {
  const std::size_t pools = testing::rounds(200);
  std::uint64_t late = 0;
  for (std::size_t n = 0; n < pools; ++n) {
    threadpool_options options;
    options.threads = n % 2;
    options.max_queue = 1;
    options.when_full = threadpool_options::overflow::caller_runs;
    threadpool pool(std::move(options));
    std::atomic<bool> has_stopped{false};
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::uint64_t> after{0};
    testing::start_line line(3);
    auto posters = threads(2, line, [&](std::size_t) {
      try {
        for (;;) {
          pool.execute([&] {
            ++begun;
            for (int i = 0; i < 300; ++i) std::this_thread::yield();
            if (has_stopped) ++after;
          });
        }
      } catch (const async::stopped&) {
      }
    });
    line.wait();
    while (begun < 4) std::this_thread::yield();
    pool.stop();
    has_stopped = true;
    join(posters);
    late += after;
  }
  CHECK(late == 0);
}

TEST_CASE("construct, post, destroy: every task runs and every thread is joined") {
  const std::size_t cycles = testing::rounds(testing::emulated() ? 1'000 : 5'000);
  ledger book;
  for (std::size_t n = 0; n < cycles; ++n) {
    threadpool pool(n % 5);  // 0: paused, and woken by the destructor
    for (std::size_t i = 0; i < n % 3; ++i) post_tree(pool, book, 2);
  }
  book.check();
  std::printf("count: %zu pools\n", cycles);
}

TEST_CASE("an idle pool always takes a single task at once") {
  const std::size_t tasks = testing::rounds(25'000);
  threadpool pool(2);
  std::size_t slow = 0;
  std::chrono::nanoseconds without_processor{};
  for (std::size_t n = 0; n < tasks; ++n) {
    if (n % 16 == 0) without_processor = testing::run_delay();
    std::atomic<std::uint32_t> ran{0};
    const auto start = std::chrono::steady_clock::now();
    pool.execute([&ran] {
      ran.store(1, std::memory_order_release);
      async::detail::wake_one(ran);
    });
    // Not ran.wait(), which on Windows can miss its wake-up with libstdc++ 12.
    while (ran.load(std::memory_order_acquire) == 0) async::detail::wait_on_word(ran, 0);
    if (const auto time = std::chrono::steady_clock::now() - start; time > 100ms) {
      const auto before = std::exchange(without_processor, testing::run_delay());
      slow += without_processor - before < time / 2 ? 1U : 0U;
    }
    if (n % 64 == 0) pool.wait_idle();  // the next task finds both workers asleep
  }
  CHECK(slow <= 2 * testing::scale());  // a lost wake-up takes for ever
  std::printf("count: %zu hand-offs\n", tasks);
}

TEST_CASE("threads of several pools post to each other and wait for each other") {
  const std::uint64_t rounds = testing::rounds(3000);
  ledger book;
  std::atomic<std::uint64_t> sum{0};
  {
    threadpool one(2);
    threadpool other(2);
    for (std::uint64_t i = 0; i < rounds; ++i) {
      one.execute([&, i, e = entry(book)]() mutable {
        e.called();
        std::future<std::uint64_t> there = other.post([&, i, inner = entry(book)]() mutable {
          inner.called();
          return i;
        });
        book.accepted.fetch_add(1, std::memory_order_relaxed);
        sum.fetch_add(one.wait(there), std::memory_order_relaxed);
      });
      book.accepted.fetch_add(1, std::memory_order_relaxed);
    }
    one.wait_idle();
    other.wait_idle();
  }
  book.check();
  CHECK(sum == rounds * (rounds - 1) / 2);
}
