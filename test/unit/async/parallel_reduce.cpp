// SPDX-License-Identifier: BSL-1.0
#include "async/parallel_reduce.hpp"

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
#include <numeric>
#include <ranges>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "support/alloc_counter.hpp"
#include "support/everywhere.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/scale.hpp"

using async::parallel_reduce;
using async::task_group;
using async::threadpool;
using testing::everywhere;

namespace {

char letter(std::size_t i) { return static_cast<char>('a' + i % 26); }

std::string letters(std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += letter(i);
  return all;
}

/// A matrix of two rows, modulo 1,000,003: its product is associative, and not commutative.
struct matrix {
  std::array<std::uint64_t, 4> at{1, 0, 0, 1};
  bool operator==(const matrix&) const = default;
  friend matrix operator*(const matrix& a, const matrix& b) {
    constexpr std::uint64_t modulus = 1'000'003;
    return {{(a.at[0] * b.at[0] + a.at[1] * b.at[2]) % modulus, (a.at[0] * b.at[1] + a.at[1] * b.at[3]) % modulus,
             (a.at[2] * b.at[0] + a.at[3] * b.at[2]) % modulus, (a.at[2] * b.at[1] + a.at[3] * b.at[3]) % modulus}};
  }
};

matrix matrix_of(std::uint64_t i) { return {{i % 1009 + 1, i % 7, i % 11, i % 13 + 1}}; }

/// A value that is counted.
struct tracked : testing::live_count<tracked> {
  static inline std::atomic<int> copies{0};

  tracked() = default;
  explicit tracked(int n) : number(n) {}
  tracked(const tracked& other) : live_count(other), number(other.number) { ++copies; }
  tracked(tracked&& other) noexcept : live_count(other), number(std::exchange(other.number, -1)) {}
  tracked& operator=(const tracked& other) {
    number = other.number;
    ++copies;
    return *this;
  }
  tracked& operator=(tracked&& other) noexcept {
    number = std::exchange(other.number, -1);
    return *this;
  }
  ~tracked() = default;

  int number = 0;
};

}  // namespace

TEST_CASE("the parts are put together in their order, whatever the size, the grain and the number of threads") {
  everywhere([](threadpool& pool) {
    for (const std::size_t size : {0U, 1U, 2U, 3U, 7U, 100U, 5'000U}) {
      for (const std::size_t grain : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1'000'000},
                                      (std::numeric_limits<std::size_t>::max)()}) {
        const std::string all = parallel_reduce(
            pool, std::size_t{0}, size, std::string{},
            [](std::string so_far, std::size_t i) {
              if (i % 64 == 0) std::this_thread::yield();
              return std::move(so_far) + letter(i);
            },
            std::plus<>(), grain);
        REQUIRE(all == letters(size));
      }
    }
  });
}

TEST_CASE("a product of matrices, which does not commute, is that of a sequential loop") {
  constexpr std::uint64_t count = 20'000;
  matrix expected;
  for (std::uint64_t i = 0; i < count; ++i) expected = expected * matrix_of(i);
  everywhere([&](threadpool& pool) {
    for (const std::size_t grain : {0U, 1U, 100U}) {
      const matrix product = parallel_reduce(
          pool, std::uint64_t{0}, count, matrix{},
          [](const matrix& so_far, std::uint64_t i) { return so_far * matrix_of(i); }, std::multiplies<>(), grain);
      CHECK(product == expected);
    }
  });
}

TEST_CASE("the identity of an empty or backward range") {
  threadpool pool(2);
  const auto never = [](int, auto&&) -> int { throw std::logic_error("called"); };
  const auto never_joined = [](int, int) -> int { throw std::logic_error("joined"); };
  CHECK(parallel_reduce(pool, 0, 0, 42, never, never_joined) == 42);
  CHECK(parallel_reduce(pool, 5, -5, 42, never, never_joined) == 42);
  CHECK(parallel_reduce(pool, (std::numeric_limits<int>::max)(), (std::numeric_limits<int>::min)(), 42, never,
                        never_joined, 1) == 42);
  const std::vector<int> empty;
  CHECK(parallel_reduce(pool, empty, 42, never, never_joined) == 42);
  CHECK(parallel_reduce(pool, empty.begin(), empty.end(), 42, never, never_joined) == 42);
  CHECK(parallel_reduce(empty, 42, never, never_joined) == 42);
}

