// SPDX-License-Identifier: BSL-1.0
//
// Reduces: how many primes there are, the widest gap between two of them, and their sum.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>

#include "async/parallel_reduce.hpp"
#include "async/threadpool.hpp"

namespace {

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

}  // namespace

int main() {
  constexpr std::uint32_t end = 1'000'000;
  async::threadpool pool;

  // [reduce]
  // Takes numbers in, one after the other, into the value of some neighbours; puts these values together in their
  // order.
  const primes all = async::parallel_reduce(
      pool, 0U, end, primes{},
      [](primes found, std::uint32_t n) {
        if (is_prime(n)) found.append(n);
        return found;
      },
      std::plus<>());
  // [/reduce]

  // The same with runs of numbers: the inner loop is the body's.
  const std::uint64_t sum = async::parallel_reduce(
      pool, 0U, end, std::uint64_t{0},
      [](std::uint32_t first, std::uint32_t last, std::uint64_t so_far) {
        for (std::uint32_t n = first; n != last; ++n) so_far += is_prime(n) ? n : 0;
        return so_far;
      },
      std::plus<>());

  std::printf("%u primes below %u, the widest gap is %u, their sum is %llu\n", all.count, end, all.gap,
              static_cast<unsigned long long>(sum));
  return all.count == 78'498 && all.last == 999'983 && all.gap == 114 && sum == 37'550'402'023 ? 0 : 1;
}
