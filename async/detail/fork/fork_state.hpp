// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// Progress of the second of two calls, see stack_job: shared by the thread that forks it and waits for it, and the
/// thief that makes it. Lies on the stack of the waiting thread, which may return as soon as result() is not `open`.
///
/// Threads     begin() and finish(): the thief; scope(): any, while one waits; the others: the waiting thread.
/// Progress    wait-free.
template <class Scope>
class fork_state {
 public:
  enum class outcome : std::uint32_t { open, made, skipped, failed };

  /// The thief gives the call this scope. False: the call was cancelled.
  bool begin(Scope& s) noexcept {
    scope_.store(&s, std::memory_order_seq_cst);           // [J5] seq_cst, pairs with [J4] and [J7]
    return !is_unwanted_.load(std::memory_order_seq_cst);  // [J6] seq_cst, pairs with [J3]
  }
  /// The object is not touched after it.
  void finish(outcome o) noexcept { outcome_.store(o, std::memory_order_release); }  // [J2] release, pairs with [J1]

  /// The outcome. Unless it is `open`, the effects of the call are visible.
  outcome result() const noexcept { return outcome_.load(std::memory_order_acquire); }  // [J1] acquire, pairs with [J2]

  /// Cancels the call: a later begin() returns false, or this returns the scope, which the caller cancels.
  Scope* cancel() noexcept {
    // [J3] seq_cst, pairs with [J6]: either the thief sees this, or [J4] sees its scope
    is_unwanted_.store(true, std::memory_order_seq_cst);
    return scope_.load(std::memory_order_seq_cst);  // [J4] seq_cst, pairs with [J5]
  }

  /// The scope of the tasks that it creates; null: it has not begun.
  Scope* scope() const noexcept { return scope_.load(std::memory_order_acquire); }  // [J7] acquire, pairs with [J5]

 private:
  atomic<Scope*> scope_{nullptr};
  atomic<outcome> outcome_{outcome::open};
  atomic<bool> is_unwanted_{false};
};

}  // namespace async::inline v0_1::detail
