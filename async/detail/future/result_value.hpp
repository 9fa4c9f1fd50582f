// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>   // for addressof, construct_at, destroy_at
#include <utility>  // for forward, move

namespace async::detail {

/// Room for the value of a result: a T, a reference, or nothing. The thread that makes the result writes it before it
/// publishes the result.
template <class T>
class result_value {
 public:
  result_value() noexcept {}
  result_value(const result_value&) = delete;
  result_value& operator=(const result_value&) = delete;
  ~result_value() {
    if (is_set_) std::destroy_at(std::addressof(value_));
  }

  /// Throws what the constructor of T throws; then there is no value.
  template <class... V>
  void set(V&&... from) {
    std::construct_at(std::addressof(value_), std::forward<V>(from)...);
    is_set_ = true;
  }
  T take() { return std::move(value_); }
  const T& get() const noexcept { return value_; }

 private:
  union {
    T value_;
  };
  bool is_set_ = false;
};

template <class T>
class result_value<T&> {
 public:
  void set(T& to) noexcept { value_ = std::addressof(to); }
  T& take() const noexcept { return *value_; }
  T& get() const noexcept { return *value_; }

 private:
  T* value_ = nullptr;
};

template <>
class result_value<void> {
 public:
  void set() const noexcept {}
  void take() const noexcept {}
  void get() const noexcept {}
};

}  // namespace async::detail
