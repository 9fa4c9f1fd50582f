// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uintptr_t, uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic, light_fence, heavy_fence
#include "async/detail/base/backoff.hpp"  // for backoff
#include "async/detail/base/config.hpp"   // for ASYNCSTEPS_SHARED

namespace async::inline v0_1::detail {

/// The ownership of a loop, and the lock that keeps all but one thread out of it.
///
/// A thread enters for a turn, or for all turns of a run. Between turns a thread claims the loop for a moment, to touch
/// what is otherwise the turn's; so does the owner. A turn waits for a claim to end; a claim does not wait.
///
/// The lock is biased towards its owner, which enters and leaves by plain stores. The first other thread that enters
/// while the loop has an owner pays for it with a heavy fence: it makes the loop `shared`, and from then on all threads
/// enter by compare and swap. A shared loop stays shared because the former owner may be delayed between its first look
/// at the word and its store. After Dice, Moir, Scherer, "Quickly Reacquirable Locks" (2003), without the way back to
/// the bias.
///
/// Words       word_: [ token of the owner, 0: none | shared | claimed | in_turn ].
///             inside_: where the owner is while the lock is biased; only the owner writes it.
///
///   word_          inside_        the loop is          enter()                          claim()
///   0              outside        without owner        adopt, enter                     begin_claim
///   me             outside        biased, free         inside_ = turn                   inside_ = moment
///   other          any            biased to another    begin_claim, claim_to_turn       begin_claim
///   t|shared       outside (1)    shared, free         begin_claim, claim_to_turn       begin_claim
///   t|..|claimed   any            claimed              wait                             refused
///   t|..|in_turn   outside        in a shared turn     refused                          refused
///
///   adopt          0 -> me
///   begin_claim    t -> t|shared|claimed; the claim holds if inside_ is `outside`, otherwise it is taken back
///   claim_to_turn  waits while inside_ is `moment`; then t|shared|claimed -> me|shared|in_turn
///                  if inside_ is `turn`: t|shared|claimed -> t|shared, refused
///   leave          inside_ = outside, or t|shared|.. -> t|shared
///   disown         t -> 0, t|shared -> shared
///   leave_without_owner   t|shared|in_turn -> shared
///   bias, unbias   shared -> me, me -> shared; only around turns of a thread that has the loop by other means
///
/// (1) or `turn` or `moment`, of an owner that entered before the loop became shared. `moment` may also stand there for
///     an instant in any other shared state: a former owner stores it before its second look at the word.
///
/// Threads     any. Not reentrant: a thread inside does not enter or claim again.
/// Progress    wait-free for the owner of a loop that is not shared; enter() waits for a claim.
class biased_lock {
 public:
  /// Stands for a thread: not 0, and a multiple of 8.
  using token = std::uintptr_t;

  /// The outcome of enter() and claim(), for leave().
  enum class way : unsigned char {
    refused,  // another thread is inside
    biased,   // by way of inside_
    shared,   // by way of word_
  };

  /// Whether `me` is the owner. Relaxed: the answer is certain for the owner only, which has written it.
  bool is(token me) const noexcept { return (word_.load(std::memory_order_relaxed) & ~flags) == me; }

  /// Begins a turn and makes `me` the owner. Refused: another thread is in a turn.
  [[gnu::always_inline]] way enter(token me) noexcept {
    if (enter_biased(me)) {
      inside_.store(turn, std::memory_order_relaxed);  // for a thread that waits: this is not over in a moment
      return way::biased;
    }
    return enter_shared(me);
  }

  /// Claims a loop that is biased to `me` for a moment; to leave as way::biased. False: it is not; ask claim().
  [[gnu::always_inline]] bool enter_biased(token me) noexcept {
    if (word_.load(std::memory_order_relaxed) != me) return false;  // its own value: nothing to acquire
    inside_.store(moment, std::memory_order_relaxed);
    light_fence();  // pairs with the heavy fence of begin_claim(): it sees `moment`, or this thread sees its word
    if (word_.load(std::memory_order_relaxed) == me) [[likely]]
      return true;
    inside_.store(outside, std::memory_order_relaxed);
    return false;
  }

  /// Claims the loop for a moment. Refused: another thread is in it.
  way claim(token me) noexcept { return enter_biased(me) ? way::biased : claim_shared(); }

  /// Ends a turn or a claim.
  void leave(way how) noexcept {
    if (how == way::biased) {
      inside_.store(outside, std::memory_order_release);  // [L18] release, pairs with [L17]: what this thread did
    } else {
      make_free(word_.load(std::memory_order_relaxed) & (~flags | shared));  // no other thread writes it
    }
  }

  /// Makes a loop without owner shared: for one that no thread drives for long. No other thread has it yet.
  void share() noexcept { word_.store(shared, std::memory_order_relaxed); }
  /// Ends a turn of a loop that is shared, and leaves it without an owner.
  void leave_without_owner() noexcept { make_free(shared); }