TEST_CASE("every part begins with the identity, and each number is taken in once") {
  everywhere([](threadpool& pool) {
    std::vector<std::atomic<int>> calls(3'000);
    const int least = parallel_reduce(
        pool, 0, 3'000, (std::numeric_limits<int>::max)(),
        [&calls](int so_far, int i) {
          ++calls[static_cast<std::size_t>(i)];
          return (std::min)(so_far, (i * 7919) % 3001 + 5);
        },
        [](int a, int b) { return (std::min)(a, b); }, 3);
    int expected = (std::numeric_limits<int>::max)();
    for (int i = 0; i < 3'000; ++i) {
      REQUIRE(calls[static_cast<std::size_t>(i)] == 1);
      expected = (std::min)(expected, (i * 7919) % 3001 + 5);
    }
    CHECK(least == expected);
  });
}

TEST_CASE("ranges and iterators: the body gets the element, or the iterator if it asks for one") {
  everywhere([](threadpool& pool) {
    std::vector<long> vector(10'000);
    std::iota(vector.begin(), vector.end(), 1L);
    const long sum = 10'000L * 10'001 / 2;
    CHECK(parallel_reduce(pool, vector, 0L, std::plus<>(), std::plus<>()) == sum);
    CHECK(parallel_reduce(pool, vector.begin(), vector.end(), 0L, std::plus<>(), std::plus<>()) == sum);
    CHECK(parallel_reduce(pool, std::as_const(vector), 0L, std::plus<>(), std::plus<>(), 16) == sum);
    const std::deque<long> deque(vector.begin(), vector.end());
    CHECK(parallel_reduce(pool, deque, 0L, std::plus<>(), std::plus<>(), 1) == sum);
    CHECK(parallel_reduce(pool, vector.data(), vector.data() + 100, 0L, std::plus<>(), std::plus<>()) == 5050);
    CHECK(parallel_reduce(pool, std::views::iota(0L, 101L), 0L, std::plus<>(), std::plus<>()) == 5050);
    CHECK(parallel_reduce(pool, std::array<int, 3>{1, 2, 3}, 0, std::plus<>(), std::plus<>()) == 6);
    using iterator = std::vector<long>::iterator;
    const iterator greatest = parallel_reduce(
        pool, vector.begin(), vector.end(), vector.begin(),
        [](iterator best, iterator i) { return *i > *best ? i : best; },
        [](iterator a, iterator b) { return *b > *a ? b : a; });
    CHECK(greatest == vector.end() - 1);
  });
}

TEST_CASE("arrays, and an identity that could be an index") {
  threadpool pool(2);
  int numbers[] = {1, 2, 3, 4};
  const unsigned char bytes[] = {5, 6};
  CHECK(async::parallel_reduce(pool, numbers, 0, std::plus<>(), std::plus<>()) == 10);
  CHECK(async::parallel_reduce(numbers, 0L, std::plus<>(), std::plus<>(), 1) == 10);
  CHECK(async::parallel_reduce(pool, bytes, 0U, std::plus<>(), std::plus<>()) == 11);
  const auto last = [](int* latest, int& each) { return &each > latest ? &each : latest; };
  const auto later = [](int* left, int* right) { return left > right ? left : right; };
  CHECK(async::parallel_reduce(pool, numbers, numbers + 0, last, later) == numbers + 3);
}

TEST_CASE("on the shared pool: numbers, iterators and ranges") {
  const std::vector<int> numbers{1, 2, 3, 4};
  CHECK(parallel_reduce(0, 101, 0, std::plus<>(), std::plus<>()) == 5050);
  CHECK(parallel_reduce(0, 101, 0, std::plus<>(), std::plus<>(), 7) == 5050);
  CHECK(parallel_reduce(numbers.begin(), numbers.end(), 1, std::multiplies<>(), std::multiplies<>()) == 24);
  CHECK(parallel_reduce(numbers, 1, std::multiplies<>(), std::multiplies<>(), 1) == 24);
  CHECK(threadpool::shared().post([&] { return parallel_reduce(numbers, 0, std::plus<>(), std::plus<>()); }).get() ==
        10);
}

TEST_CASE("a body of three parameters takes runs of neighbours in, which begin and end at whole grains") {
  everywhere([](threadpool& pool) {
    for (const std::size_t grain : {0U, 1U, 10U, 10'000U}) {
      std::atomic<bool> is_wrong{false};
      const std::string all = parallel_reduce(
          pool, std::size_t{0}, std::size_t{1'234}, std::string{},
          [&](std::size_t first, std::size_t last, std::string so_far) {
            if (!(first < last)) is_wrong = true;
            if (grain != 0 && (first % grain != 0 || last - first > grain)) is_wrong = true;
            for (std::size_t i = first; i != last; ++i) so_far += letter(i);
            return so_far;
          },
          std::plus<>(), grain);
      CHECK(all == letters(1'234));
      CHECK_FALSE(is_wrong);
    }
    std::vector<int> numbers(1'000, 2);
    using iterator = std::vector<int>::iterator;
    CHECK(parallel_reduce(
              pool, numbers, 0,
              [](iterator first, iterator last, int so_far) { return std::accumulate(first, last, so_far); },
              std::plus<>()) == 2'000);
  });
}

TEST_CASE("integers of every type, to the ends of their ranges") {
  threadpool pool(2);
  const auto whole = [&]<class I>(I) {
    constexpr I least = (std::numeric_limits<I>::min)();
    constexpr I most = (std::numeric_limits<I>::max)();
    const auto sum = parallel_reduce(
        pool, least, most, std::int64_t{0}, [](std::int64_t so_far, I i) { return so_far + i; }, std::plus<>());
    CHECK(sum == (std::int64_t{least} + most - 1) * (most - least) / 2);
  };
  whole(std::int8_t{});
  whole(std::uint8_t{});
  whole(std::int16_t{});
  whole(std::uint16_t{});
  constexpr auto most = (std::numeric_limits<std::uint64_t>::max)();
  const auto count = [](int so_far, std::uint64_t) { return so_far + 1; };
  CHECK(parallel_reduce(pool, most - 1'000, most, 0, count, std::plus<>(), 1) == 1'000);
}

TEST_CASE("big sums: ten million numbers, in runs and one by one") {
  const std::uint64_t count = testing::rounds(10'000'000);
  const std::uint64_t sum = count * (count - 1) / 2;
  for (const std::size_t threads : {1U, 2U}) {
    threadpool pool(threads);
    const std::uint64_t none = 0;
    CHECK(parallel_reduce(pool, none, count, none, std::plus<>(), std::plus<>()) == sum);
    CHECK(parallel_reduce(pool, none, count, none, std::plus<>(), std::plus<>(), 1) == sum);
  }
}

TEST_CASE("reductions nest, on one thread and on several") {
  everywhere([](threadpool& pool) {
    const int sum = parallel_reduce(
        pool, 0, 30, 0,
        [&pool](int so_far, int i) {
          return so_far +
                 parallel_reduce(pool, 0, 30, 0, [i](int inner, int k) { return inner + i * k; }, std::plus<>(), 1);
        },
        std::plus<>(), 1);
    CHECK(sum == 435 * 435);
  });
}

TEST_CASE("values that are dear to copy are moved: a copy for each part") {
  everywhere([](threadpool& pool) {
    tracked::copies = 0;
    std::atomic<int> joins{0};
    const tracked sum = parallel_reduce(
        pool, 0, 1'000, tracked{},
        [](tracked so_far, int i) {
          so_far.number += i;
          return so_far;
        },
        [&joins](tracked a, tracked b) {
          ++joins;
          a.number += b.number;
          return a;
        },
        10);
    CHECK(sum.number == 499'500);
    CHECK(tracked::copies <= joins + 2);
  });
  CHECK(tracked::live() == 0);
}

TEST_CASE("a histogram: values that own memory") {
  everywhere([](threadpool& pool) {
    using histogram = std::vector<int>;
    const histogram all = parallel_reduce(
        pool, 0, 10'000, histogram(10),
        [](histogram so_far, int i) {
          ++so_far[static_cast<std::size_t>(i % 10)];
          return so_far;
        },
        [](histogram a, const histogram& b) {
          for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
          return a;
        });
    CHECK(all == histogram(10, 1'000));
  });
}

TEST_CASE("body and join may be move-only, and are not copied") {
  threadpool pool(2);
  const int sum = parallel_reduce(
      pool, 0, 100, 0, [p = std::make_unique<int>(2)](int so_far, int) { return so_far + *p; },
      [p = std::make_unique<int>(1)](int a, int b) { return a + *p * b; }, 1);
  CHECK(sum == 200);
}

TEST_CASE("an exception of the body passes, ends the loop early, and leaves no value") {
  everywhere([](threadpool& pool) {
    for (int round = 0; round < 20; ++round) {
      std::atomic<std::uint64_t> calls{0};
      const auto body = [&calls](tracked so_far, std::uint64_t i) {
        ++calls;
        if (i == 100) throw std::runtime_error("at 100");
        return so_far;
      };
      const auto join = [](tracked a, const tracked&) { return a; };
      REQUIRE_THROWS_WITH_AS(parallel_reduce(pool, std::uint64_t{0}, std::uint64_t{1} << 40, tracked{}, body, join,
                                             round % 2 == 0 ? 0 : 16),
                             "at 100", std::runtime_error);
      REQUIRE(calls > 0);
      REQUIRE(tracked::live() == 0);
    }
  });
}

TEST_CASE("an exception of the join passes, and leaves no value") {
  everywhere([](threadpool& pool) {
    const auto join = [](const tracked&, const tracked&) -> tracked { throw std::runtime_error("joined"); };
    if (pool.size() > 1) {
      std::atomic<std::thread::id> first{};
      std::atomic<bool> has_second{false};
      const auto body = [&](tracked so_far, int) {  // goes on when a second thread takes part
        std::thread::id known{};
        const std::thread::id mine = std::this_thread::get_id();
        if (!first.compare_exchange_strong(known, mine) && known != mine) has_second = true;
        while (!has_second) std::this_thread::yield();
        return so_far;
      };
      CHECK_THROWS_WITH_AS(parallel_reduce(pool, 0, 1'000, tracked{}, body, join, 1), "joined", std::runtime_error);
    }
    CHECK_NOTHROW(parallel_reduce(pool, 0, 1, tracked{}, [](tracked so_far, int) { return so_far; }, join, 1));
    CHECK(tracked::live() == 0);
  });
}

TEST_CASE("only a part that another thread takes begins with a copy of the identity, and is joined") {
  threadpool pool(2);
  const testing::occupied until(pool, 2);
  for (const std::size_t grain : {0U, 1U, 7U}) {
    int joins = 0;
    const int copies_before = tracked::copies;
    const tracked sum = parallel_reduce(
        pool, 0, 10'000, tracked{}, [](tracked& so_far, int) { ++so_far.number; },
        [&joins](tracked a, const tracked& b) {
          ++joins;
          a.number += b.number;
          return a;
        },
        grain);
    CHECK(sum.number == 10'000);
    CHECK(joins == 0);
    CHECK(tracked::copies - copies_before == 1);
  }
}

TEST_CASE("an exception of a copy of the identity passes") {
  struct fragile : testing::live_count<fragile> {
    explicit fragile(std::atomic<int>& left) : copies_left(&left) {}
    fragile(const fragile& other) : live_count(other), copies_left(other.copies_left) {
      if (copies_left->fetch_sub(1) <= 0) throw std::runtime_error("copied");
    }
    fragile(fragile&&) noexcept = default;
    fragile& operator=(fragile&&) noexcept = default;
    ~fragile() = default;
    std::atomic<int>* copies_left;
  };
  threadpool pool(2);
  bool has_failed = true;
  for (int copies = 0; has_failed; ++copies) {
    std::atomic<int> left{copies};
    has_failed = false;
    try {
      fragile identity(left);
      parallel_reduce(
          pool, 0, 8, std::move(identity), [](fragile so_far, int) { return so_far; },
          [](fragile a, const fragile&) { return a; }, 1);
    } catch (const std::runtime_error&) {
      has_failed = true;
    }
    REQUIRE(fragile::live() == 0);
    REQUIRE(copies < 100);
    if (copies == 0) REQUIRE(has_failed);
  }
}

TEST_CASE("an exception of a copy in a thread that takes a part ends the loop early") {
  struct fragile {
    explicit fragile(std::atomic<int>& number) : copies(&number) {}
    fragile(const fragile& other) : copies(other.copies) {
      if (++*copies == 2) throw std::runtime_error("copied");  // the first one is the calling thread's
    }
    fragile& operator=(const fragile&) = default;
    ~fragile() = default;
    std::atomic<int>* copies;
  };
  threadpool pool(2);
  std::atomic<int> copies{0};
  std::atomic<int> late_calls{0};
  const auto body = [&](fragile&, int) {
    while (copies < 2) std::this_thread::yield();
    ++late_calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  CHECK_THROWS_WITH_AS(parallel_reduce(
                           pool, 0, 1'000, fragile(copies), body, [](fragile a, const fragile&) { return a; }, 1),
                       "copied", std::runtime_error);
  CHECK(late_calls < 200);
}

TEST_CASE("an exception of the join of a part that two other threads share ends the loop early") {
  threadpool pool(2);
  std::atomic<bool> has_thrown{false};
  std::atomic<bool> is_shared{false};
  std::atomic<int> late_calls{0};
  const auto body = [&](tracked& so_far, int i) {
    ++so_far.number;
    while (i == 0 && !has_thrown) std::this_thread::yield();   // the calling thread, with the first of its numbers
    while (i == 500 && !is_shared) std::this_thread::yield();  // a worker, which has taken the upper half
    if (i >= 750) is_shared = true;                            // the other one, which has taken half of that
    if (!has_thrown) return;
    ++late_calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto join = [&](const tracked&, const tracked&) -> tracked {
    has_thrown = true;
    throw std::runtime_error("joined");
  };
  CHECK_THROWS_WITH_AS(parallel_reduce(pool, 0, 1'000, tracked{}, body, join, 1), "joined", std::runtime_error);
  CHECK(late_calls < 40);  // the calling thread had about 80 numbers left that nobody else takes
  CHECK(tracked::live() == 0);
}

TEST_CASE("a group around that is cancelled ends it early") {
  for (const std::size_t threads : {1U, 2U}) {
    threadpool pool(threads);
    task_group group(pool);
    std::atomic<std::uint64_t> calls{0};
    std::uint64_t some = ~std::uint64_t{0};
    group.run([&] {
      some = parallel_reduce(
          pool, std::uint64_t{0}, std::uint64_t{1} << 40, std::uint64_t{0},
          [&](std::uint64_t so_far, std::uint64_t) {
            if (calls.fetch_add(1) == 1'000) group.cancel();
            return so_far + 1;
          },
          std::plus<>());
    });
    CHECK_FALSE(group.wait());
    CHECK(calls > 1'000);
    CHECK(some <= calls);
  }
}

TEST_CASE("a token that is stopped ends it early") {
  struct token {
    const std::atomic<bool>& is_stopped;
    bool stop_requested() const { return is_stopped; }
  };
  everywhere([](threadpool& pool) {
    std::atomic<bool> is_stopped{false};
    std::atomic<std::uint64_t> calls{0};
    const auto body = [&](std::uint64_t so_far, std::uint64_t) {
      if (calls.fetch_add(1) == 1'000) is_stopped = true;
      return so_far + 1;
    };
    const std::uint64_t some = parallel_reduce(pool, std::uint64_t{0}, std::uint64_t{1} << 40, std::uint64_t{0}, body,
                                               std::plus<>(), async::auto_grain, token{is_stopped});
    CHECK(calls > 1'000);
    CHECK(some <= calls);
    calls = 0;
    CHECK(parallel_reduce(pool, std::uint64_t{0}, std::uint64_t{1'000}, std::uint64_t{7}, body, std::plus<>(), 1,
                          token{is_stopped}) == 7);
    CHECK(calls == 0);
  });
}

TEST_CASE("a pool that is busy, paused or stopped does not hold it up") {
  threadpool busy(1);
  const testing::occupied until(busy, 1);
  threadpool paused(0);
  threadpool stopped(2);
  stopped.stop();
  for (threadpool* const pool : {&busy, &paused, &stopped}) {
    CHECK(parallel_reduce(*pool, 0, 1'001, 0, std::plus<>(), std::plus<>()) == 500'500);
    CHECK(parallel_reduce(*pool, 0, 1'001, 0, std::plus<>(), std::plus<>(), 1) == 500'500);
  }
}

TEST_CASE("it does not call operator new once it is warm") {
  for (const std::size_t threads : {0U, 1U, 2U}) {
    threadpool pool(threads);
    for (const std::size_t grain : {0U, 1U}) {
      CHECK(testing::fewest_calls([&pool, grain] {
              CHECK(parallel_reduce(pool, 0, 1'001, 0, std::plus<>(), std::plus<>(), grain) == 500'500);
            }) == 0);
    }
  }
}

TEST_CASE("a body that takes the value by reference takes numbers and elements in where it stands") {
  everywhere([](threadpool& pool) {
    using histogram = std::array<int, 16>;
    const auto both = [](histogram a, const histogram& b) {
      for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
      return a;
    };
    const auto of_numbers = parallel_reduce(
        pool, 0, 16'000, histogram{}, [](histogram& h, int i) { ++h[static_cast<std::size_t>(i % 16)]; }, both);
    const std::vector<std::size_t> elements(1'600, 3);
    const auto of_elements =
        parallel_reduce(pool, elements, histogram{}, [](histogram& h, std::size_t i) { ++h[i]; }, both);
    CHECK(of_numbers[0] == 1'000);
    CHECK(of_numbers[15] == 1'000);
    CHECK(of_elements[3] == 1'600);
    CHECK(of_elements[4] == 0);
  });
}

TEST_CASE("large values do not lie on the stack, one for each time that a range is split") {
  using large = std::array<long, 4'096>;  // 32 KiB
  threadpool pool(2);
  static_assert(sizeof(async::detail::reduce_value<large>) == sizeof(void*));
  static_assert(sizeof(async::detail::reduce_value<long>) == sizeof(long));
  const large total = parallel_reduce(
      pool, 0, 200'000, large{}, [](large& l, int) { ++l[7]; },
      [](large a, const large& b) {
        a[7] += b[7];
        return a;
      });
  CHECK(total[7] == 200'000);
}

TEST_CASE("a reduce of a group ends early when the group is cancelled") {
  threadpool pool(2);
  task_group group(pool);
  CHECK(parallel_reduce(group, 0, 100, 0, std::plus<>(), std::plus<>()) == 4'950);
  group.cancel();
  CHECK(parallel_reduce(group, 0, 100, 0, std::plus<>(), std::plus<>()) == 0);
  CHECK_FALSE(group.wait());
}

TEST_CASE("numbers of different types, such as 0 and size(), are reduced in their common type") {
  threadpool pool(2);
  const std::vector<int> ones(1000, 1);
  const auto add = [&ones](int sum, std::size_t i) { return sum + ones[i]; };
  const auto add_in_place = [&ones](int& sum, std::size_t i) { sum += ones[i]; };
  CHECK(async::parallel_reduce(pool, 0, ones.size(), 0, add, std::plus<>()) == 1000);
  CHECK(async::parallel_reduce(0, ones.size(), 0, add_in_place, std::plus<>()) == 1000);
  CHECK(async::parallel_reduce(pool, 7, std::size_t{7}, 5, add, std::plus<>()) == 5);
  CHECK_THROWS_AS(async::parallel_reduce(pool, -1, ones.size(), 0, add, std::plus<>()), std::out_of_range);
}
