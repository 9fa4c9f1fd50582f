// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <benchmark/benchmark.h>  // for DoNotOptimize

#include <algorithm>  // for min
#include <cstdint>    // for uint64_t
#include <limits>     // for numeric_limits

#include "machine.hpp"  // for wall_clock, nanoseconds

namespace bench {

/// Spins for about a microsecond of CPU time, which passes only while the thread runs.
inline void work_for_a_microsecond() {
  const auto work = [](std::uint64_t rounds) {
    std::uint64_t value = rounds;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      value = value * 6364136223846793005U + 1442695040888963407U;
      benchmark::DoNotOptimize(value);
    }
  };
  static const std::uint64_t rounds = [&work] {
    constexpr std::uint64_t probe = 50'000;
    double best = (std::numeric_limits<double>::max)();
    for (int i = 0; i < 20; ++i) {
      const wall_clock::time_point begin = wall_clock::now();
      work(probe);
      best = (std::min)(best, nanoseconds(wall_clock::now() - begin).count());
    }
    return static_cast<std::uint64_t>(1'000 * probe / best);
  }();
  work(rounds);
}

}  // namespace bench
