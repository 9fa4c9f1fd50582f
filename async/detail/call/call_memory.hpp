// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>   // for size_t, byte
#include <new>       // for bad_array_new_length, launder
#include <optional>  // for optional
#include <tuple>     // for tuple, apply
#include <utility>   // for forward, move, in_place

#include "async/detail/base/block_cache.hpp"  // for allocate_block, free_block
#include "async/detail/base/invoke.hpp"       // for invoke
#include "async/detail/base/min_max.hpp"      // for max_of
#include "async/detail/call/call_entry.hpp"   // for call_entry

namespace async::inline v0_1::detail {

/// A block with room for a T behind a call_entry, which frees the block with its last reference.
template <class T>
struct call_memory {
  static constexpr std::size_t alignment = max_of(alignof(T), alignof(call_entry));
  static constexpr std::size_t front = (sizeof(call_entry) + alignment - 1) / alignment * alignment;

  call_memory() {
    auto* const block = static_cast<std::byte*>(allocate_block(front + sizeof(T), alignment));
    state = block + front;
    entry = ::new (static_cast<void*>(block + front - sizeof(call_entry))) call_entry(&free);
  }
  static call_entry* entry_of(void* state) noexcept {
    return std::launder(reinterpret_cast<call_entry*>(static_cast<std::byte*>(state) - sizeof(call_entry)));
  }

  void* state;
  call_entry* entry;

 private:
  static void free(call_entry& e) noexcept {
    free_block(reinterpret_cast<std::byte*>(&e) + sizeof(call_entry) - front, front + sizeof(T), alignment);
  }
};

/// Allocates one object with a call_entry in front of it.
template <class T>
struct call_allocator {
  using value_type = T;
  explicit call_allocator(call_entry*& e) noexcept : entry(&e) {}
  template <class U>
  call_allocator(const call_allocator<U>& other) noexcept : entry(other.entry) {}  // NOLINT: rebinding is implicit
  T* allocate(std::size_t n) {
    if (n != 1) throw std::bad_array_new_length();
    const call_memory<T> memory;
    *entry = memory.entry;
    return static_cast<T*>(memory.state);
  }
  static void deallocate(T* p, std::size_t) noexcept { call_memory<T>::entry_of(p)->release(); }
  friend bool operator==(const call_allocator&, const call_allocator&) noexcept { return true; }

  call_entry** entry;
};

/// A callable and its arguments, copied and called as std::async does.
template <class... Call>
class stored_call {
 public:
  template <class... From>
  explicit stored_call(std::in_place_t, From&&... from) : parts_(std::in_place, std::forward<From>(from)...) {}

  /// Makes the call. The callable and its arguments are destroyed before this returns.
  decltype(auto) operator()() {
    const struct release {
      std::optional<std::tuple<Call...>>& parts;
      ~release() { parts.reset(); }
    } at_end{parts_};
    return std::apply(
        [](auto&&... part) -> decltype(auto) { return detail::invoke(std::forward<decltype(part)>(part)...); },
        std::move(*parts_));
  }
  void drop() noexcept { parts_.reset(); }
  /// Drops the callable and its arguments as they are, without their destructors.
  void leak() noexcept { ::new (static_cast<void*>(&parts_)) std::optional<std::tuple<Call...>>(); }

 private:
  std::optional<std::tuple<Call...>> parts_;
};

}  // namespace async::inline v0_1::detail
