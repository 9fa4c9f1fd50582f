// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for constructible_from
#include <cstddef>      // for byte, nullptr_t, size_t
#include <cstring>      // for memcpy, memset
#include <memory>       // for addressof, destroy_at
#include <type_traits>  // for decay_t
#include <utility>      // for forward, exchange, in_place_type_t

#include "async/detail/base/block_cache.hpp"  // for allocate_block, free_block
#include "async/detail/base/invoke.hpp"       // for invoke_and_drop, throw_bad_function_call

namespace async::inline v0_1 {

class task;

namespace detail {
/// Bytes of captures that fit inside a task.
inline constexpr std::size_t task_room = 48;
/// Whether a task keeps a callable inside itself.
template <class F>
inline constexpr bool fits_in_task =
    sizeof(F) <= task_room && alignof(F) <= alignof(void*) && std::is_nothrow_move_constructible_v<F>;

/// Calls f(), as an rvalue if it cannot be called otherwise. Discards the result.
template <class F>
void call_once(F& f) {
  if constexpr (std::invocable<F&>) {
    detail::invoke_and_drop(f);
  } else {
    detail::invoke_and_drop(std::move(f));
  }
}
}  // namespace detail

/// A callable that a task can be made from: it can be moved or copied in and called without arguments. The result is
/// discarded.
template <class F>
concept task_function =
    !std::same_as<std::remove_cvref_t<F>, task> &&
    // checked before constructible_from: that of an F made from a task would ask for this concept again
    (std::invocable<std::decay_t<F>&> || std::invocable<std::decay_t<F>>) &&
    std::constructible_from<std::decay_t<F>, F> && std::move_constructible<std::decay_t<F>>;

/// A move-only callable `void()` of 56 bytes that stores small callables inside itself.
///
/// Use it to hand work to a pool or a loop. Do not use it where the callable must be copied (std::function).
///
/// Memory      captures of up to inline_size bytes are stored inline, if their alignment is at most a pointer's and
///             their move does not throw. Others take one recycled block (see detail::block_cache).
/// Threads     one thread at a time, like a plain object.
/// Exceptions  construction: what the callable's constructor throws, and std::bad_alloc if it needs a block. A call:
///             what the callable throws. Moves and destruction never throw.
class task {
 public:
  /// Bytes of captures that are stored without a block.
  static constexpr std::size_t inline_size = detail::task_room;

  /// Makes an empty task.
  task() noexcept = default;
  /// Makes an empty task.
  task(std::nullptr_t) noexcept {}  // NOLINT: implicit like std::function

  /// Moves or copies `f` in. A null function pointer makes an empty task.
  template <task_function F>
  task(F&& f) {  // NOLINT: implicit like std::function
    using callable = std::decay_t<F>;
    if constexpr (std::is_pointer_v<callable> || std::is_member_pointer_v<callable>) {
      if (f == nullptr) return;
    }
    hold<callable>(std::forward<F>(f));
  }
  /// Makes a callable of type F from `arguments`, in its place: without a move.
  template <class F, class... A>
    requires(std::constructible_from<F, A...> && (std::invocable<F&> || std::invocable<F>))
  explicit task(std::in_place_type_t<F>, A&&... arguments) {
    hold<F>(std::forward<A>(arguments)...);
  }

  task(task&& other) noexcept { take(other); }
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      const task old(std::move(*this));  // destroyed last: its callable may own `other`
      take(other);
    }
    return *this;
  }
  task(const task&) = delete;
  task& operator=(const task&) = delete;
  ~task() { reset(); }

  /// Calls the callable, which stays in the task until the task is moved from, reset or destroyed. A callable that can
  /// only be called as an rvalue is called as one. Throws std::bad_function_call if the task is empty.
  void operator()() {
    if (operations_ == nullptr) detail::throw_bad_function_call();
    operations_->run(storage_);
  }

  /// True when there is a callable.
  explicit operator bool() const noexcept { return operations_ != nullptr; }
  /// True when there is none.
  friend bool operator==(const task& t, std::nullptr_t) noexcept { return t.operations_ == nullptr; }

  /// Destroys the callable and its captures.
  void reset() noexcept {
    const operations* const old = std::exchange(operations_, nullptr);
    if (old != nullptr && old->destroy != nullptr) old->destroy(storage_);
  }

 private:
  struct operations {
    void (*run)(std::byte* storage);
    void (*relocate)(std::byte* from, std::byte* to) noexcept;  // null: copy the bytes
    void (*destroy)(std::byte* storage) noexcept;               // null: nothing to do
  };

  template <class F>
  struct block_owner {
    void* block;
    ~block_owner() {
      if (block != nullptr) detail::free_block(block, sizeof(F), alignof(F));
    }
  };

  template <class F, class... A>
  void hold(A&&... arguments) {
    if constexpr (detail::fits_in_task<F>) {
      if constexpr (std::is_trivially_copyable_v<F> && sizeof(F) < inline_size) {
        std::memset(storage_, 0, inline_size);  // a move copies all of it; compilers warn of unwritten bytes
      }
      ::new (static_cast<void*>(storage_)) F(std::forward<A>(arguments)...);
      operations_ = &inline_operations<F>;
    } else {
      void* const block = detail::allocate_block(sizeof(F), alignof(F));
      block_owner<F> owner{block};
      ::new (block) F(std::forward<A>(arguments)...);
      owner.block = nullptr;
      std::memcpy(storage_, &block, sizeof block);
      operations_ = &block_operations<F>;
    }
  }

  template <class F>
  static F& stored_inline(std::byte* storage) noexcept {
    return *std::launder(reinterpret_cast<F*>(storage));
  }
  template <class F>
  static F& stored_in_block(std::byte* storage) noexcept {
    void* block;
    std::memcpy(&block, storage, sizeof block);
    return *static_cast<F*>(block);
  }

  template <class F>
  static constexpr operations inline_operations{
      [](std::byte* storage) { detail::call_once(stored_inline<F>(storage)); },
      std::is_trivially_copyable_v<F> ? nullptr
                                      : +[](std::byte* from, std::byte* to) noexcept {
                                          F& f = stored_inline<F>(from);
                                          ::new (static_cast<void*>(to)) F(std::move(f));
                                          std::destroy_at(std::addressof(f));
                                        },
      std::is_trivially_destructible_v<F>
          ? nullptr
          : +[](std::byte* storage) noexcept { std::destroy_at(std::addressof(stored_inline<F>(storage))); }};

  template <class F>
  static constexpr operations block_operations{
      [](std::byte* storage) { detail::call_once(stored_in_block<F>(storage)); }, nullptr,
      [](std::byte* storage) noexcept {
        F& f = stored_in_block<F>(storage);
        std::destroy_at(std::addressof(f));
        detail::free_block(std::addressof(f), sizeof(F), alignof(F));
      }};

  void take(task& other) noexcept {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ == nullptr) return;
    if (operations_->relocate == nullptr) {
      std::memcpy(storage_, other.storage_, inline_size);
    } else {
      operations_->relocate(other.storage_, storage_);
    }
  }

  const operations* operations_ = nullptr;
  alignas(void*) std::byte storage_[inline_size];
};

}  // namespace async::inline v0_1
