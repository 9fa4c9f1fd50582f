// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::detail {

/// How far the second of two calls is, see stack_job: between the thread that has forked it and waits for it, and the
/// thief that makes it. Lies on the stack of the first, who may go on as soon as result() is not `open`.
///
/// Threads     begin() and finish(): the thief; scope(): any, while one waits; the others: the thread that waits.
/// Progress    wait-free.
template <class Scope>
class fork_state {
 public:
  enum class outcome : std::uint32_t { open, made, skipped, failed };

  /// The thief has given it this scope. False: it is not wanted any more.
  bool begin(Scope& s) noexcept {
    scope_.store(&s, std::memory_order_seq_cst);           // [J5] seq_cst, pairs with [J4] and [J7]
    return !is_unwanted_.load(std::memory_order_seq_cst);  // [J6] seq_cst, pairs with [J3]
  }
  /// Nothing of this is touched after it.
  void finish(outcome o) noexcept { outcome_.store(o, std::memory_order_release); }  // [J2] release, pairs with [J1]

  /// The outcome. Unless it is `open`, the effects of the call are visible.
  outcome result() const noexcept { return outcome_.load(std::memory_order_acquire); }  // [J1] acquire, pairs with [J2]

  /// It is not wanted any more: begin() tells so, or the scope is returned, to be cancelled.
  Scope* cancel() noexcept {
    // [J3] seq_cst, pairs with [J6]: either the thief sees this, or [J4] sees its scope
    is_unwanted_.store(true, std::memory_order_seq_cst);
    return scope_.load(std::memory_order_seq_cst);  // [J4] seq_cst, pairs with [J5]
  }

  /// The scope of what it makes; null: it has not begun.
  Scope* scope() const noexcept { return scope_.load(std::memory_order_acquire); }  // [J7] acquire, pairs with [J5]

 private:
  atomic<Scope*> scope_{nullptr};
  atomic<outcome> outcome_{outcome::open};
  atomic<bool> is_unwanted_{false};
};

}  // namespace async::detail
