// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for sort
#include <cstddef>    // for size_t
#include <vector>     // for vector

#include "harness.hpp"  // for sample

namespace bench {

/// Makes the median of `values` the value of a sample. Notes the tail quantiles for which there are enough values.
inline void note_quantiles(sample& result, std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  result.figures["value"] = values[values.size() / 2];
  const auto note = [&](const char* name, std::size_t outside) {
    if (values.size() >= outside) result.figures[name] = values[values.size() - 1 - values.size() / outside];
  };
  note("p90", 10);
  note("p99", 100);
  note("p99.9", 1'000);
}

}  // namespace bench
