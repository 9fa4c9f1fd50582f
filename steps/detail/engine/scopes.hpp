// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for byte, size_t
#include <cstdint>      // for uintptr_t
#include <memory>       // for addressof, destroy_at
#include <type_traits>  // for is_invocable_v
#include <utility>      // for forward

#include "async/detail/base/invoke.hpp"  // for invoke_and_drop
#include "steps/detail/flow/arena.hpp"   // for allocate_record

/// Objects that end with their step, and how they are made. ending.hpp leaves them.
namespace steps::inline v0_1::detail {

/// Puts a scope, whose payload has been constructed, into the chain.
inline void enter_scope(flow& f, scope& s, std::size_t size, step& owner, const scope_ops& ops) noexcept {
  s.size_ = static_cast<std::uint32_t>(size);
  s.flags_ = 0;
  s.extra_ = 0;
  s.outer = f.scopes;
  s.holder = &owner;
  s.ops = &ops;
  f.scopes = &s;
}

/// A new scope of type T for a step. The payload's constructor may be a user's. When it makes scopes and steps and then
/// throws, they stay.
template <class T, class... Args>
T& make_scope(flow& f, step& owner, Args&&... args) {
  constexpr std::size_t size = round_up(sizeof(T), granule);
  std::byte* const before = f.top;
  void* const memory = allocate_record<T>(f);
  T* made;
  try {
    made = ::new (memory) T(std::forward<Args>(args)...);
  } catch (...) {
    release_record(f, memory, size, before);
    throw;
  }
  detail::enter_scope(f, *made, size, owner, T::ops);
  return *made;
}

/// A cancel handler; Face is IAsyncSteps.
template <class Face, class F>
struct cancel_scope : scope {
  template <class G>
  explicit cancel_scope(G&& g) : function(std::forward<G>(g)) {}

  static void call(scope& self) {
    F& f = static_cast<cancel_scope&>(self).function;
    if constexpr (std::is_invocable_v<F&, Face&>) {
      async::detail::invoke_and_drop(f, static_cast<Face&>(*self.holder));
    } else {
      async::detail::invoke_and_drop(f);
    }
  }
  static void left(scope& self) noexcept {
    flow& f = *self.holder->flow_;
    if (f.limit != nullptr) ++f.limit->cancels;
    std::destroy_at(std::addressof(static_cast<cancel_scope&>(self).function));
  }
  static constexpr scope_ops ops{scope_ops::kind::cancel, &call, &left};

  F function;
};

/// Whether an object of stack<T>() is the coroutine of its step.
template <class T>
inline constexpr bool is_coroutine = false;

/// An object of stack<T>().
template <class T>
struct object_scope : scope {
  template <class... Args>
  explicit object_scope(Args&&... args) : object(std::forward<Args>(args)...) {}

  static void left(scope& self) noexcept {
    flow& f = *self.holder->flow_;
    if (f.limit != nullptr) ++f.limit->stack_allocs;
    std::destroy_at(std::addressof(static_cast<object_scope&>(self).object));
  }
  static constexpr scope_ops ops{is_coroutine<T> ? scope_ops::kind::coroutine : scope_ops::kind::lasting, nullptr,
                                 &left};

  T object;
};

/// The scope of stack(size, destroy), in front of the memory.
struct memory_scope : scope {
  explicit memory_scope(void (*d)(void*)) noexcept : destroy(d) {}

  static constexpr std::size_t bytes_for(std::size_t size) noexcept {
    return round_up(sizeof(memory_scope) + size + alignof(std::max_align_t) - granule, granule);
  }
  void* memory() noexcept {
    return reinterpret_cast<void*>(round_up(reinterpret_cast<std::uintptr_t>(this + 1), alignof(std::max_align_t)));
  }
  static void left(scope& self) noexcept {
    flow& f = *self.holder->flow_;
    if (f.limit != nullptr) ++f.limit->stack_allocs;
    auto& s = static_cast<memory_scope&>(self);
    if (s.destroy != nullptr) s.destroy(s.memory());
  }
  static constexpr scope_ops ops{scope_ops::kind::lasting, nullptr, &left};

  void (*destroy)(void*);
};

}  // namespace steps::inline v0_1::detail
