// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for max, min
#include <cstddef>    // for size_t
#include <vector>     // for vector

#include "machine.hpp"  // for processors

/// Sizes at which curves are measured.
namespace bench {

/// 1, 10, 100 and so on up to `most`.
inline std::vector<std::size_t> powers_of_ten(std::size_t most) {
  std::vector<std::size_t> found;
  for (std::size_t x = 1; x <= most; x *= 10) found.push_back(x);
  return found;
}

/// 1, 2, 4 and so on up to `most`.
inline std::vector<std::size_t> powers_of_two(std::size_t most) {
  std::vector<std::size_t> found;
  for (std::size_t x = 1; x <= most; x *= 2) found.push_back(x);
  return found;
}

/// Numbers of threads, at least `least`: powers of two below the number of processors, then one, two and four threads
/// for each processor.
inline std::vector<std::size_t> crews(std::size_t least = 1) {
  std::vector<std::size_t> found;
  for (std::size_t x = 1; x < processors(); x *= 2) found.push_back(x);
  for (const std::size_t times : {std::size_t{1}, std::size_t{2}, std::size_t{4}})
    found.push_back(times * processors());
  std::erase_if(found, [least](std::size_t x) { return x < least; });
  return found;
}

/// Number of rounds of `size` items each that handle about `items` in all: at least one, at most `most`.
inline std::size_t rounds_of(std::size_t size, std::size_t items, std::size_t most = 1'000'000) {
  return (std::max)(std::size_t{1}, (std::min)(most, items / size));
}

}  // namespace bench
