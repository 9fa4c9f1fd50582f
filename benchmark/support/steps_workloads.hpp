// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>   // for milliseconds
#include <cstddef>  // for size_t
#include <string>   // for to_string

#include "harness.hpp"  // for sample
#include "machine.hpp"  // for wall_clock

/// Sizes and checks that the contestants of the steps workloads share.
namespace bench {

/// Number of flows alive at a time in the workloads "alive" and "switch".
inline constexpr std::size_t flows_alive = 30'000;

/// Delay of timer `i` in the workload "timers".
inline std::chrono::milliseconds timer_delay(std::size_t i) {
  return std::chrono::milliseconds(10'000 + i * 7919 % 50'000);
}

/// The time since `begin`; a defect unless all the work was done.
inline sample finished(wall_clock::time_point begin, std::size_t done, std::size_t expected) {
  sample result;
  result.time = wall_clock::now() - begin;
  if (done != expected) result.defect = std::to_string(done) + " of " + std::to_string(expected) + " were done";
  return result;
}

}  // namespace bench
