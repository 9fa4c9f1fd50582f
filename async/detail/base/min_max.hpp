// SPDX-License-Identifier: BSL-1.0
#pragma once

/// std::min and std::max without `<algorithm>`, which takes a tenth of the time that files of users take to compile.
namespace async::inline v0_1::detail {

template <class T>
constexpr T min_of(T a, T b) noexcept {
  return b < a ? b : a;
}
template <class T>
constexpr T max_of(T a, T b) noexcept {
  return a < b ? b : a;
}

}  // namespace async::inline v0_1::detail
