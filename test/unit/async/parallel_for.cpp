// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "support/occupied.hpp"
#include "support/scale.hpp"

using async::parallel_for;
using async::threadpool;
using namespace std::chrono_literals;

namespace {

template <class I>
void check_each_once(threadpool& pool, I first, I last, std::size_t grain) {
  const auto size = static_cast<std::size_t>(last - first);
  std::vector<std::atomic<int>> calls(size);
  parallel_for(
      pool, first, last,
      [&](I i) { calls[static_cast<std::size_t>(i - first)].fetch_add(1, std::memory_order_relaxed); }, grain);
  for (std::size_t k = 0; k < size; ++k) REQUIRE(calls[k] == 1);
}

}  // namespace

TEST_CASE("each index is visited once, whatever the size, the grain and the number of threads") {
  for (const std::size_t threads : {1U, 2U, 4U}) {
    threadpool pool(threads);
    for (const int size : {1, 2, 3, 7, 64, 1000, 30'000}) {
      for (const std::size_t grain : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1'000'000},
                                      (std::numeric_limits<std::size_t>::max)()}) {
        CAPTURE(size);
        CAPTURE(grain);
        check_each_once(pool, 0, size, grain);
        check_each_once(pool, -size, size, grain);
        pool.post([&] { check_each_once(pool, 0, size, grain); }).get();
      }
    }
  }
}

TEST_CASE("an empty or backward range calls nothing") {
  threadpool pool(2);
  int calls = 0;
  const auto count = [&](auto&&) { ++calls; };
  parallel_for(pool, 0, 0, count);
  parallel_for(pool, 5, 5, count, 3);
  parallel_for(pool, 5, -5, count);
  parallel_for(pool, 5U, 4U, count);
  parallel_for(pool, (std::numeric_limits<int>::max)(), (std::numeric_limits<int>::min)(), count);
  std::vector<int> empty;
  parallel_for(pool, empty.begin(), empty.end(), count);
  int* const nothing = nullptr;
  parallel_for(pool, nothing, nothing, count);
  CHECK(calls == 0);
}

TEST_CASE("integers of every type, to the ends of their ranges") {
  threadpool pool(2);
  const auto whole = [&]<class I>(I) {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::int64_t> sum{0};
    constexpr I least = (std::numeric_limits<I>::min)();
    constexpr I most = (std::numeric_limits<I>::max)();
    parallel_for(pool, least, most, [&](I i) {
      calls.fetch_add(1, std::memory_order_relaxed);
      sum.fetch_add(i, std::memory_order_relaxed);
    });
    CHECK(calls == static_cast<std::uint64_t>(most - least));
    CHECK(sum == (std::int64_t{least} + most - 1) * (most - least) / 2);
  };
  whole(std::int8_t{});
  whole(std::uint8_t{});
  whole(char{});
  whole(std::int16_t{});
  whole(std::uint16_t{});
  const auto end = [&]<class I>(I) {
    constexpr I most = (std::numeric_limits<I>::max)();
    check_each_once<I>(pool, most - 1000, most, 0);
    constexpr I least = (std::numeric_limits<I>::min)();
    check_each_once<I>(pool, least, least + 1000, 0);
  };
  end(0);
  end(0U);
  end(0L);
  end(0UL);
  end(0LL);
  end(0ULL);
}

TEST_CASE("a range of more than 2^32 is cut where it should be") {
  threadpool pool(2);
  // The thread at the first number waits until another has begun a run; then both end the loop.
  const auto cut = [&]<class I>(I first, I last, std::size_t grain) {
    std::promise<void> begun;
    std::atomic<bool> is_begun{false};
    const auto body = [&](I i) {
      const std::uint64_t distance = static_cast<std::uint64_t>(i) - static_cast<std::uint64_t>(first);
      CHECK(distance % grain == 0);  // whole runs
      if (i != first && !is_begun.exchange(true)) begun.set_value();
      if (i == first) CHECK(begun.get_future().wait_for(60s) == std::future_status::ready);
      throw std::out_of_range("enough");
    };
    CHECK_THROWS_AS(parallel_for(pool, first, last, body, grain), std::out_of_range);
    CHECK(is_begun);
  };
  if constexpr (sizeof(std::size_t) == 8) {
    constexpr std::uint64_t far = std::uint64_t{1} << 33;
    constexpr auto grain = static_cast<std::size_t>(far);
    constexpr auto most = (std::numeric_limits<std::uint64_t>::max)();
    constexpr auto least = (std::numeric_limits<std::int64_t>::min)();
    cut(std::uint64_t{5}, std::uint64_t{1} << 40, grain);
    cut(least, (std::numeric_limits<std::int64_t>::max)(), grain);
    cut(std::uint64_t{0}, most, static_cast<std::size_t>(most - 1));
  }
  cut(std::int64_t{-1} << 40, std::int64_t{1} << 40, 1'000'000);
}

