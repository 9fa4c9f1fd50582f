// SPDX-License-Identifier: BSL-1.0
//
// A parallel reduce on task_group, and the same by parallel_for: how many primes there are, and the widest gap between
// two of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

#include "async/parallel_for.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"

namespace {

// [reduce]
/// What `leaf` makes of [first, last), in pieces of at most `grain`, put together by `join` in their order.
template <class T, class Leaf, class Join>
T parallel_reduce(async::threadpool& pool, std::uint32_t first, std::uint32_t last, std::uint32_t grain,
                  const Leaf& leaf, const Join& join) {
  if (last - first <= grain) return leaf(first, last);
  const std::uint32_t middle = first + (last - first) / 2;
  T right{};
  async::task_group group(pool);
  group.run([&] { right = parallel_reduce<T>(pool, middle, last, grain, leaf, join); });  // for whoever is idle
  T left = parallel_reduce<T>(pool, first, middle, grain, leaf, join);
  group.wait();  // does it itself when nobody was idle; throws what `leaf` has thrown
  return join(std::move(left), std::move(right));
}
// [/reduce]

/// The primes of a range: how many, the first and the last, and the widest gap between two neighbours.
struct primes {
  std::uint32_t count = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint32_t gap = 0;

  void append(std::uint32_t prime) {
    if (count++ == 0) first = prime;
    if (last != 0) gap = (std::max)(gap, prime - last);
    last = prime;
  }
  friend primes operator+(const primes& a, const primes& b) {
    if (a.count == 0 || b.count == 0) return a.count == 0 ? b : a;
    return {a.count + b.count, a.first, b.last, (std::max)({a.gap, b.gap, b.first - a.last})};
  }
};

bool is_prime(std::uint32_t n) {
  if (n < 4) return n > 1;
  if (n % 2 == 0) return false;
  for (std::uint32_t d = 3; d <= n / d; d += 2) {
    if (n % d == 0) return false;
  }
  return true;
}

primes primes_in(std::uint32_t first, std::uint32_t last) {
  primes found;
  for (std::uint32_t n = first; n < last; ++n) {
    if (is_prime(n)) found.append(n);
  }
  return found;
}

}  // namespace

int main() {
  constexpr std::uint32_t end = 1'000'000;
  async::threadpool pool;

  const primes all = parallel_reduce<primes>(pool, 0, end, 4096, primes_in,
                                             [](const primes& left, const primes& right) { return left + right; });

  // [parallel_for]
  std::uint64_t sum = 0;
  std::mutex mutex;
  constexpr std::uint32_t pieces = 64;
  async::parallel_for(pool, 0U, pieces, [&](std::uint32_t piece) {
    std::uint64_t part = 0;  // of this piece alone: no sharing in the inner loop
    for (std::uint32_t n = piece; n < end; n += pieces) part += is_prime(n) ? n : 0;
    const std::lock_guard lock(mutex);
    sum += part;
  });
  // [/parallel_for]

  std::printf("%u primes below %u, the widest gap is %u, their sum is %llu\n", all.count, end, all.gap,
              static_cast<unsigned long long>(sum));
  return all.count == 78'498 && all.last == 999'983 && all.gap == 114 && sum == 37'550'402'023 ? 0 : 1;
}
