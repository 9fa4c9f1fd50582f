// SPDX-License-Identifier: BSL-1.0
//
// The stack of a waiting thread grows with the depth of the tree of tasks, never with the number of tasks.
#include <doctest/doctest.h>

#include "async/detail/base/platform.hpp"

#if ASYNCSTEPS_ON_LINUX

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/scale.hpp"
#include "support/small_stack.hpp"
#include "support/wait_while.hpp"

using async::parallel_invoke;
using async::task_group;
using async::threadpool;
using async::detail::platform::frame_address;
using testing::on_stack_of;

namespace {

constexpr std::size_t kibibyte = 1024;

unsigned smaller_when_slow(unsigned usual, unsigned slow) {
  return testing::sanitized || testing::emulated() ? slow : usual;
}

/// One node of a tree on the stack of its thread. A node that runs above it on the same stack must lie deeper in the
/// tree, because a waiting thread runs only what it waits for.
class on_this_stack {
 public:
  on_this_stack(unsigned height, std::atomic<bool>& is_wrong) : below_(std::exchange(innermost, height)) {
    if (height >= below_) is_wrong = true;
  }
  ~on_this_stack() { innermost = below_; }
  on_this_stack(const on_this_stack&) = delete;
  on_this_stack& operator=(const on_this_stack&) = delete;

 private:
  static constexpr unsigned nothing = ~0U;
  static inline thread_local unsigned innermost = nothing;
  const unsigned below_;
};

std::atomic<bool> is_wrong{false};

std::uint64_t fibonacci_by_invoke(threadpool& pool, unsigned n) {
  const on_this_stack here(n, is_wrong);
  if (n < 2) return n;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  parallel_invoke(pool, [&] { a = fibonacci_by_invoke(pool, n - 1); }, [&] { b = fibonacci_by_invoke(pool, n - 2); });
  return a + b;
}

std::uint64_t fibonacci_by_group(threadpool& pool, unsigned n) {
  const on_this_stack here(n, is_wrong);
  if (n < 2) return n;
  std::uint64_t a = 0;
  task_group group(pool);
  group.run([&] { a = fibonacci_by_group(pool, n - 1); });
  const std::uint64_t b = fibonacci_by_group(pool, n - 2);
  group.wait();
  return a + b;
}

std::uint64_t fibonacci(unsigned n) {
  std::uint64_t a = 0;
  std::uint64_t b = 1;
  for (; n != 0; --n) a = std::exchange(b, a + b);
  return a;
}

using iterator = std::vector<int>::iterator;

/// The elements less than the middle, and those that are greater.
std::pair<iterator, iterator> around_pivot(iterator first, iterator last) {
  const int pivot = *(first + (last - first) / 2);
  const iterator less = std::partition(first, last, [pivot](int x) { return x < pivot; });
  return {less, std::partition(less, last, [pivot](int x) { return x == pivot; })};
}

void sort_by_invoke(threadpool& pool, iterator first, iterator last) {
  if (last - first < 2) return;
  const auto [less, greater] = around_pivot(first, last);
  parallel_invoke(
      pool, [&, end = less] { sort_by_invoke(pool, first, end); },
      [&, begin = greater] { sort_by_invoke(pool, begin, last); });
}

void sort_by_group(threadpool& pool, iterator first, iterator last) {
  if (last - first < 2) return;
  const auto [less, greater] = around_pivot(first, last);
  task_group group(pool);
  group.run([&, end = less] { sort_by_group(pool, first, end); });
  sort_by_group(pool, greater, last);
  group.wait();
}

std::vector<int> random_numbers(std::size_t count) {
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(testing::seed()));
  std::vector<int> numbers(count);
  for (int& x : numbers) x = static_cast<int>(random());
  return numbers;
}

/// Changes the pool's number of threads until it is destroyed.
class resizer {
 public:
  resizer(threadpool& pool, std::size_t most)
      : thread_([this, &pool, most] {
          std::minstd_rand random(7);
          while (!is_over_) {
            pool.configurepool(1 + random() % most);
            std::this_thread::yield();
          }
        }) {}
  ~resizer() {
    is_over_ = true;
    thread_.join();
  }
  resizer(const resizer&) = delete;
  resizer& operator=(const resizer&) = delete;

