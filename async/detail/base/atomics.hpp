// SPDX-License-Identifier: BSL-1.0
#pragma once

/// The seam between this library and its memory model.
///
/// All shared state of the lock-free parts is declared with the types of this file. In the product they are the
/// standard library's. When ASYNCSTEPS_ATOMICS_HEADER names a header, that header provides the same names on a model
/// checker's simulated memory. The checker then runs the shipped queue and pool headers under every schedule that it
/// can find.
///
/// Names: atomic<T>, cell<T>, light_fence(), free_light_fence(), heavy_fence(), cpu_pause(), yield_thread(),
/// wait_on_word(), wake_one(), wake_all(), wait_clock, under_model.

#if defined(ASYNCSTEPS_ATOMICS_HEADER)
#include ASYNCSTEPS_ATOMICS_HEADER
#else

#include <atomic>   // for atomic
#include <thread>   // for yield
#include <utility>  // for move

#include "async/detail/base/platform.hpp"  // exports light_fence, free_light_fence, heavy_fence, cpu_pause, wait_on_word, wake_one

namespace async::inline v0_1::detail {

/// True when the code runs on a model checker's memory: spinning is cut short, and thread-local state is unused.
inline constexpr bool under_model = false;

template <class T>
using atomic = std::atomic<T>;

/// Plain data that threads hand over under the protection of atomics. A model checker reports every unordered access to
/// it. In the product it is just the value.
template <class T>
class cell {
 public:
  constexpr cell() noexcept = default;
  constexpr explicit cell(T value) noexcept : value_(std::move(value)) {}
  constexpr T get() const noexcept { return value_; }
  constexpr void set(T value) noexcept { value_ = std::move(value); }

 private:
  T value_{};
};

inline void yield_thread() noexcept { std::this_thread::yield(); }

}  // namespace async::inline v0_1::detail

#endif
