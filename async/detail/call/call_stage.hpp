// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::detail {

/// How far a call is that waits in a pool, and who still refers to it: the pool's queue, and the future's shared state.
///
/// Stage       queued -> taken -> done; who takes it makes the call.
/// Threads     any.
/// Progress    wait-free.
template <class Scope>
class call_stage {
 public:
  /// The pool has a reference, too; before it can be seen there.
  void hand_in() noexcept { references_.store(2, std::memory_order_relaxed); }  // relaxed: published with the entry

  /// True: the call is the caller's to make.
  bool take() noexcept {
    stage expected = stage::queued;
    // relaxed: what is taken was published with the entry, or with its future
    return stage_.compare_exchange_strong(expected, stage::taken, std::memory_order_relaxed, std::memory_order_relaxed);
  }
  bool is_queued() const noexcept {
    return stage_.load(std::memory_order_relaxed) == stage::queued;  // relaxed: a hint
  }

  /// The call gets this scope, for those who wait to know what it makes.
  void begin(Scope& s) noexcept { scope_.store(&s, std::memory_order_release); }  // [C4] release, pairs with [C5]
  /// Null: it has not begun, or could not get one.
  Scope* scope() const noexcept { return scope_.load(std::memory_order_acquire); }  // [C5] acquire, pairs with [C4]

  /// The call has ended: returns its scope, if it has one, which is the caller's again. A waiting thread that has taken
  /// a task by that scope asks for it once more.
  Scope* end() noexcept {
    Scope* const s = scope_.load(std::memory_order_relaxed);  // relaxed: own
    // relaxed: a task of the construct that uses the scope next brings this with it
    if (s != nullptr) scope_.store(nullptr, std::memory_order_relaxed);
    return s;
  }
  /// The call is made, and the future is ready.
  void finish() noexcept { stage_.store(stage::done, std::memory_order_release); }  // [C2] release, pairs with [C1]
  bool is_done() const noexcept {
    return stage_.load(std::memory_order_acquire) == stage::done;  // [C1] acquire, pairs with [C2]
  }

  /// True: it was the last reference, and what all others have done can be seen.
  bool release() noexcept {
    // [C3] acq_rel, pairs with itself
    return references_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

 private:
  enum class stage : std::uint32_t { queued, taken, done };
  atomic<stage> stage_{stage::queued};
  atomic<std::uint32_t> references_{1};  // the shared state's
  atomic<Scope*> scope_{nullptr};
};

}  // namespace async::detail