 private:
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

/// The number of waiting tasks: a hundred thousand, and a million in large runs.
std::size_t many() { return (std::min)(testing::rounds(100'000), std::size_t{1'000'000}); }

/// Tasks that each wait for a future which a thread outside fulfils after they have begun. None may run above another
/// one.
void wait_for_outside(threadpool& pool) {
  const std::size_t count = many();
  std::vector<std::promise<std::size_t>> promises(count);
  std::atomic<std::size_t> begun{0};
  std::atomic<std::size_t> sum{0};
  std::atomic<bool> is_nested{false};
  std::thread outside([&] {
    for (std::size_t i = 0; i < count; ++i) {
      while (begun.load(std::memory_order_relaxed) <= i) std::this_thread::yield();
      promises[i].set_value(i);
    }
  });
  for (std::size_t i = 0; i < count; ++i) {
    pool.execute([&] {
      static thread_local unsigned depth = 0;
      if (++depth != 1) is_nested = true;
      std::future<std::size_t> awaited = promises[begun.fetch_add(1, std::memory_order_relaxed)].get_future();
      sum.fetch_add(pool.wait(awaited), std::memory_order_relaxed);
      --depth;
    });
  }
  pool.wait_idle();
  outside.join();
  CHECK_FALSE(is_nested);
  CHECK(sum == count * (count - 1) / 2);
}

/// Tasks that each wait for a result of a task which is posted later. With one worker each takes two thread switches.
void wait_for_later(threadpool& pool) {
  const std::size_t count = pool.size() == 1 ? (std::min)(many(), std::size_t{100'000}) : many();
  std::vector<std::promise<std::size_t>> promises(count);
  std::atomic<std::size_t> sum{0};
  std::atomic<bool> is_nested{false};
  for (std::size_t i = 0; i < count; ++i) {
    pool.execute([&, i] {
      static thread_local unsigned depth = 0;
      if (++depth != 1) is_nested = true;
      std::future<std::size_t> awaited = promises[i].get_future();
      sum.fetch_add(pool.wait(awaited), std::memory_order_relaxed);
      --depth;
    });
    pool.execute([&promises, i] { promises[i].set_value(i); });
  }
  pool.wait_idle();
  CHECK_FALSE(is_nested);
  CHECK(sum == count * (count - 1) / 2);
}

/// Tasks that each wait for a task which they post themselves, in front of the queued ones.
void wait_for_own(threadpool& pool) {
  const std::size_t count = many();
  std::atomic<std::size_t> sum{0};
  std::atomic<bool> is_nested{false};
  for (std::size_t i = 0; i < count; ++i) {
    pool.execute([&, i] {
      static thread_local unsigned depth = 0;
      if (++depth != 1) is_nested = true;
      std::future<std::size_t> awaited = pool.post([i] { return i; });
      sum.fetch_add(pool.wait(awaited), std::memory_order_relaxed);
      --depth;
    });
  }
  pool.wait_idle();
  CHECK_FALSE(is_nested);
  CHECK(sum == count * (count - 1) / 2);
}

/// The same with so much on the stack that one stack cannot hold a few thousand.
std::size_t chain_of_large_calls(threadpool& pool, std::size_t length) {
  if (length == 0) return 0;
  volatile std::byte large[2 * kibibyte];
  large[length % sizeof large] = std::byte{1};
  std::future<std::size_t> next = pool.post([&pool, length] { return chain_of_large_calls(pool, length - 1); });
  const std::size_t rest = pool.wait(next);
  return rest + static_cast<std::size_t>(large[length % sizeof large]);
}

std::uintptr_t innermost_frame = 0;

/// Nested groups, with a kilobyte on the stack for each.
std::size_t nested_groups(threadpool& pool, std::size_t depth) {
  if (depth == 0) {
    innermost_frame = frame_address();
    return 0;
  }
  volatile std::byte large[kibibyte];
  large[depth % sizeof large] = std::byte{1};
  std::size_t rest = 0;
  task_group group(pool);
  group.run([&] { rest = nested_groups(pool, depth - 1); });
  group.wait();
  return rest + static_cast<std::size_t>(large[depth % sizeof large]);
}

/// The depth of groups that takes 85 % of a stack of `bytes`: the frames of each machine and compiler differ.
std::size_t depth_for_most_of(std::size_t bytes) {
  threadpool paused(0);
  constexpr std::size_t sample = 32;
  const std::uintptr_t top = frame_address();
  REQUIRE(nested_groups(paused, sample) == sample);
  return bytes * testing::stack_factor / 100 * 85 / ((top - innermost_frame) / sample);
}

template <class Body>
void on_pools_of_1_2_8(Body body) {
  for (const std::size_t threads : {1U, 2U, 8U}) {
    CAPTURE(threads);
    threadpool pool(threads);
    body(pool);
  }
}

template <class Body>
void while_resized(Body body) {
  threadpool pool(4);
  const resizer other(pool, 8);
  body(pool);
}

std::size_t chain_in_pool(threadpool& pool, std::size_t length) {
  if (length == 0) return 0;
  std::future<std::size_t> next = pool.post([&pool, length] { return chain_in_pool(pool, length - 1); });
  return 1 + pool.wait(next);
}

std::size_t chain_of_calls(std::size_t length) {
  if (length == 0) return 0;
  return 1 + async::async(chain_of_calls, length - 1).get();
}

}  // namespace

TEST_CASE("Fibonacci by parallel_invoke on a stack of 256 KiB: a wait runs only deeper nodes of the tree") {
  const unsigned n = smaller_when_slow(30, 20);
  is_wrong = false;
  for (const std::size_t threads : {1U, 2U, 4U}) {
    threadpool pool(threads);
    std::uint64_t result = 0;
    on_stack_of(256 * kibibyte, [&] { result = fibonacci_by_invoke(pool, n); });
    CHECK(result == fibonacci(n));
  }
  CHECK_FALSE(is_wrong);
}

TEST_CASE("Fibonacci by groups on a stack of 256 KiB: a wait runs only deeper nodes of the tree") {
  const unsigned n = smaller_when_slow(testing::scale() >= 4 ? 27 : 24, 18);
  is_wrong = false;
  for (const std::size_t threads : {1U, 2U, 4U}) {
    threadpool pool(threads);
    std::uint64_t result = 0;
    on_stack_of(256 * kibibyte, [&] { result = fibonacci_by_group(pool, n); });
    CHECK(result == fibonacci(n));
  }
  CHECK_FALSE(is_wrong);
}

TEST_CASE("trees on several small stacks at the same time, in the same pool") {
  const unsigned n = smaller_when_slow(22, 15);
  is_wrong = false;
  threadpool pool(2);
  std::vector<std::uint64_t> results(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      on_stack_of(256 * kibibyte, [&] {
        for (int i = 0; i < 5; ++i) {
          results[t] += t % 2 == 0 ? fibonacci_by_invoke(pool, n) : fibonacci_by_group(pool, n);
        }
      });
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(results == std::vector<std::uint64_t>(4, 5 * fibonacci(n)));
  CHECK_FALSE(is_wrong);
}

TEST_CASE("quicksort of millions of numbers without cut-off, on a stack of one mebibyte") {
  const std::vector<int> numbers = random_numbers(smaller_when_slow(3'000'000, 100'000));
  std::vector<int> sorted = numbers;
  std::sort(sorted.begin(), sorted.end());
  for (const std::size_t threads : {0U, 1U, 2U}) {
    CAPTURE(threads);
    threadpool pool(threads);
    for (const bool by_invoke : {false, true}) {
      std::vector<int> mine = numbers;
      on_stack_of(1024 * kibibyte, [&] {
        if (by_invoke) {
          sort_by_invoke(pool, mine.begin(), mine.end());
        } else {
          sort_by_group(pool, mine.begin(), mine.end());
        }
      });
      CHECK(mine == sorted);
    }
  }
}

TEST_CASE("a loop, a group, a parallel_invoke and a call on a stack of 64 KiB") {
  threadpool pool(2);
  std::atomic<unsigned> calls{0};
  const auto count = [&calls] { calls.fetch_add(1, std::memory_order_relaxed); };
  on_stack_of(64 * kibibyte, [&] {
    async::parallel_for(pool, 0, 100'000, [&](int) { count(); });
    task_group group(pool);
    for (unsigned i = 0; i < 1'000; ++i) group.run(count);
    group.wait();
    parallel_invoke(pool, count, count, count);
    pool.post(count).get();
  });
  CHECK(calls == 101'004);
}

TEST_CASE("a reduction of ten million numbers one by one, on a stack of 256 KiB") {
  const std::uint64_t count = smaller_when_slow(10'000'000, 200'000);
  for (const std::size_t threads : {0U, 1U, 2U, 4U}) {
    CAPTURE(threads);
    threadpool pool(threads);
    std::uint64_t sum = 0;
    on_stack_of(256 * kibibyte, [&] {
      sum = async::parallel_reduce(pool, std::uint64_t{0}, count, std::uint64_t{0}, std::plus<>(), std::plus<>(), 1);
    });
    CHECK(sum == count * (count - 1) / 2);
  }
}

TEST_CASE("many tasks that each wait for a thread outside: none runs above another [trap: the stack overflows]") {
  on_pools_of_1_2_8(wait_for_outside);
}

TEST_CASE("many tasks that each wait for a thread outside, while the pool is resized") {
  while_resized(wait_for_outside);
}

TEST_CASE("many tasks that each wait for a later one: none runs above another") { on_pools_of_1_2_8(wait_for_later); }

TEST_CASE("many tasks that each wait for a later one, while the pool is resized") { while_resized(wait_for_later); }

TEST_CASE("many tasks that each wait for one that they post: none runs above another") {
  on_pools_of_1_2_8(wait_for_own);
}

TEST_CASE("many tasks that each wait for one that they post, while the pool is resized") {
  while_resized(wait_for_own);
}

TEST_CASE("a chain of 2,000 tasks: each posts the next one and waits for it") {
  const std::size_t length = smaller_when_slow(2'000, 500);
  on_pools_of_1_2_8(
      [length](threadpool& pool) { CHECK(pool.post([&] { return chain_in_pool(pool, length); }).get() == length); });
}

TEST_CASE("a chain of 2,000 tasks posted from outside: each waits for the next one") {
  const std::size_t length = smaller_when_slow(2'000, 500);
  on_pools_of_1_2_8([length](threadpool& pool) {
    std::vector<std::future<std::size_t>> results(length);
    std::atomic<bool> are_posted{false};
    for (std::size_t i = 0; i < length; ++i) {
      results[i] = pool.post([&, i]() -> std::size_t {
        testing::wait_while(are_posted, false);
        return i + 1 == length ? 1 : 1 + pool.wait(results[i + 1]);
      });
    }
    are_posted = true;
    CHECK(results[0].get() == length);
    pool.wait_idle();
  });
}

TEST_CASE("a chain of 10,000 calls by async::async: each waits for the next one") {
  const std::size_t length = smaller_when_slow(10'000, 1'000);
  CHECK(async::async(chain_of_calls, length).get() == length);
  CHECK(chain_of_calls(length) == length);
}

TEST_CASE("a chain too long for one stack continues on stand-ins [trap: the stack overflows]") {
  const std::size_t length = smaller_when_slow(10'000, 1'500);
  for (const std::size_t threads : {1U, 2U}) {
    threadpool pool(threads);
    CHECK(pool.post([&] { return chain_of_large_calls(pool, length); }).get() == length);
    CHECK(pool.post([&] { return chain_of_large_calls(pool, length); }).get() == length);
  }
}

TEST_CASE("groups that need most of a stack continue on another thread if there is one, else on the same") {
  const std::size_t depth = depth_for_most_of(256 * kibibyte);
  for (const std::size_t threads : {1U, 0U}) {
    CAPTURE(threads);
    threadpool pool(threads);
    std::size_t result = 0;
    std::future<void> end = std::async(
        std::launch::async, [&] { on_stack_of(256 * kibibyte, [&] { result = nested_groups(pool, depth); }); });
    const bool has_ended = end.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
    CHECK(has_ended);
    if (!has_ended) pool.configurepool(2);
    end.get();
    CHECK(result == depth);
  }
}

#else

TEST_CASE("the stacks of waiting threads are measured on Linux only") { CHECK(true); }

#endif
