// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t, uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::detail {

/// Identity of a construct that joins its tasks: a task_group, a parallel_invoke or a loop. It knows the scope of the
/// task in which the construct was made, and whether the construct is cancelled.
///
/// Tasks carry the address of their scope, so that a waiting thread can tell the tasks it may run, those of its own
/// construct and of constructs inside it, from all others. A thief asks before it owns the task. So the memory of a
/// scope is recycled and never freed: a look at a scope that has ended is harmless, and its answer does not count,
/// because the task cannot be taken any more.
///
/// Cancellation: cancel() marks one scope and moves the process's epoch. A scope remembers the epoch in which it and
/// all around it were found not cancelled. So is_cancelled() reads two words while nobody cancels anything, and walks
/// up the chain once after somebody has.
///
/// Word        state_: [ epoch : 63 | cancelled : 1 ]
/// Threads     begin() and end() by one thread at a time; everything else by any.
/// Progress    wait-free, but for the allocation of scopes, which takes a mutex once in 64 calls.
template <class Epoch>
class basic_task_scope {
 public:
  basic_task_scope() = default;
  basic_task_scope(const basic_task_scope&) = delete;
  basic_task_scope& operator=(const basic_task_scope&) = delete;

  /// The scope is that of a new construct, made in a task of `outer`; null: in no such task.
  void begin(basic_task_scope* outer) noexcept {
    std::uint64_t state = 0;  // no epoch: the first look walks up
    if (outer == nullptr) {
      state = Epoch::now.load(std::memory_order_relaxed);  // relaxed: an older one only makes the first look longer
    } else {
      const std::uint64_t of_outer = outer->state_.load(std::memory_order_relaxed);  // relaxed: likewise
      if ((of_outer & cancelled) == 0) state = of_outer;
      const std::uint32_t generation = outer->generation_.load(std::memory_order_relaxed);  // relaxed: `outer` lives
      // [N5] release, pairs with [N7]: what has ended in this scope is seen as such by who sees this
      outer_generation_.store(generation, std::memory_order_release);
    }
    outer_.store(outer, std::memory_order_release);  // [N6] release, pairs with [N8]: likewise
    state_.store(state, std::memory_order_relaxed);  // relaxed: published with the construct's first task
  }
  /// The construct has ended.
  void end() noexcept {
    // relaxed: one writer. Scopes inside that outlive this one take it for gone
    generation_.store(generation_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Cancels the construct and all that are made in its tasks.
  void cancel() noexcept {
    // [N1] release, pairs with [N3]: a recycled scope's new generation is seen with its flag
    state_.fetch_or(cancelled, std::memory_order_release);
    Epoch::now.fetch_add(one_epoch, std::memory_order_release);  // [N2] release, pairs with [N4]: publishes the flag
  }
  /// The construct is as new.
  void clear() noexcept { state_.fetch_and(~cancelled, std::memory_order_relaxed); }  // relaxed: nothing is published

  /// True: it is cancelled, or a construct around it is.
  bool is_cancelled() noexcept {
    const std::uint64_t state = state_.load(std::memory_order_relaxed);  // relaxed: the epoch orders what counts
    if ((state & cancelled) != 0) return true;
    const std::uint64_t now = Epoch::now.load(std::memory_order_acquire);  // [N4] acquire, pairs with [N2]
    return state != now && look_up(state, now);
  }

  /// Whether `task` is the scope of a task of this construct or of one inside it. Any thread, with any address that was
  /// ever a scope's; if that scope has ended, the answer means nothing.
  bool contains(const basic_task_scope* task) const noexcept {
    if (task == nullptr) return false;
    construct c = task->own();
    for (unsigned steps = 0; c.scope != nullptr && steps != most_steps; ++steps) {
      if (c.scope == this) return own().generation == c.generation;
      c = around(c);
    }
    return false;
  }

  basic_task_scope* next_free = nullptr;  // belongs to the list of free scopes that this one is in

 private:
  static constexpr std::uint64_t cancelled = 1;
  static constexpr std::uint64_t one_epoch = 2;
  static constexpr unsigned most_steps = 1024;  // beyond: a thread does not help so far down, and others do

  /// A scope, and which of the constructs that have used it.
  struct construct {
    const basic_task_scope* scope;
    std::uint32_t generation;
  };
  construct own() const noexcept { return {this, generation_.load(std::memory_order_relaxed)}; }  // relaxed: one's own

  /// The construct around `inner`, which may have ended; none when `inner` has.
  static construct around(construct inner) noexcept {
    const basic_task_scope& s = *inner.scope;
    // [N7] acquire, pairs with [N5]: what was read here is not newer than the generation below
    const std::uint32_t generation = s.outer_generation_.load(std::memory_order_acquire);
    const basic_task_scope* const outer = s.outer_.load(std::memory_order_acquire);  // [N8] acquire, pairs with [N6]
    // relaxed: ordered by [N7] and [N8]. Another one: what was read may belong to a construct that came later
    if (s.generation_.load(std::memory_order_relaxed) != inner.generation) return {nullptr, 0};
    return {outer, generation};
  }

  [[gnu::noinline]] bool look_up(std::uint64_t state, std::uint64_t now) noexcept {
    for (construct c = around(own()); c.scope != nullptr; c = around(c)) {
      const std::uint64_t seen = c.scope->state_.load(std::memory_order_acquire);  // [N3] acquire, pairs with [N1]
      // relaxed: ordered by [N3]. Another one: the construct has ended before this one
      if (c.scope->generation_.load(std::memory_order_relaxed) != c.generation) break;
      if ((seen & cancelled) != 0) return true;
      if (seen == now) break;
    }
    // relaxed: a note; a cancel() that came in between makes it fail
    return !state_.compare_exchange_strong(state, now, std::memory_order_relaxed, std::memory_order_relaxed) &&
           (state & cancelled) != 0;
  }

  atomic<std::uint64_t> state_{0};
  atomic<basic_task_scope*> outer_{nullptr};
  atomic<std::uint32_t> generation_{0};        // how many constructs have used this scope
  atomic<std::uint32_t> outer_generation_{0};  // that of outer_ when this scope began
};

}  // namespace async::detail