  /// Biases a shared loop without owner to `me` until unbias(). Only for a thread that nothing but its own calls makes
  /// leave: so no former owner is between its first look at the word and its store. Does nothing if another thread
  /// claims the loop.
  void bias(token me) noexcept { static_cast<void>(adopt(shared, me)); }
  /// By the same thread, between turns.
  void unbias() noexcept {
    if (word_.load(std::memory_order_relaxed) != shared) give_up(shared);
  }

  /// Leaves the loop without an owner. By the owner, between turns.
  void disown() noexcept { give_up(0); }

 private:
  // Flags of word_.
  static constexpr std::uintptr_t in_turn = 1;
  static constexpr std::uintptr_t claimed = 2;
  static constexpr std::uintptr_t shared = 4;
  static constexpr std::uintptr_t flags = in_turn | claimed | shared;

  // Values of inside_.
  static constexpr std::uint32_t outside = 0;
  static constexpr std::uint32_t moment = 1;
  static constexpr std::uint32_t turn = 2;

  /// From a free word to `claimed`. True: the loop is shared, and inside_ tells whether its owner is inside.
  bool begin_claim(std::uintptr_t word) noexcept {
    // [L14] acquire, pairs with [L16] and [L19]; failure is relaxed: nothing is used
    if (!word_.compare_exchange_strong(word, word | claimed | shared, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
      return false;
    }
    if ((word & shared) == 0) heavy_fence();  // pairs with the light fence of enter_biased()
    return true;
  }

  /// Ends a claim, or a turn in a shared loop.
  void make_free(std::uintptr_t word) noexcept {
    // [L16] release, pairs with [L14] and [L15]: what this thread did
    word_.store(word, std::memory_order_release);
  }

  /// Biases a loop without owner to `me`. `from`: 0 or, if it is shared, `shared`.
  bool adopt(std::uintptr_t from, token me) noexcept {
    // [L15] acquire, pairs with [L16] and [L19]; failure is relaxed: nothing is used. not modelled: there the light
    // fence of enter_biased() is a full one, and acquires, too
    return word_.compare_exchange_strong(from, me, std::memory_order_acquire, std::memory_order_relaxed);
  }

  /// Leaves the loop without an owner; it stays shared, or becomes it if `also` is `shared`.
  void give_up(std::uintptr_t also) noexcept {
    std::uintptr_t word = word_.load(std::memory_order_relaxed);
    do {
      if ((word & claimed) != 0) word = pass_claim();
      // [L19] release, pairs with [L14] and [L15]: what the owner did; failure is relaxed: only the value is used
    } while (!word_.compare_exchange_weak(word, (word & shared) | also, std::memory_order_release,
                                          std::memory_order_relaxed));
  }

  /// Waits while another thread claims; returns the word.
  [[gnu::noinline]] std::uintptr_t pass_claim() const noexcept {
    std::uintptr_t word;
    for (backoff pause; ((word = word_.load(std::memory_order_relaxed)) & claimed) != 0;) pause.wait();
    return word;
  }

  way claim_shared() noexcept;

  way enter_shared(token me) noexcept;

  /// Turns a claim of `word` into a turn, once the former owner's claim is over. Refused: the owner is in a turn.
  way claim_to_turn(token me, std::uintptr_t word) noexcept {
    std::uint32_t owner;
    for (backoff pause; (owner = inside_.load(std::memory_order_acquire)) == moment;) pause.wait();  // [L17]
    if (owner == turn) {
      make_free(word | shared);
      return way::refused;
    }
    // Relaxed: the next thread acquires from leave(), or sees in_turn and goes away.
    word_.store(me | shared | in_turn, std::memory_order_relaxed);
    return way::shared;
  }

  atomic<std::uintptr_t> word_{0};
  atomic<std::uint32_t> inside_{outside};
};

/// The token of the calling thread, which no other living thread has.
ASYNCSTEPS_SHARED inline biased_lock::token thread_token() noexcept {
  alignas(8) static constinit thread_local char token = 0;
  return reinterpret_cast<biased_lock::token>(&token);
}

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION biased_lock::way biased_lock::claim_shared() noexcept {
  const std::uintptr_t word = word_.load(std::memory_order_relaxed);
  if ((word & (in_turn | claimed)) != 0 || !begin_claim(word)) return way::refused;
  if (inside_.load(std::memory_order_acquire) == outside) return way::shared;  // [L17] acquire, pairs with [L18]
  make_free(word | shared);
  return way::refused;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION biased_lock::way biased_lock::enter_shared(token me) noexcept {
  for (;;) {
    const std::uintptr_t word = word_.load(std::memory_order_relaxed);
    if ((word & in_turn) != 0) return way::refused;
    if ((word & claimed) != 0) {
      static_cast<void>(pass_claim());
    } else if (word == 0) {
      if (adopt(0, me)) return enter(me);
    } else if (begin_claim(word)) {
      return claim_to_turn(me, word);
    }
  }
}
#endif

}  // namespace async::inline v0_1::detail
