// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// Progress of a call in a pool, and a count of the references to it: from the pool's queue, and from the future's
/// shared state.
///
/// Stage       queued -> taken -> done; the thread that takes it makes the call.
/// Threads     any.
/// Progress    wait-free.
template <class Scope>
class call_stage {
 public:
  /// Adds the pool's reference, before the pool can see the call.
  void hand_in() noexcept { references_.store(2, std::memory_order_relaxed); }  // relaxed: published with the entry

  /// True: the caller must make the call.
  bool take() noexcept {
    stage expected = stage::queued;
    // relaxed: what is taken was published with the entry, or with its future
    return stage_.compare_exchange_strong(expected, stage::taken, std::memory_order_relaxed, std::memory_order_relaxed);
  }
  bool is_queued() const noexcept {
    return stage_.load(std::memory_order_relaxed) == stage::queued;  // relaxed: a hint
  }

  /// Gives the call a scope, by which waiting threads recognise the tasks that it creates.
  void begin(Scope& s) noexcept { scope_.store(&s, std::memory_order_release); }  // [C4] release, pairs with [C5]
  /// Null: the call has not begun, or there was no memory for a scope.
  Scope* scope() const noexcept { return scope_.load(std::memory_order_acquire); }  // [C5] acquire, pairs with [C4]

  /// The call has ended: returns its scope, if it has one, to the caller. A waiting thread that has taken a task by
  /// that scope reads the scope once more.
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

  /// True: it was the last reference, and the effects of all other holders are visible.
  bool release() noexcept {
    // [C6] acquire, pairs with [C3]: none is added any more, so the last one needs no atomic change
    if (references_.load(std::memory_order_acquire) == 1) return true;
    // [C3] acq_rel, pairs with itself and with [C6]
    return references_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

 private:
  enum class stage : std::uint32_t { queued, taken, done };
  atomic<stage> stage_{stage::queued};
  atomic<std::uint32_t> references_{1};  // the shared state's
  atomic<Scope*> scope_{nullptr};
};

}  // namespace async::inline v0_1::detail
