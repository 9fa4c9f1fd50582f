// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t, uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// The epoch of a process in which nothing has been cancelled.
inline constexpr std::uint64_t first_epoch = 4;

/// The identity of a construct that joins its tasks: a task_group, a parallel_invoke or a loop. It knows the scope of
/// the task that has made the construct, and whether the construct is cancelled.
///
/// Tasks carry the address of their scope. So a waiting thread can tell the tasks that it may run, those of its own
/// construct and of constructs inside it, from all others. A thief asks before it owns the task. Therefore the memory
/// of a scope is recycled and never freed: a look at a scope that has ended is harmless. Its answer does not count,
/// because the task cannot be taken any more.
///
/// Cancellation: cancel() marks one scope and advances the process's epoch. A scope remembers the epoch in which it and
/// all scopes around it were found not cancelled. So is_cancelled() reads two words while nothing is cancelled, and
/// walks up the chain once after each cancellation.
///
/// Word        state_: [ epoch : 62 | asked : 1 | cancelled : 1 ]; asked: in this epoch, is_cancelled_or() has asked
///             its condition. The process's epoch has this bit from the first make_all_ask() on: before that there is
///             nothing to ask
/// Threads     begin() and end() by one thread at a time; everything else by any.
/// Progress    wait-free, except the allocation of scopes, which takes a mutex once in 64 calls.
template <class Epoch>
class basic_task_scope {
 public:
  basic_task_scope() = default;
  basic_task_scope(const basic_task_scope&) = delete;
  basic_task_scope& operator=(const basic_task_scope&) = delete;

