// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <optional>     // for optional
#include <type_traits>  // for is_nothrow_move_constructible_v, is_scalar_v, is_const_v, is_same_v
#include <utility>      // for forward, move

namespace async::inline v0_1::detail {

/// An element that a producer constructs before it claims a slot, so that a constructor that throws takes no slot.
///
/// Used if the constructor may throw, the element can be moved without exceptions, and making it leaves the arguments
/// as they are: constants other than scalars, and an element that is copied. Other arguments must stay untouched if
/// there is no room after all, so they are used after the claim. Among these are scalars: an element may own what a
/// pointer or descriptor stands for, and would release it. Not thread-safe: belongs to one call.
template <class T, class... Args>
class made_early {
  template <class Arg>
  static constexpr bool is_kept = !std::is_scalar_v<std::remove_reference_t<Arg>> &&
                                  (std::is_const_v<std::remove_reference_t<Arg>> || std::is_same_v<Arg, T&>);

 public:
  static constexpr bool is_used =
      !std::is_nothrow_constructible_v<T, Args...> && std::is_nothrow_move_constructible_v<T> && (is_kept<Args> && ...);

  /// Constructs it, unless it is there. Throws what T's constructor throws.
  void make(Args&&... args) {
    if (!made_) made_.emplace(std::forward<Args>(args)...);
  }
  T&& take() noexcept { return *std::move(made_); }

 private:
  struct nothing {};
  std::conditional_t<is_used, std::optional<T>, nothing> made_;
};

}  // namespace async::inline v0_1::detail
