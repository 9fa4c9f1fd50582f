// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for max, min
#include <cstddef>    // for size_t
#include <vector>     // for vector

#include "machine.hpp"  // for processors

/// The sizes at which curves are measured.
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

/// Numbers of threads from `least` to four for each processor: powers of two, then as many as there are processors,
/// twice and four times as many.
inline std::vector<std::size_t> crews(std::size_t least = 1) {
  std::vector<std::size_t> found;
  for (std::size_t x = 1; x < processors(); x *= 2) found.push_back(x);
  for (std::size_t times : {1, 2, 4}) found.push_back(times * processors());
  std::erase_if(found, [least](std::size_t x) { return x < least; });
  return found;
}

/// How often something of size `size` is done so that about `items` are handled: at least once, at most `most` times.
inline std::size_t rounds_of(std::size_t size, std::size_t items, std::size_t most = 1'000'000) {
  return (std::max)(std::size_t{1}, (std::min)(most, items / size));
}

}  // namespace bench
