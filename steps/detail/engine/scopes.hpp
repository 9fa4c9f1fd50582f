// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for byte, size_t
#include <cstdint>      // for uintptr_t
#include <memory>       // for destroy_at
#include <type_traits>  // for is_invocable_v
#include <utility>      // for forward

#include "steps/detail/flow/arena.hpp"    // for allocate_record
#include "steps/detail/flow/pending.hpp"  // for report_exception

/// What ends with a step: entering, leaving and cancelling scopes.
namespace steps::detail {

/// Puts a scope into the chain; its payload is constructed already.
inline void enter_scope(flow& f, scope& s, std::size_t size, step& owner, const scope_ops& ops) noexcept {
  s.size_ = static_cast<std::uint32_t>(size);
  s.flags_ = 0;
  s.extra_ = 0;
  s.outer = f.scopes;
  s.holder = &owner;
  s.ops = &ops;
  f.scopes = &s;
}

/// A new scope of type T for a step. The payload's constructor is a user's function: it may make scopes and steps, and
/// throw then; they stay.
template <class T, class... Args>
T& make_scope(flow& f, step& owner, Args&&... args) {
  constexpr std::size_t size = round_up(sizeof(T), granule);
  std::byte* const before = f.top;
  void* const memory = allocate_record<T>(f);
  T* made;
  try {
    made = ::new (memory) T(std::forward<Args>(args)...);
  } catch (...) {
    take_back_record(f, memory, size, before);
    throw;
  }
  enter_scope(f, *made, size, owner, T::ops);
  return *made;
}

/// Leaves all scopes of a step that has ended.
inline void leave_scopes(flow& f, const step& owner) noexcept {
  while (f.scopes != nullptr && f.scopes->holder == &owner) {
    scope& s = *f.scopes;
    f.scopes = s.outer;
    if (s.ops != nullptr) s.ops->leave(s);
  }
}

/// Disarms the timers of a step in error or cancelled, then calls its cancel handlers, newest first. Errors of the
/// handlers are reported. Other scopes stay.
[[gnu::noinline]] inline void cancel_scopes(flow& f, const step& owner, scope* newest) noexcept {
  for (scope* s = newest; s != nullptr && s->holder == &owner; s = s->outer) {
    if (s->ops != nullptr && s->ops->what == scope_ops::kind::leave_first) std::exchange(s->ops, nullptr)->leave(*s);
  }
  for (scope* s = newest; s != nullptr && s->holder == &owner; s = s->outer) {
    if (s->ops == nullptr || s->ops->what != scope_ops::kind::cancel) continue;
    const scope_ops* const ops = std::exchange(s->ops, nullptr);
    try {
      ops->cancel(*s);
    } catch (...) {
      report_exception(f, true);
    }
    ops->leave(*s);
  }
}
/// The same for the innermost step.
inline void cancel_scopes(flow& f, const step& owner) noexcept { cancel_scopes(f, owner, f.scopes); }

/// A cancel handler; Face is IAsyncSteps.
template <class Face, class F>
struct cancel_scope : scope {
  template <class G>
  explicit cancel_scope(G&& g) : function(std::forward<G>(g)) {}

  static void call(scope& self) {
    F& f = static_cast<cancel_scope&>(self).function;
    if constexpr (std::is_invocable_v<F&, Face&>) {
      f(static_cast<Face&>(*self.holder));
    } else {
      f();
    }
  }
  static void left(scope& self) noexcept {
    flow& f = *self.holder->flow_;
    if (f.limit != nullptr) ++f.limit->cancels;
    std::destroy_at(&static_cast<cancel_scope&>(self).function);
  }
  static constexpr scope_ops ops{scope_ops::kind::cancel, &call, &left};

  F function;
};

/// An object of stack<T>().
template <class T>
struct object_scope : scope {
  template <class... Args>
  explicit object_scope(Args&&... args) : object(std::forward<Args>(args)...) {}

  static void left(scope& self) noexcept {
    flow& f = *self.holder->flow_;
    if (f.limit != nullptr) ++f.limit->stack_allocs;
    std::destroy_at(&static_cast<object_scope&>(self).object);
  }
  static constexpr scope_ops ops{scope_ops::kind::lasting, nullptr, &left};

  T object;
};

/// Memory of stack(size, destroy), which lies behind it.
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

}  // namespace steps::detail