  /// Makes it the scope of a new construct, which a task of `outer` has made. Null: no task with a scope.
  void begin(basic_task_scope* outer) noexcept {
    std::uint64_t state = 0;  // no epoch: the first look walks up
    if (outer == nullptr) {
      state = Epoch::now.load(std::memory_order_relaxed);  // relaxed: an old epoch only makes the first look longer
    } else {
      const std::uint64_t of_outer = outer->state_.load(std::memory_order_relaxed);  // relaxed: likewise
      if ((of_outer & cancelled) == 0) state = of_outer;
      const std::uint32_t generation = outer->generation_.load(std::memory_order_relaxed);  // relaxed: `outer` lives
      // [N5] release, pairs with [N7]: a thread that sees this also sees that earlier constructs of this scope have
      // ended
      outer_generation_.store(generation, std::memory_order_release);
    }
    outer_.store(outer, std::memory_order_release);           // [N6] release, pairs with [N8]: likewise
    state_.store(state & ~asked, std::memory_order_relaxed);  // relaxed: published with the construct's first task
  }
  /// To be called when the construct has ended.
  void end() noexcept {
    // relaxed: one writer. Inner scopes that outlive this one see that it has ended
    generation_.store(generation_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Cancels the construct and all constructs that its tasks make.
  void cancel() noexcept {
    // [N1] release, pairs with [N3]: the new generation of a recycled scope is seen together with its flag
    state_.fetch_or(cancelled, std::memory_order_release);
    make_all_look();
  }
  /// Makes each is_cancelled_or() ask its condition, also those of constructs that begin later. All that happened
  /// before is visible to it.
  static void make_all_ask() noexcept {
    Epoch::now.fetch_or(asked, std::memory_order_relaxed);  // relaxed: who sees this alone asks again in the next epoch
    make_all_look();
  }
  /// Takes the cancellation back.
  void clear() noexcept { state_.fetch_and(~cancelled, std::memory_order_relaxed); }  // relaxed: nothing is published

  /// Whether the construct, or one around it, is cancelled.
  bool is_cancelled() noexcept {
    return look(asked, []() noexcept { return false; });
  }
  /// The same, but also when also() is true, which is called from the first make_all_ask() on: once, and after each
  /// cancellation in the process, until it is true.
  template <class Also>
  bool is_cancelled_or(Also also) noexcept {
    return look(0, also);
  }

  /// Whether `task` is the scope of a task of this construct or of one inside it. By any thread, with any address that
  /// was ever a scope's. If that scope has ended, the answer means nothing.
  bool contains(const basic_task_scope* task) const noexcept {
    if (task == nullptr) return false;
    construct c = task->own();
    for (unsigned steps = 0; c.scope != nullptr && steps != most_steps; ++steps) {
      if (c.scope == this) return own().generation == c.generation;
      c = around(c);
    }
    return false;
  }

  basic_task_scope* next_free = nullptr;  // belongs to the list of free scopes

 private:
  static constexpr std::uint64_t cancelled = 1;
  static constexpr std::uint64_t asked = 2;
  static constexpr std::uint64_t one_epoch = first_epoch;
  static constexpr unsigned most_steps = 1024;  // deeper tasks are left to other threads

  /// A construct: a scope, and the generation that tells which of its users is meant.
  struct construct {
    const basic_task_scope* scope;
    std::uint32_t generation;
  };
  construct own() const noexcept { return {this, generation_.load(std::memory_order_relaxed)}; }  // relaxed: its own

  /// The construct around `inner`, which may have ended. None when `inner` has ended.
  static construct around(construct inner) noexcept {
    const basic_task_scope& s = *inner.scope;
    // [N7] acquire, pairs with [N5]: this value is not newer than the generation read below
    const std::uint32_t generation = s.outer_generation_.load(std::memory_order_acquire);
    const basic_task_scope* const outer = s.outer_.load(std::memory_order_acquire);  // [N8] acquire, pairs with [N6]
    // relaxed: ordered by [N7] and [N8]. Another generation: the values may belong to a later construct
    if (s.generation_.load(std::memory_order_relaxed) != inner.generation) return {nullptr, 0};
    return {outer, generation};
  }

  /// Makes each scope look again whether it is cancelled.
  static void make_all_look() noexcept {
    Epoch::now.fetch_add(one_epoch, std::memory_order_release);  // [N2] release, pairs with [N4]: publishes the flag
  }

  /// `mark`: asked, or 0. The epoch is noted without it; a note that has it or none is taken as it is.
  template <class Also>
  bool look(std::uint64_t mark, Also also) noexcept {
    const std::uint64_t state = state_.load(std::memory_order_relaxed);    // relaxed: the epoch orders what counts
    const std::uint64_t now = Epoch::now.load(std::memory_order_acquire);  // [N4] acquire, pairs with [N2]
    if (((state ^ now) & ~mark) == 0) return false;                        // noted, and not cancelled
    return (state & cancelled) != 0 || also() || look_up(state, now, now & ~mark);
  }
  /// `note`: the state to leave if nothing is cancelled.
  [[gnu::noinline]] bool look_up(std::uint64_t state, std::uint64_t now, std::uint64_t note) noexcept {
    for (construct c = around(own()); c.scope != nullptr; c = around(c)) {
      const std::uint64_t seen = c.scope->state_.load(std::memory_order_acquire);  // [N3] acquire, pairs with [N1]
      // relaxed: ordered by [N3]. Another generation: the construct has ended before this one
      if (c.scope->generation_.load(std::memory_order_relaxed) != c.generation) break;
      if ((seen & cancelled) != 0) return true;
      if (((seen ^ now) & ~asked) == 0) break;
    }
    // relaxed: a note; a cancel() in between makes the exchange fail
    return !state_.compare_exchange_strong(state, note, std::memory_order_relaxed, std::memory_order_relaxed) &&
           (state & cancelled) != 0;
  }

  atomic<std::uint64_t> state_{0};
  atomic<basic_task_scope*> outer_{nullptr};
  atomic<std::uint32_t> generation_{0};        // number of ended constructs that have used this scope
  atomic<std::uint32_t> outer_generation_{0};  // generation of outer_ when this scope began
};

}  // namespace async::inline v0_1::detail