TEST_CASE("random-access iterators: the body gets the element, or the iterator if it asks for one") {
  threadpool pool(2);
  std::vector<int> vector(10'000, 1);
  parallel_for(pool, vector.begin(), vector.end(), [](int& x) { x += 1; });
  CHECK(vector == std::vector<int>(10'000, 2));
  std::deque<int> deque(10'000, 1);
  parallel_for(pool, deque.begin(), deque.end(), [](int& x) { x += 2; }, 16);
  CHECK(deque == std::deque<int>(10'000, 3));
  std::array<int, 100> array{};
  parallel_for(pool, array.data(), array.data() + array.size(),
               [&](int& x) { x = static_cast<int>(&x - array.data()); });
  CHECK(array[99] == 99);
  std::atomic<long> sum{0};
  parallel_for(pool, vector.cbegin(), vector.cend(), [&](const int& x) { sum += x; });
  CHECK(sum == 20'000);
  std::vector<std::unique_ptr<int>> owners(100);
  parallel_for(pool, owners.begin(), owners.end(), [](auto& p) { p = std::make_unique<int>(3); });
  CHECK(*owners[50] == 3);
  using iterator = std::vector<int>::iterator;
  parallel_for(pool, vector.begin(), vector.end(), [&](iterator i) { *i = static_cast<int>(i - vector.begin()); });
  CHECK(vector[9'999] == 9'999);
}

TEST_CASE("the body's exception is thrown and ends the loop early") {
  for (const std::size_t threads : {1U, 2U}) {
    threadpool pool(threads);
    std::atomic<std::uint64_t> calls{0};
    const auto body = [&](std::uint64_t i) {
      calls.fetch_add(1, std::memory_order_relaxed);
      if (i == 100) throw std::runtime_error("at 100");
    };
    CHECK_THROWS_WITH_AS(parallel_for(pool, std::uint64_t{0}, std::uint64_t{1} << 40, body), "at 100",
                         std::runtime_error);
    CHECK(calls > 0);
    CHECK(calls < 10'000'000'000);
    check_each_once(pool, 0, 1000, 0);
  }
}

TEST_CASE("loops nest, on one thread and on several") {
  for (const std::size_t threads : {1U, 3U}) {
    threadpool pool(threads);
    std::atomic<int> calls{0};
    parallel_for(pool, 0, 30, [&](int) {
      parallel_for(pool, 0, 30, [&](int) { parallel_for(pool, 0, 5, [&](int) { ++calls; }); });
    });
    CHECK(calls == 30 * 30 * 5);
  }
}

TEST_CASE("the caller works, too: a loop on a pool whose threads are busy ends") {
  threadpool pool(1);
  const testing::occupied busy(pool, 1);
  check_each_once(pool, 0, 1000, 0);
}

TEST_CASE("a body that blocks has every thread of the pool at work: few calls, each on its own") {
  constexpr int threads = 4;
  threadpool pool(threads);
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  parallel_for(pool, 0, 2 * threads, [&](int) {
    const int now = ++inside;
    int known = most;
    while (known < now && !most.compare_exchange_weak(known, now)) {
    }
    std::this_thread::sleep_for(100ms);
    --inside;
  });
  CHECK(most >= threads);
}

TEST_CASE("an uneven load is shared: the long calls at one end do not stay with one thread") {
  threadpool pool(2);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallel_for(pool, 0, 1000, [&](int i) {
    if (i < 900) return;
    std::this_thread::sleep_for(1ms);
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  CHECK(threads.size() >= 2);
}

TEST_CASE("the body may be move-only and is called where it stands, not copied") {
  threadpool pool(2);
  std::atomic<int> sum{0};
  parallel_for(pool, 0, 100, [&sum, p = std::make_unique<int>(2)](int) { sum += *p; });
  CHECK(sum == 200);
}

TEST_CASE(
    "a full queue does not hold the loop up: its thread makes the calls, whatever the pool does with other posts") {
  using overflow = async::threadpool_options::overflow;
  for (const overflow when_full : {overflow::block, overflow::reject, overflow::caller_runs}) {
    threadpool pool({.threads = 1, .max_queue = 2, .when_full = when_full});
    std::optional<testing::occupied> busy(std::in_place, pool, 1U);
    for (int i = 0; i < 2; ++i) pool.execute([] {});
    std::atomic<int> calls{0};
    std::future<void> loop = std::async(std::launch::async, [&] { parallel_for(pool, 0, 100, [&](int) { ++calls; }); });
    CHECK(loop.wait_for(20s) == std::future_status::ready);
    busy.reset();
    loop.get();
    CHECK(calls == 100);
  }
}

/// An iterator that owns a part of what it walks over.
struct owning_iterator {
  using value_type = int;
  using difference_type = std::ptrdiff_t;
  using reference = int&;
  using pointer = int*;
  using iterator_category = std::random_access_iterator_tag;

  std::shared_ptr<std::vector<int>> all;
  difference_type at = 0;

  int& operator*() const { return (*this)[0]; }
  int& operator[](difference_type n) const { return (*all)[static_cast<std::size_t>(at + n)]; }
  owning_iterator& operator+=(difference_type n) {
    at += n;
    return *this;
  }
  owning_iterator& operator-=(difference_type n) { return *this += -n; }
  owning_iterator& operator++() { return *this += 1; }
  owning_iterator& operator--() { return *this -= 1; }
  owning_iterator operator++(int) { return std::exchange(*this, *this + 1); }
  owning_iterator operator--(int) { return std::exchange(*this, *this - 1); }
  friend owning_iterator operator+(owning_iterator i, difference_type n) { return i += n; }
  friend owning_iterator operator+(difference_type n, owning_iterator i) { return i += n; }
  friend owning_iterator operator-(owning_iterator i, difference_type n) { return i -= n; }
  friend difference_type operator-(const owning_iterator& a, const owning_iterator& b) { return a.at - b.at; }
  friend bool operator==(const owning_iterator& a, const owning_iterator& b) { return a.at == b.at; }
  friend auto operator<=>(const owning_iterator& a, const owning_iterator& b) { return a.at <=> b.at; }
};

TEST_CASE("no copy of an iterator outlives the loop, though a helper that comes too late does") {
  threadpool pool(1);
  const testing::occupied busy(pool, 1);
  const auto all = std::make_shared<std::vector<int>>(100, 1);
  std::atomic<int> sum{0};
  parallel_for(pool, owning_iterator{all, 0}, owning_iterator{all, 100}, [&](int i) { sum += i; });
  CHECK(sum == 100);
  CHECK(all.use_count() == 1);
}
