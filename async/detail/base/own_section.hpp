// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/naps.hpp"  // for look_after_pool, look_reason

namespace async::inline v0_1::detail {

/// While it lives, the calling thread blocks, and the pool that has started it has another worker in its place. On
/// other threads, and inside another section, it does nothing. For waits of this library that take no naps.
class own_section {
 public:
  own_section() noexcept : is_begun_(look_after_pool != nullptr && look_after_pool(look_reason::blocks).is_yes) {}
  ~own_section() {
    // None in a child of fork(), whose pool is the parent's.
    if (is_begun_ && look_after_pool != nullptr) static_cast<void>(look_after_pool(look_reason::goes_on));
  }
  own_section(const own_section&) = delete;
  own_section& operator=(const own_section&) = delete;

 private:
  const bool is_begun_;
};

}  // namespace async::inline v0_1::detail
