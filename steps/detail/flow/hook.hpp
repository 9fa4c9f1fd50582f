// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for byte, size_t
#include <cstdint>      // for uint32_t
#include <memory>       // for destroy_at
#include <type_traits>  // for decay_t, invoke_result_t
#include <utility>      // for forward, exchange

#include "async/detail/base/atomics.hpp"         // for atomic
#include "async/detail/base/block_cache.hpp"     // for allocate_block, free_block
#include "async/detail/base/lazy_coroutine.hpp"  // for has_begun

namespace steps::inline v0_1::detail {

/// A replaceable callback `void(Args...)`: small callables inside, larger ones in one recycled block. A callback may
/// replace itself; it is destroyed after its call has returned.
///
/// Threads     set(), remove(): one thread, while no other calls the hook. Calls: any, at the same time.
/// Exceptions  set() passes on what the callable's constructor throws; the hook is empty then. A call passes on what
///             the callable throws.
template <class... Args>
class hook {
 public:
  static constexpr std::size_t inline_size = 4 * sizeof(void*);

  hook() noexcept = default;
  hook(const hook&) = delete;
  hook& operator=(const hook&) = delete;
  ~hook() { destroy(); }

  /// Destroys the callable. No call of it is on its way.
  void destroy() noexcept { destroy_held(std::exchange(current_, {})); }

  template <class F>
  void set(F&& f) {
    using callable = std::decay_t<F>;
    clear();
    void* target = storage_;
    if (is_inside<callable>()) {
      target = ::new (target) callable(std::forward<F>(f));
      is_taken_ = true;
    } else {
      target = async::detail::allocate_block(sizeof(callable), alignof(callable));
      try {
        target = ::new (target) callable(std::forward<F>(f));
      } catch (...) {
        async::detail::free_block(target, sizeof(callable), alignof(callable));
        throw;
      }
    }
    current_ = {&call_as<callable>,
                [](void* t, bool is_block) noexcept {
                  std::destroy_at(static_cast<callable*>(t));
                  if (is_block) async::detail::free_block(t, sizeof(callable), alignof(callable));
                },
                target};
  }

  /// Removes a callable of this type; leaves any other.
  template <class F>
  void remove() {
    if (current_.call == &call_as<F>) clear();
  }

  explicit operator bool() const noexcept { return current_.target != nullptr; }
  void operator()(Args... args) const {
    const calling here(*this);
    current_.call(current_.target, std::forward<Args>(args)...);
  }

 private:
  struct held {
    void (*call)(void*, Args...) = nullptr;
    void (*destroy)(void*, bool is_block) noexcept = nullptr;
    void* target = nullptr;  // null: there is none
  };
  struct replaced {
    held what;
    replaced* before;
  };

  /// A call. The last one to return destroys the callables that have been replaced meanwhile.
  struct calling {
    // Relaxed, as in the destructor: set() and destroy_replaced() run on a thread that excludes calls of others.
    explicit calling(const hook& h) noexcept : called(h) { h.calls_.fetch_add(1, std::memory_order_relaxed); }
    ~calling() {
      if (called.calls_.fetch_sub(1, std::memory_order_relaxed) == 1 && called.replaced_ != nullptr) [[unlikely]]
        called.destroy_replaced();
    }
    calling(const calling&) = delete;
    calling& operator=(const calling&) = delete;
    const hook& called;
  };

  template <class F>
  static void call_as(void* target, Args... args) {
    static_assert(async::detail::has_begun<std::invoke_result_t<F&, Args...>>());
    static_cast<void>((*static_cast<F*>(target))(std::forward<Args>(args)...));
  }
  void clear() {
    if (calls_.load(std::memory_order_relaxed) != 0 && current_.target != nullptr) {  // relaxed: this thread's
      void* const node = async::detail::allocate_block(sizeof(replaced));
      replaced_ = ::new (node) replaced{std::exchange(current_, {}), replaced_};
    } else {
      destroy_held(std::exchange(current_, {}));
    }
  }
  template <class F>
  bool is_inside() const noexcept {
    return sizeof(F) <= inline_size && alignof(F) <= alignof(void*) && !is_taken_;
  }
  void destroy_held(held what) const noexcept {
    if (what.target == nullptr) return;
    const bool is_block = what.target != storage_;
    what.destroy(what.target, is_block);
    if (!is_block) is_taken_ = false;
  }
  [[gnu::noinline]] void destroy_replaced() const noexcept {
    while (replaced* const r = replaced_) {
      replaced_ = r->before;
      destroy_held(r->what);
      async::detail::free_block(r, sizeof(replaced));
    }
  }

  held current_;
  mutable async::detail::atomic<std::uint32_t> calls_{0};
  mutable bool is_taken_ = false;         // storage_
  mutable replaced* replaced_ = nullptr;  // newest first
  alignas(void*) std::byte storage_[inline_size];
};

}  // namespace steps::inline v0_1::detail
