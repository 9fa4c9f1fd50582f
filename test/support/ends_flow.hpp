// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <functional>  // for function
#include <stdexcept>   // for runtime_error
#include <utility>     // for exchange

namespace testing {

/// A result whose copy throws once `acts` is set; then its end calls that.
struct ends_flow {
  explicit ends_flow(std::function<void()>& end) : acts(&end) {}
  ends_flow(const ends_flow& other) : acts(other.acts) {
    if (*acts) throw std::runtime_error("not copied");
  }
  ~ends_flow() {
    if (const auto act = std::exchange(*acts, nullptr)) act();
  }
  std::function<void()>* acts;
  long bytes[2] = {0x41414141, 0x41414141};  // no address, if they are taken for one
};

}  // namespace testing
