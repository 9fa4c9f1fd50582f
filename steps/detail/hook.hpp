// SPDX-License-Identifier: BSL-1.0
// floor: 0
#pragma once
#include <cstddef>      // for byte, size_t
#include <memory>       // for destroy_at
#include <type_traits>  // for decay_t
#include <utility>      // for forward, exchange

#include "async/detail/block_cache.hpp"  // for allocate_block, free_block

namespace steps::detail {

/// A replaceable callback `void(Args...)`: small callables inside, larger ones in one recycled block.
///
/// Threads     as a plain object.
/// Exceptions  set() passes on what the callable's constructor throws; the hook is empty then. A call passes on what
///             the callable throws.
template <class... Args>
class hook {
 public:
  static constexpr std::size_t inline_size = 4 * sizeof(void*);

  hook() noexcept = default;
  hook(const hook&) = delete;
  hook& operator=(const hook&) = delete;
  ~hook() { reset(); }

  template <class F>
  void set(F&& f) {
    using callable = std::decay_t<F>;
    reset();
    if constexpr (fits<callable>) {
      callable_ = ::new (static_cast<void*>(storage_)) callable(std::forward<F>(f));
    } else {
      void* const block = async::detail::allocate_block(sizeof(callable), alignof(callable));
      try {
        callable_ = ::new (block) callable(std::forward<F>(f));
      } catch (...) {
        async::detail::free_block(block, sizeof(callable), alignof(callable));
        throw;
      }
    }
    call_ = [](void* target, Args... args) { (*static_cast<callable*>(target))(std::forward<Args>(args)...); };
    destroy_ = [](void* target) noexcept {
      std::destroy_at(static_cast<callable*>(target));
      if constexpr (!fits<callable>) async::detail::free_block(target, sizeof(callable), alignof(callable));
    };
  }

  void reset() noexcept {
    call_ = nullptr;
    if (const auto destroy = std::exchange(destroy_, nullptr)) destroy(callable_);
  }

  explicit operator bool() const noexcept { return call_ != nullptr; }
  void operator()(Args... args) const { call_(callable_, std::forward<Args>(args)...); }

 private:
  template <class F>
  static constexpr bool fits = sizeof(F) <= inline_size && alignof(F) <= alignof(void*);

  void (*call_)(void*, Args...) = nullptr;
  void (*destroy_)(void*) noexcept = nullptr;
  void* callable_ = nullptr;
  alignas(void*) std::byte storage_[inline_size];
};

}  // namespace steps::detail
