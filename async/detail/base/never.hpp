// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace async::inline v0_1::detail {

/// False where a template is instantiated: static_assert(never<T>, "…") in what refuses its arguments.
template <class... T>
inline constexpr bool never = false;

}  // namespace async::inline v0_1::detail
