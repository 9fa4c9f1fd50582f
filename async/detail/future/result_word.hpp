// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uintptr_t
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"    // for atomic, cell, under_model
#include "async/detail/base/backoff.hpp"    // for backoff
#include "async/detail/base/config.hpp"     // for ASYNCSTEPS_FUNCTION, ASYNCSTEPS_SHARED
#include "async/detail/base/held_back.hpp"  // for held_back

namespace async::inline v0_1::detail {

/// An action to take when a result is ready: wakes a thread, runs a continuation, resumes a coroutine. run(c) is called
/// once, by the thread that makes the result ready, unless the action has been removed before. It may free `c`. It
/// returns further actions, those of a result that it has made ready itself; so a chain of results needs no recursion.
struct alignas(8) continuation {
  explicit continuation(continuation* (*f)(continuation&) noexcept) noexcept : run(f) {}
  continuation(const continuation&) = delete;
  continuation& operator=(const continuation&) = delete;

  continuation* (*run)(continuation&) noexcept;
  cell<continuation*> next{nullptr};   // of the list that it is in
  cell<continuation*> ahead{nullptr};  // the other way, of the first one itself; null: not linked back yet
};

/// A list of actions that this thread runs. What they call may destroy a coroutine whose action is still in the list.
struct action_walk {
  continuation* left;
  action_walk* outer;
};
ASYNCSTEPS_SHARED inline constinit thread_local action_walk* action_walks = nullptr;

/// What `held_back` refers to.
struct held_actions {
  action_walk functions;         // of then(), coroutines and the like; the newest first, as the others
  continuation* ends = nullptr;  // of members of groups, which come before these
};

/// To be called by an action that calls a user's function. True: it is called again later.
inline bool is_held_back(continuation& c) noexcept {
  if constexpr (under_model) {
    return false;
  } else {
    if (held_back == nullptr) [[likely]]
      return false;
    c.next.set(std::exchange(held_back->functions.left, &c));
    return true;
  }
}
/// The same for the end of a member of a group, for which functions of then() may wait.
inline bool is_end_held_back(continuation& c) noexcept {
  if (held_back == nullptr) [[likely]]
    return false;
  c.next.set(std::exchange(held_back->ends, &c));
  return true;
}

/// Runs a list of actions, and those that they return: in each list first those that call no function of users.
void run_several(continuation* list) noexcept;
inline void run_all(continuation* list) noexcept {
  while (list != nullptr) {
    if (list->next.get() != nullptr) [[unlikely]]
      return run_several(list);
    list = list->run(*list);
  }
}

/// Takes an action that is going to be destroyed out of the lists that this thread runs.
void forget_action(const continuation& c) noexcept;

#if ASYNCSTEPS_DEFINED
/// Puts a list before another one, in the other order.
inline void prepend(continuation* list, continuation*& to) noexcept {
  while (list != nullptr) {
    continuation* const rest = list->next.get();
    list->next.set(to);
    to = std::exchange(list, rest);
  }
}

/// Runs the actions that call no function of users, and those that they return. Puts the others before the list `to`;
/// functions of those that an action has returned in the other order.
ASYNCSTEPS_FUNCTION void run_brief_ones(continuation* list, continuation*& to, bool are_returned) noexcept {
  action_walk rest{list, action_walks};
  held_actions held{{nullptr, &rest}};
  action_walks = &held.functions;
  held_actions* const outer = std::exchange(held_back, &held);
  while (rest.left != nullptr) {
    continuation& first = *rest.left;
    rest.left = first.next.get();
    prepend(first.run(first), rest.left);
  }
  held_back = outer;
  action_walks = rest.outer;
  continuation* functions = held.functions.left;
  if (are_returned) prepend(std::exchange(functions, nullptr), functions);
  prepend(functions, to);
  prepend(held.ends, to);
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void run_several(continuation* list) noexcept {
  action_walk here{nullptr, nullptr};
  if constexpr (under_model) {
    here.left = list;
  } else {
    run_brief_ones(list, here.left, false);
    here.outer = std::exchange(action_walks, &here);
  }
  while (here.left != nullptr) {
    continuation& first = *here.left;
    here.left = first.next.get();
    continuation* const more = first.run(first);
    if (under_model || more == nullptr || more->next.get() == nullptr) {
      prepend(more, here.left);
    } else {
      run_brief_ones(more, here.left, true);
    }
  }
  if constexpr (!under_model) action_walks = here.outer;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void forget_action(const continuation& c) noexcept {
  for (action_walk* walk = action_walks; walk != nullptr; walk = walk->outer) {
    continuation* before = nullptr;
    for (continuation* at = walk->left; at != nullptr; before = std::exchange(at, at->next.get())) {
      if (at != &c) continue;
      if (before == nullptr) {
        walk->left = at->next.get();
      } else {
        before->next.set(at->next.get());
      }
      return;
    }
  }
}
#endif

/// The state of a result: one word, [ first action | locked | ready | taken ].
///
/// | transition | from | to | by |
/// |---|---|---|---|
/// | take | not taken | taken | the thread that makes the result: runs the call, sets the promise, or cancels |
/// | give_back | taken | not taken | the same thread, when the constructor of a value has thrown |
/// | publish | taken, not locked | ready, no actions | the same thread; it runs the actions |
/// | add | not ready, not locked | one action more | a thread that waits or continues |
/// | remove | not ready, not locked | locked, then one action less | a thread that stops waiting |
///
/// Threads     any.
/// Progress    take(), give_back() and is_ready() are wait-free. The others are lock-free except while a remove() has
///             the list of actions, for which they wait. A remove() takes constant time, plus some for each action that
///             was added since the last one.
class result_word {
 public:
  /// True: the caller makes the result, and calls publish() or give_back().
  bool take() noexcept {
    // [K1] acquire, pairs with [K2] and [K30]: a value that was constructed in part has been destroyed, and who has
    // found the word free is seen
    return (word_.fetch_or(taken, std::memory_order_acquire) & taken) == 0;
  }
  void give_back() noexcept {
    word_.fetch_and(~taken, std::memory_order_release);  // [K2] release, pairs with [K1]
  }
  /// Whether it is not taken yet. True: who takes it later sees what this thread has done before.
  bool is_free() noexcept {
    // [K30] release, pairs with [K1]; a change, so that a take comes before or after it. Not modelled: without a branch
    return (word_.fetch_or(0, std::memory_order_release) & taken) == 0;
  }
  bool is_taken() const noexcept { return (word_.load(std::memory_order_relaxed) & taken) != 0; }  // relaxed: a hint
  bool is_ready() const noexcept {
    return (word_.load(std::memory_order_acquire) & ready) != 0;  // [K3] acquire, pairs with [K4]
  }

  /// Makes the result ready. Returns the actions that wait for it, for run_all().
  [[gnu::always_inline]] continuation* publish() noexcept {
    std::uintptr_t word = taken;
    backoff pause;
    // [K4] acq_rel, pairs with [K3], [K5], [K7] and itself: publishes the result, and the actions are complete
    while (!word_.compare_exchange_weak(word, taken | ready, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      pass_lock(word, pause);
    }
    return first_of(word);
  }

  /// False: the result is ready, and the action has not been added.
  [[gnu::always_inline]] bool add(continuation& c) noexcept {
    std::uintptr_t word = word_.load(std::memory_order_acquire);  // [K3]
    backoff pause;
    do {
      pass_lock(word, pause);
      if ((word & ready) != 0) return false;
      c.next.set(first_of(word));
      c.ahead.set(nullptr);
      // [K5] release, pairs with [K4] and [K6]: publishes the action. Acquire on failure, pairs with [K4]: as [K3]
    } while (!word_.compare_exchange_weak(word, (word & flags) | reinterpret_cast<std::uintptr_t>(&c),
                                          std::memory_order_release, std::memory_order_acquire));
    return true;
  }

  /// True: the action was in the list, and will not be run.
  bool remove(continuation& c) noexcept {
    std::uintptr_t word = word_.load(std::memory_order_relaxed);  // relaxed: the exchange below orders
    backoff pause;
    do {
      pass_lock(word, pause);
      if ((word & ready) != 0) return false;
      // [K6] acquire, pairs with [K5] and [K7]: the actions are complete, and so is the list
    } while (!word_.compare_exchange_weak(word, word | locked, std::memory_order_acquire, std::memory_order_relaxed));
    continuation* const first = first_of(word);
    link_back(first);
    continuation* const ahead = c.ahead.get();
    std::uintptr_t change = locked;
    if (ahead != nullptr) {
      continuation* const behind = c.next.get();
      if (ahead == &c) {
        change |= reinterpret_cast<std::uintptr_t>(first) ^ reinterpret_cast<std::uintptr_t>(behind);
      } else {
        ahead->next.set(behind);
      }
      if (behind != nullptr) behind->ahead.set(ahead == &c ? behind : ahead);
      c.ahead.set(nullptr);
    }
    word_.fetch_xor(change, std::memory_order_release);  // [K7] release, pairs with [K6] and [K4]: the list
    return ahead != nullptr;
  }

 private:
  static constexpr std::uintptr_t taken = 1;
  static constexpr std::uintptr_t ready = 2;
  static constexpr std::uintptr_t locked = 4;
  static constexpr std::uintptr_t flags = taken | ready | locked;

  static continuation* first_of(std::uintptr_t word) noexcept { return reinterpret_cast<continuation*>(word & ~flags); }

  /// Links back the actions that were added since the last remove(), which are in front of the others. Under the lock.
  static void link_back(continuation* first) noexcept {
    continuation* ahead = first;
    for (continuation* c = first; c != nullptr; ahead = std::exchange(c, c->next.get())) {
      const bool is_linked = c->ahead.get() != nullptr;
      c->ahead.set(ahead);
      if (is_linked) return;
    }
  }

  void pass_lock(std::uintptr_t& word, backoff& pause) const noexcept {
    for (; (word & locked) != 0; word = word_.load(std::memory_order_acquire)) pause.wait();  // [K3]
  }

  atomic<std::uintptr_t> word_{0};
};

}  // namespace async::inline v0_1::detail
