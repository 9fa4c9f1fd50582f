// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>       // for addressof, construct_at, destroy_at
#include <type_traits>  // for conditional_t, is_constructible_v, is_rvalue_reference_v, is_trivially_destructible_v
#include <utility>      // for exchange, forward, move

namespace async::inline v0_1::detail {

/// Room for the value of a result: a T, a reference, or nothing. The thread that makes the result writes it before it
/// publishes the result.
template <class T>
class result_value {
  static_assert(!std::is_rvalue_reference_v<T>, "a result is a value or an lvalue reference: return T instead of T&&");

 public:
  result_value() noexcept {}
  result_value(const result_value&) = delete;
  result_value& operator=(const result_value&) = delete;
  ~result_value() { drop(); }

  /// Throws what the constructor of T throws; then there is no value.
  template <class... V>
  void set(V&&... from) {
    static_assert(std::is_constructible_v<T, V...>, "the type that a call returns must be movable");
    std::construct_at(std::addressof(value_), std::forward<V>(from)...);
    if constexpr (has_end) is_set_.value = true;
  }
  /// Destroys the value, if there is one.
  void drop() noexcept {
    if constexpr (has_end) {
      if (std::exchange(is_set_.value, false)) std::destroy_at(std::addressof(value_));
    }
  }
  T take() { return std::move(value_); }
  const T& get() const noexcept { return value_; }

 private:
  static constexpr bool has_end = !std::is_trivially_destructible_v<T>;

  union {
    T value_;
  };
  struct flag {
    bool value = false;
  };
  struct no_flag {};
  [[no_unique_address]] std::conditional_t<has_end, flag, no_flag> is_set_;
};

template <class T>
class result_value<T&> {
 public:
  void set(T& to) noexcept { value_ = std::addressof(to); }
  void drop() noexcept {}
  T& take() const noexcept { return *value_; }
  T& get() const noexcept { return *value_; }

 private:
  T* value_ = nullptr;
};

template <>
class result_value<void> {
 public:
  void set() const noexcept {}
  void drop() const noexcept {}
  void take() const noexcept {}
  void get() const noexcept {}
};

}  // namespace async::inline v0_1::detail
