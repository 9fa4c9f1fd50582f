// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>    // for uint64_t
#include <stdexcept>  // for runtime_error

#include "live_count.hpp"  // for live_count

namespace testing {

/// A number; one in `Every` cannot be made.
template <std::uint64_t Every>
struct fragile : live_count<fragile<Every>> {
  explicit fragile(std::uint64_t v) : value(v) {
    if (v % Every == 0) throw std::runtime_error("fragile");
  }
  fragile(fragile&&) noexcept = default;
  fragile& operator=(fragile&&) noexcept = default;
  std::uint64_t value;
};

}  // namespace testing
