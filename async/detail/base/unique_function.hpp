// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for invocable, constructible_from
#include <cstddef>      // for nullptr_t
#include <type_traits>  // for decay_t, invoke_result_t
#include <utility>      // for exchange, forward, swap

#include "async/detail/base/lazy_coroutine.hpp"  // for has_begun

namespace async::inline v0_1 {

/// A move-only callable; only unique_function<void(A...)> is defined.
template <class Signature>
class unique_function;

/// A move-only callable with arguments, for hooks that are set once and rarely called.
///
/// Threads     calls are const: as safe as the callable itself.
/// Exceptions  construction: std::bad_alloc and what the callable's constructor throws. A call: what the callable
///             throws.
/// Lifetime    owns the callable, on the heap.
template <class... A>
class unique_function<void(A...)> {
 public:
  unique_function() noexcept = default;
  unique_function(unique_function&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  unique_function& operator=(unique_function&& other) noexcept {
    unique_function old(std::move(other));
    std::swap(held_, old.held_);
    return *this;
  }
  ~unique_function() { delete held_; }
  /// Moves or copies `f` in. A null pointer, or an empty std::function, makes an empty one.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, unique_function> && std::invocable<std::decay_t<F>&, A...>)
  unique_function(F&& f) {  // NOLINT: implicit like std::function
    using callable = std::decay_t<F>;
    if constexpr (std::constructible_from<callable, std::nullptr_t> && requires { f == nullptr; }) {
      if (f == nullptr) return;
    }
    held_ = new holder<callable>(std::forward<F>(f));
  }

  /// Calls the callable, which must be there.
  void operator()(A... arguments) const { held_->call(std::forward<A>(arguments)...); }
  /// True when there is a callable.
  explicit operator bool() const noexcept { return held_ != nullptr; }

 private:
  struct base {
    base() = default;
    base(const base&) = delete;
    base& operator=(const base&) = delete;
    virtual ~base() = default;
    virtual void call(A... arguments) = 0;
  };
  template <class F>
  struct holder final : base {
    template <class G>
    explicit holder(G&& g) : f(std::forward<G>(g)) {}
    void call(A... arguments) override {
      static_assert(detail::has_begun<std::invoke_result_t<F&, A...>>());
      static_cast<void>(f(std::forward<A>(arguments)...));
    }
    F f;
  };
  base* held_ = nullptr;  // owned
};

}  // namespace async::inline v0_1
