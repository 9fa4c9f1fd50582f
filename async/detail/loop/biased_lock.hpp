// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uintptr_t, uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic, light_fence, heavy_fence, yield_thread

namespace async::detail {

/// Says whose a loop is, and keeps all but one thread out of it.
///
/// A thread is in the loop for a turn, or for as long as a run; or it has claimed the loop for a moment, between turns,
/// to touch what is otherwise the turn's: the owner does that, too. A turn waits for a claim to end; a claim does not
/// wait.
///
/// The lock is biased towards its owner, who goes in and out by plain stores; a thread that comes uninvited (the owner
/// has not let go of the loop) pays for it with a heavy fence, once: from then on the loop is `shared`, and everybody
/// enters by compare and swap. It stays so because the former owner may be delayed between its first look at the word
/// and its store. After Dice, Moir, Scherer, "Quickly Reacquirable Locks" (2003), without giving the lean back.
///
/// Words       word_: [ token of the owner, 0: nobody's | in_turn | claimed | shared ]; inside_: the owner's, while the
///             lock is biased.
/// Threads     any. Not reentrant: a thread that is in does not ask again.
/// Progress    wait-free for the owner of a loop that is not shared; enter() waits for a claim.
class biased_lock {
 public:
  /// Stands for a thread: not 0, and a multiple of 8.
  using token = std::uintptr_t;

  /// How a thread has come in; for leave().
  enum class way : unsigned char { refused, biased, shared };

  /// True for the owner. Relaxed: the answer is certain for the owner only, who has written it.
  bool is(token me) const noexcept { return (word_.load(std::memory_order_relaxed) & ~flags) == me; }

  /// Begins a turn, by which `me` becomes the owner. Refused: another thread is in a turn.
  [[gnu::always_inline]] way enter(token me) noexcept {
    if (lean(me)) {
      inside_.store(turn, std::memory_order_relaxed);  // for whoever waits: this is not over in a moment
      return way::biased;
    }
    return enter_shared(me);
  }

  /// Claims the loop for a moment as way::biased. False: it does not lean to `me`; ask claim().
  [[gnu::always_inline]] bool enter_biased(token me) noexcept { return lean(me); }

  /// Claims the loop for a moment. Refused: another thread is in it.
  way claim(token me) noexcept { return lean(me) ? way::biased : claim_shared(); }

  /// Ends a turn or a claim.
  void leave(way how) noexcept {
    if (how == way::biased) {
      inside_.store(0, std::memory_order_release);  // [L18] release, pairs with [L17]: what this one did is seen
    } else {
      give_back(word_.load(std::memory_order_relaxed) & (~flags | shared));  // nobody else writes it
    }
  }

  /// Makes the loop nobody's. By the owner, between turns.
  void let_go() noexcept {
    std::uintptr_t word = word_.load(std::memory_order_relaxed);
    do {
      while ((word & claimed) != 0) {
        yield_thread();
        word = word_.load(std::memory_order_relaxed);
      }
      // [L19] release, pairs with [L14] and [L15]: what the owner did is seen; failure is relaxed: only the value is
      // used
    } while (!word_.compare_exchange_weak(word, word & shared, std::memory_order_release, std::memory_order_relaxed));
  }

 private:
  static constexpr std::uintptr_t in_turn = 1;
  static constexpr std::uintptr_t claimed = 2;
  static constexpr std::uintptr_t shared = 4;
  static constexpr std::uintptr_t flags = 7;

  // Values of inside_.
  static constexpr std::uint32_t moment = 1;
  static constexpr std::uint32_t turn = 2;

  /// Comes in where the lock is biased towards the caller: either the uninvited one sees `moment`, or this sees its
  /// word.
  [[gnu::always_inline]] bool lean(token me) noexcept {
    if (word_.load(std::memory_order_relaxed) != me) return false;  // its own value: nothing to acquire
    inside_.store(moment, std::memory_order_relaxed);
    light_fence();  // pairs with take()'s heavy fence
    if (word_.load(std::memory_order_relaxed) == me) [[likely]]
      return true;
    inside_.store(0, std::memory_order_relaxed);
    return false;
  }

  /// From a word without in_turn and claimed; afterwards the loop is shared, and inside_ is to be looked at.
  bool take(std::uintptr_t word) noexcept {
    // [L14] acquire, pairs with [L16] and [L19]; failure is relaxed: nothing is used
    if (!word_.compare_exchange_strong(word, word | claimed | shared, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
      return false;
    }
    if ((word & shared) == 0) heavy_fence();  // pairs with lean()'s light fence
    return true;
  }

  void give_back(std::uintptr_t word) noexcept {
    word_.store(word,
                std::memory_order_release);  // [L16] release, pairs with [L14] and [L15]: what this one did is seen
  }

  [[gnu::noinline]] way claim_shared() noexcept {
    const std::uintptr_t word = word_.load(std::memory_order_relaxed);
    if ((word & (in_turn | claimed)) != 0 || !take(word)) return way::refused;
    if (inside_.load(std::memory_order_acquire) == 0) return way::shared;  // [L17] acquire, pairs with [L18]
    give_back(word | shared);
    return way::refused;
  }

  [[gnu::noinline]] way enter_shared(token me) noexcept {
    while (true) {
      std::uintptr_t word = word_.load(std::memory_order_relaxed);
      if ((word & in_turn) != 0) return way::refused;
      if ((word & claimed) != 0) {
        yield_thread();
      } else if (word == 0) {  // nobody's: it is biased towards this thread
        // [L15] acquire, pairs with [L16] and [L19]; failure is relaxed: nothing is used; not modelled: there, lean()'s
        // light fence is a full one, and acquires, too
        if (word_.compare_exchange_strong(word, me, std::memory_order_acquire, std::memory_order_relaxed)) {
          return enter(me);
        }
      } else if (take(word)) {
        return settle(me, word);
      }
    }
  }

  /// The end of enter_shared(): waits until a former owner's claim is over.
  way settle(token me, std::uintptr_t word) noexcept {
    std::uint32_t inside;
    while ((inside = inside_.load(std::memory_order_acquire)) == moment) yield_thread();  // [L17]
    if (inside == turn) {
      give_back(word | shared);
      return way::refused;
    }
    // Relaxed: whoever comes next acquires from leave(), or sees in_turn and goes away.
    word_.store(me | shared | in_turn, std::memory_order_relaxed);
    return way::shared;
  }

  atomic<std::uintptr_t> word_{0};
  atomic<std::uint32_t> inside_{0};
};

/// The token of the calling thread: no two living threads have the same.
inline biased_lock::token thread_token() noexcept {
  alignas(8) static constinit thread_local char token = 0;
  return reinterpret_cast<biased_lock::token>(&token);
}

}  // namespace async::detail
