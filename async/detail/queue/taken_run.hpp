// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for byte, size_t
#include <memory>   // for construct_at, destroy_at
#include <new>      // for launder
#include <utility>  // for move

#include "async/detail/base/min_max.hpp"  // for max_of, min_of

namespace async::inline v0_1::detail {

/// A few elements that have left a queue, on the stack, until they are assigned. T moves without exceptions.
template <class T>
class taken_run {
 public:
  static constexpr std::size_t capacity = max_of(std::size_t{1}, min_of(std::size_t{16}, 1'024 / sizeof(T)));

  taken_run() noexcept = default;
  taken_run(const taken_run&) = delete;
  taken_run& operator=(const taken_run&) = delete;
  ~taken_run() {
    for (std::size_t i = 0; i != size_; ++i) std::destroy_at(at(i));
  }

  /// As an output iterator: appends.
  taken_run& operator*() noexcept { return *this; }
  taken_run& operator++() noexcept { return *this; }
  void operator=(T&& element) noexcept {
    std::construct_at(reinterpret_cast<T*>(memory_ + size_ * sizeof(T)), std::move(element));
    ++size_;
  }

  T&& first() noexcept { return std::move(*at(0)); }
  /// Moves all elements to *out and its successors.
  template <class Out>
  void assign_to(Out& out) noexcept {
    for (std::size_t i = 0; i != size_; ++i, static_cast<void>(++out)) *out = std::move(*at(i));
  }

 private:
  T* at(std::size_t i) noexcept { return std::launder(reinterpret_cast<T*>(memory_ + i * sizeof(T))); }

  alignas(T) std::byte memory_[capacity * sizeof(T)];
  std::size_t size_ = 0;
};

}  // namespace async::inline v0_1::detail
