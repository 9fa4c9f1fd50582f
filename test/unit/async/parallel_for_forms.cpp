// SPDX-License-Identifier: BSL-1.0
//
// Loops with a step, over ranges, in runs, with a token, in a group.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <version>

#if defined(__cpp_lib_jthread)
#include <stop_token>
#endif

#include "async/parallel_for.hpp"
#include "async/parallel_reduce.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "support/alloc_counter.hpp"
#include "support/everywhere.hpp"
#include "support/occupied.hpp"
#include "support/wait_while.hpp"

using async::parallel_for;
using async::task_group;
using async::threadpool;
using testing::everywhere;

namespace {

/// The arguments of a loop's calls, in order.
template <class T>
class calls {
 public:
  void add(T value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(value);
  }
  std::vector<T> sorted() {
    const std::lock_guard lock(mutex_);
    std::sort(values_.begin(), values_.end());
    return values_;
  }

 private:
  std::mutex mutex_;
  std::vector<T> values_;
};

/// A token that is no std::stop_token.
struct own_token {
  const std::atomic<bool>* is_stopped;
  bool stop_requested() const noexcept { return is_stopped->load(); }
};

constexpr std::uint64_t endless = std::uint64_t{1} << 40;

}  // namespace

TEST_CASE("a step: first, first + step and so on below last, each once") {
  everywhere([](threadpool& pool) {
    for (const std::size_t grain : {0U, 1U, 7U, 1'000U}) {
      for (const int step : {1, 2, 3, 10, 999, 1'000, 1'001, (std::numeric_limits<int>::max)()}) {
        std::vector<int> expected;
        for (std::int64_t i = -500; i < 500; i += step) expected.push_back(static_cast<int>(i));
        calls<int> seen;
        REQUIRE(parallel_for(pool, -500, 500, step, [&seen](int i) { seen.add(i); }, grain));
        if (seen.sorted() != expected) FAIL("grain " << grain << ", step " << step);
      }
    }
  });
}

TEST_CASE("a step to the ends of the integers' ranges") {
  threadpool pool(2);
  const auto to_end = [&]<class I>(I step, std::vector<I> expected) {
    constexpr I most = (std::numeric_limits<I>::max)();
    calls<I> seen;
    parallel_for(pool, static_cast<I>(most - 10), most, step, [&seen](I i) { seen.add(i); });
    CHECK(seen.sorted() == expected);
  };
  to_end(std::uint8_t{4}, {245, 249, 253});
  to_end(std::int8_t{4}, {117, 121, 125});
  to_end(std::uint8_t{255}, {245});
  constexpr int most = (std::numeric_limits<int>::max)();
  to_end(most, {most - 10});
  to_end(3, {most - 10, most - 7, most - 4, most - 1});
  constexpr auto far = (std::numeric_limits<std::uint64_t>::max)();
  to_end(std::uint64_t{6}, {far - 10, far - 4});
  calls<std::int64_t> whole;
  constexpr auto least = (std::numeric_limits<std::int64_t>::min)();
  constexpr auto greatest = (std::numeric_limits<std::int64_t>::max)();
  parallel_for(pool, least, greatest, greatest, [&whole](std::int64_t i) { whole.add(i); });
  CHECK(whole.sorted() == std::vector<std::int64_t>{least, -1, greatest - 1});
}

TEST_CASE("a step that is not positive is refused, whatever the range, and nothing is called") {
  threadpool pool(1);
  int count = 0;
  const auto body = [&count](auto) { ++count; };
  CHECK_THROWS_AS(parallel_for(pool, 0, 10, 0, body), std::invalid_argument);
  CHECK_THROWS_AS(parallel_for(pool, 0, 10, -1, body), std::invalid_argument);
  CHECK_THROWS_AS(parallel_for(pool, 10, 0, -1, body), std::invalid_argument);
  CHECK_THROWS_AS(parallel_for(pool, 0U, 10U, 0U, body), std::invalid_argument);
  CHECK_THROWS_AS(parallel_for(0, 10, 0, body), std::invalid_argument);
  CHECK(parallel_for(pool, 10, 0, 3, body));
  CHECK(count == 0);
}

TEST_CASE("ranges: vectors, arrays, spans, views and temporary ones; elements can be changed") {
  everywhere([](threadpool& pool) {
    std::vector<int> vector(1'000, 1);
    CHECK(parallel_for(pool, vector, [](int& x) { x += 1; }));
    CHECK(vector == std::vector<int>(1'000, 2));
    std::atomic<long> sum{0};
    const auto add = [&sum](const auto& x) { sum += x; };
    CHECK(parallel_for(pool, std::as_const(vector), add, 16));
    CHECK(sum.exchange(0) == 2'000);
    int array[100] = {};
    CHECK(parallel_for(pool, array, [](int& x) { x = 3; }, 1));
    CHECK(parallel_for(pool, std::span(array), add));
    CHECK(sum.exchange(0) == 300);
    std::deque<int> deque(100, 4);
    CHECK(parallel_for(pool, deque, add));
    CHECK(sum.exchange(0) == 400);
    CHECK(parallel_for(pool, std::vector<int>(100, 5), add));
    CHECK(sum.exchange(0) == 500);
    CHECK(parallel_for(pool, std::views::iota(0, 101), add));
    CHECK(sum.exchange(0) == 5'050);
    CHECK(parallel_for(pool, vector | std::views::transform([](int x) { return 2 * x; }), add));
    CHECK(sum.exchange(0) == 4'000);
    CHECK(parallel_for(pool, std::vector<int>{}, add));
    CHECK(sum == 0);
  });
}

TEST_CASE("on the shared pool: numbers, a step, iterators and ranges") {
  std::atomic<int> sum{0};
  const auto add = [&sum](int x) { sum += x; };
  std::vector<int> numbers{1, 2, 3, 4};
  CHECK(parallel_for(0, 5, add));
  CHECK(parallel_for(0, 5, add, 2));
  CHECK(parallel_for(0, 5, 2, add));
  CHECK(parallel_for(numbers.begin(), numbers.end(), add));
  CHECK(parallel_for(numbers, add));
  CHECK(sum == 10 + 10 + 6 + 10 + 10);
}

TEST_CASE("a body of two parameters is called with runs of neighbours, which begin and end at whole grains") {
  everywhere([](threadpool& pool) {
    for (const std::size_t grain : {0U, 1U, 16U, 5'000U}) {
      calls<std::pair<std::size_t, std::size_t>> runs;
      REQUIRE(parallel_for(
          pool, std::size_t{0}, std::size_t{1'000},
          [&runs](std::size_t first, std::size_t last) { runs.add({first, last}); }, grain));
      std::size_t end = 0;
      for (const auto& [first, last] : runs.sorted()) {
        REQUIRE(first == end);
        REQUIRE(first < last);
        if (grain != 0) REQUIRE(first % grain == 0);
        if (grain != 0) REQUIRE(last - first <= grain);
        end = last;
      }
      REQUIRE(end == 1'000);
    }
    std::vector<int> numbers(1'000, 1);
    using iterator = std::vector<int>::iterator;
    CHECK(parallel_for(pool, numbers, [](iterator first, iterator last) { std::fill(first, last, 2); }, 10));
    CHECK(parallel_for(pool, numbers.begin(), numbers.end(), [](iterator first, iterator last) {
      for (; first != last; ++first) *first += 1;
    }));
    CHECK(numbers == std::vector<int>(1'000, 3));
  });
}

TEST_CASE("a body that can take one or two is called with one") {
  threadpool pool(2);
  std::atomic<int> ones{0};
  parallel_for(pool, 0, 100, [&ones](int, int second = -1) { ones += second == -1 ? 1 : 1'000; });
  CHECK(ones == 100);
}

TEST_CASE("runs with a step: a loop with that step in each of them makes all the calls") {
  everywhere([](threadpool& pool) {
    const auto check = [&pool]<class I>(I first, I last, I step, std::size_t grain) {
      std::vector<I> expected;
      for (I i = first;; i = static_cast<I>(i + step)) {
        expected.push_back(i);
        if (last - i <= step) break;
      }
      calls<I> seen;
      std::atomic<bool> is_backward{false};
      parallel_for(
          pool, first, last, step,
          [&](I from, I to) {
            if (!(from < to)) is_backward = true;
            for (I i = from; i < to;) {
              seen.add(i);
              if (to - i <= step) break;
              i = static_cast<I>(i + step);
            }
          },
          grain);
      CHECK_FALSE(is_backward);
      CHECK(seen.sorted() == expected);
    };
    for (const std::size_t grain : {0U, 1U, 3U}) {
      check(0, 100, 7, grain);
      check(-50, 50, 10, grain);
      check(std::uint8_t{245}, std::uint8_t{255}, std::uint8_t{4}, grain);  // the next one is no number of the type
      check((std::numeric_limits<int>::max)() - 10, (std::numeric_limits<int>::max)(), 3, grain);
    }
  });
}

TEST_CASE("a token that is stopped ends the loop early: false") {
  everywhere([](threadpool& pool) {
    for (const std::size_t grain : {0U, 1U, 64U}) {
      std::atomic<bool> is_stopped{false};
      std::atomic<std::uint64_t> count{0};
      const auto body = [&](std::uint64_t) {
        if (count.fetch_add(1) == 100) is_stopped = true;
      };
      CHECK_FALSE(parallel_for(pool, std::uint64_t{0}, endless, body, grain, own_token{&is_stopped}));
      CHECK(count > 100);
      count = 0;
      CHECK_FALSE(parallel_for(pool, std::uint64_t{0}, endless, body, grain, own_token{&is_stopped}));
      CHECK_FALSE(parallel_for(pool, std::uint64_t{0}, endless, std::uint64_t{3}, body, grain, own_token{&is_stopped}));
      CHECK_FALSE(parallel_for(pool, std::views::iota(0, 10), [&](int) { ++count; }, grain, own_token{&is_stopped}));
      CHECK(count == 0);
      is_stopped = false;
      CHECK(parallel_for(pool, std::uint64_t{0}, std::uint64_t{50}, body, grain, own_token{&is_stopped}));
      CHECK(count == 50);
    }
  });
}

TEST_CASE("a token that is stopped as another thread makes its last call of the loop: false, if own ones are left") {
  threadpool pool(1);
  std::optional<testing::occupied> busy(std::in_place, pool, 1U);
  std::atomic<bool> is_stopped{false};
  std::atomic<int> others{0};
  bool was_called = false;
  CHECK_FALSE(parallel_for(
      pool, 0, 4,
      [&](int i) {
        if (i == 0) {
          busy.reset();  // so that the worker takes the upper half
          testing::wait_while(is_stopped, false);
        } else if (i == 1) {
          was_called = true;
        } else if (++others == 2) {
          is_stopped = true;
        }
      },
      1, own_token{&is_stopped}));
  CHECK_FALSE(was_called);
  CHECK(others == 2);
}

#if defined(__cpp_lib_jthread)
TEST_CASE("a std::stop_token ends the loop, also from another thread") {
  threadpool pool(2);
  std::stop_source source;
  std::atomic<std::uint64_t> count{0};
  std::thread other([&] {
    while (count.load() < 1'000) std::this_thread::yield();
    source.request_stop();
  });
  CHECK_FALSE(parallel_for(
      pool, std::uint64_t{0}, endless, [&count](std::uint64_t) { ++count; }, async::auto_grain, source.get_token()));
  other.join();
  CHECK(parallel_for(pool, 0, 10, [](int) {}, 1, std::stop_token{}));
}
#endif

TEST_CASE("the group around that is cancelled ends the loop: false") {
  for (const std::size_t threads : {1U, 2U, 4U}) {
    threadpool pool(threads);
    for (const std::size_t grain : {0U, 1U}) {
      task_group group(pool);
      std::atomic<std::uint64_t> count{0};
      bool all = true;
      const auto body = [&](std::uint64_t) {
        if (count.fetch_add(1) == 100) group.cancel();
      };
      group.run([&] { all = parallel_for(pool, std::uint64_t{0}, endless, body, grain); });
      CHECK_FALSE(group.wait());
      CHECK_FALSE(all);
      count = 0;
      CHECK_FALSE(parallel_for(group, std::uint64_t{0}, endless, body, grain));
      CHECK(group.is_cancelling());
      count = 200;
      CHECK_FALSE(parallel_for(group, std::uint64_t{0}, endless, body, grain));
      CHECK(count == 200);
      CHECK_FALSE(group.wait());
      CHECK(parallel_for(group, 0, 100, [&count](int) { ++count; }, grain));  // as new
      CHECK(count == 300);
    }
  }
}

TEST_CASE("cancel() by another thread ends the loops of the group, and those inside them") {
  threadpool pool(2);
  task_group group(pool);
  std::atomic<std::uint64_t> count{0};
  std::thread other([&] {
    while (count.load() < 1'000) std::this_thread::yield();
    group.cancel();
  });
  CHECK_FALSE(parallel_for(group, std::uint64_t{0}, endless, [&](std::uint64_t) {
    parallel_for(pool, std::uint64_t{0}, endless, [&count](std::uint64_t) { ++count; });
  }));
  other.join();
  CHECK_FALSE(group.wait());
}

TEST_CASE("the loop of a group passes on its body's exceptions, the group does not") {
  threadpool pool(2);
  task_group group(pool);
  std::atomic<int> ran{0};
  for (int i = 0; i < 10; ++i) group.run([&ran] { ++ran; });
  CHECK_THROWS_WITH_AS(parallel_for(group, 0, 1'000, [](int) { throw std::runtime_error("of the loop"); }),
                       "of the loop", std::runtime_error);
  CHECK_FALSE(group.is_cancelling());
  CHECK(group.wait());
  CHECK(ran == 10);
}

TEST_CASE("the grain of a group's loop is of any integer type") {
  threadpool pool(2);
  task_group group(pool);
  std::vector<int> ones(1'000, 1);
  std::atomic<int> count{0};
  std::atomic<int> longest{0};
  const auto run = [&](auto first, auto last) {
    const int size = static_cast<int>(last - first);
    count += size;
    for (int seen = longest; seen < size && !longest.compare_exchange_weak(seen, size);) {
    }
  };
  int grain = 10;
  CHECK(parallel_for(group, 0, 1'000, run, grain));
  CHECK(parallel_for(group, ones.begin(), ones.end(), run, std::as_const(grain)));
  CHECK(parallel_for(group, ones, run, static_cast<long>(grain), async::no_token()));
  CHECK(count == 3'000);
  CHECK(longest == 10);
  CHECK(parallel_for(group, 0, 1'000, 2, [&count](int) { ++count; }, grain));
  CHECK(count == 3'500);
  CHECK(async::parallel_reduce(group, ones, 0, std::plus<>(), std::plus<>(), grain) == 1'000);
  CHECK(async::parallel_reduce(group, ones.begin(), ones.end(), 0, std::plus<>(), std::plus<>()) == 1'000);
}

TEST_CASE("an inner loop that throws ends the outer one") {
  everywhere([](threadpool& pool) {
    CHECK_THROWS_WITH_AS(parallel_for(pool, std::uint64_t{0}, endless,
                                      [&pool](std::uint64_t i) {
                                        parallel_for(pool, 0, 10, [i](int k) {
                                          if (i == 5 && k == 5) throw std::runtime_error("inside");
                                        });
                                      }),
                         "inside", std::runtime_error);
  });
}

TEST_CASE("workers that come during a loop take part in it") {
  for (const bool from_inside : {true, false}) {
    threadpool pool(from_inside ? 1 : 0);
    std::atomic<int> others{0};
    std::atomic<int> calls{0};
    const auto loop = [&] {
      const std::thread::id caller = std::this_thread::get_id();
      return parallel_for(pool, 0, 100'000, [&](int) {
        ++calls;
        if (std::this_thread::get_id() != caller) {
          ++others;
        } else if (others == 0) {  // the loop ends when others take part
          pool.configurepool(2);
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
    };
    CHECK((from_inside ? pool.post(loop).get() : loop()));
    CHECK(others != 0);
    CHECK(calls == 100'000);
  }
}

TEST_CASE("after short loops of one type a long one is shared soon, also if it begins like these") {
  for (const int first_long : {0, 300}) {
    threadpool pool(1);
    std::atomic<bool> is_long{false};
    std::atomic<int> others{0};
    int own = 0;
    const std::thread::id caller = std::this_thread::get_id();
    const auto loop = [&] {
      return parallel_for(pool, 0, 100'000, [&](int i) {
        if (!is_long || i < first_long) return;
        if (std::this_thread::get_id() != caller) {
          ++others;
        } else if (others == 0) {
          ++own;
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
      });
    };
    for (int i = 0; i != 5; ++i) CHECK(loop());
    is_long = true;
    CHECK(loop());
    CHECK(others != 0);
    CHECK(own <= 1'500);  // up to 1,024 between two looks at the clock; then the other thread wakes up
  }
}

TEST_CASE("on a paused or stopped pool the calling thread makes all the calls") {
  threadpool paused(0);
  threadpool stopped(2);
  stopped.stop();
  for (threadpool* const pool : {&paused, &stopped}) {
    std::set<std::thread::id> threads;
    int count = 0;
    CHECK(parallel_for(*pool, 0, 1'000, [&](int) {
      threads.insert(std::this_thread::get_id());
      ++count;
    }));
    CHECK(count == 1'000);
    CHECK(threads == std::set<std::thread::id>{std::this_thread::get_id()});
  }
}

TEST_CASE("a loop does not call operator new once it is warm") {
  for (const std::size_t threads : {0U, 1U, 2U}) {
    threadpool pool(threads);
    for (const std::size_t grain : {0U, 1U}) {
      CHECK(testing::fewest_calls([&pool, grain] {
              std::atomic<int> count{0};
              parallel_for(pool, 0, 1'000, [&count](int) { count.fetch_add(1, std::memory_order_relaxed); }, grain);
              CHECK(count == 1'000);
            }) == 0);
    }
  }
}

TEST_CASE("numbers of different types are walked in a type that they have in common, if the first fits in it") {
  threadpool pool(2);
  const std::vector<int> elements(1'000, 1);
  std::atomic<std::size_t> visited{0};
  CHECK(parallel_for(pool, 0, elements.size(), [&](std::size_t i) { visited += i < elements.size() ? 1 : 0; }));
  CHECK(visited == 1'000);
  CHECK(parallel_for(pool, 5, std::size_t{5}, [&](std::size_t) { ++visited; }));
  CHECK(parallel_for(pool, std::size_t{5}, -5, [&](std::size_t) { ++visited; }));
  CHECK(visited == 1'000);
  CHECK_THROWS_AS(parallel_for(pool, -1, std::size_t{5}, [&](std::size_t) { ++visited; }), std::out_of_range);
  std::atomic<long> sum{0};
  CHECK(parallel_for(pool, std::int8_t{-3}, 3L, [&](long i) { sum += i; }));
  CHECK(sum == -3);
  CHECK(parallel_for(0, elements.size(), [&](std::size_t) { ++visited; }));  // on the shared pool
  CHECK(visited == 2'000);
}

TEST_CASE("characters are walked like numbers, beside numbers too") {
  threadpool pool(2);
  std::atomic<int> calls{0};
  const auto count = [&calls](auto) { ++calls; };
  CHECK(parallel_for(pool, 'a', 200, count));
  CHECK(calls == 200 - 'a');
  CHECK(parallel_for(pool, u'a', u'c', count));
  CHECK(parallel_for(pool, L'a', U'c', count));
  CHECK(calls == 200 - 'a' + 4);
}
