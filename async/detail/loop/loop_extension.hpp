// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for byte
#include <new>          // for placement new, launder
#include <type_traits>  // for is_trivially_destructible_v, is_nothrow_default_constructible_v

namespace async::inline v0_1::detail {

/// An object of one word that another part of the library keeps in each loop: the head of its list of what waits there.
/// See loop_core::extension().
class loop_extension {
 public:
  /// The object, made on first use. All calls name the same T, whose close() cancels what still waits.
  template <class T>
  T& get() noexcept {
    static_assert(sizeof(T) <= sizeof memory_ && alignof(T) <= alignof(void*));
    static_assert(std::is_trivially_destructible_v<T> && std::is_nothrow_default_constructible_v<T>);
    if (close_ == nullptr) [[unlikely]] {
      ::new (static_cast<void*>(memory_)) T();
      close_ = [](void* object) noexcept { static_cast<T*>(object)->close(); };
    }
    return *std::launder(reinterpret_cast<T*>(memory_));
  }

  /// The loop is being destroyed. On the destroying thread, which counts as the loop's.
  void close() noexcept {
    if (close_ != nullptr) close_(memory_);
  }

 private:
  void (*close_)(void* object) noexcept = nullptr;  // null: there is no object
  alignas(void*) std::byte memory_[sizeof(void*)];
};

}  // namespace async::inline v0_1::detail
