// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uintptr_t, uint32_t, uint8_t

#include "async/detail/base/atomics.hpp"   // for atomic, cell
#include "async/detail/base/backoff.hpp"   // for backoff
#include "async/detail/base/config.hpp"    // for ASYNCSTEPS_ASSERT
#include "async/detail/base/platform.hpp"  // for prefetch_for_write

namespace async::inline v0_1::detail {

/// The way in which a message is delivered.
enum class delivery {
  on_loop,  ///< on the loop's thread, in a turn of the loop
  dropped   ///< the loop is being destroyed: only release what the message holds
};

/// A request of another thread to a loop; a base of completions, waiters and callbacks. It must not move until
/// `deliver` is called, exactly once, which may destroy it.
struct message {
  using function = void (*)(message& self, delivery how);

  explicit message(function f) noexcept : deliver(f) {}

  cell<message*> next{nullptr};  // written by the pusher, then by the loop
  const function deliver;
};

/// A message that may be sent again after delivery, and is under way at most once.
struct recurring_message : message {
  using message::message;

  /// True: the caller pushes the message. False: it is under way, and its delivery has not ended.
  bool depart() noexcept {
    // [L8] acquire, pairs with [L9]: the loop has finished with it
    return !under_way_.exchange(true, std::memory_order_acquire);
  }
  /// The message may be pushed again. By the loop, as its last access to the message.
  void arrive() noexcept { under_way_.store(false, std::memory_order_release); }  // [L9] release, pairs with [L8]

 private:
  atomic<bool> under_way_{false};
};

/// Multi-producer single-consumer mailbox of intrusive messages. The consumer takes all messages at once, and announces
/// its sleep in the same word.
///
/// Use it to hand requests to one loop. Do not use it for elements by value or with several consumers (async::queue).
///
/// Order       first in, first out.
/// Progress    push is lock-free and allocates nothing; take is wait-free.
/// Threads     push, woken: any thread. All others: the owner's thread only.
///
/// Words       head_: awake | closed | asleep | asleep_embedded | the newest message
///
/// No wake-up is lost: the owner goes to sleep by a compare-exchange from `awake`, which fails if there is a message.
/// Once it has succeeded, the first push finds the announcement in the word that it replaces, and owes one wake-up. All
/// of it happens on one word, whose changes have one order. No other push wakes: at most one wake-up per sleep.
///
/// A wake-up may still be under way when the owner, woken by other means, has handled the message already. close()
/// waits for it, so that the owner may then destroy what a wake-up touches.
class inbox {
 public:
  /// The outcome of a push. After `wake_thread` and `wake_embedder` the pusher wakes the owner, then calls woken().
  /// After the others it does not touch the inbox again.
  enum class pushed { quietly, wake_thread, wake_embedder, refused };

  inbox() = default;
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;

  /// Hands `m` over, unless the inbox is closed.
  pushed push(message& m) noexcept {
    std::uintptr_t head = head_.load(std::memory_order_relaxed);  // a guess for the exchange
    do {
      if (head == closed) {
        // [L1] acquire, pairs with [L5]: the refused pusher sees what the owner did before it closed
        static_cast<void>(head_.load(std::memory_order_acquire));
        return pushed::refused;
      }
      m.next.set(to_message(head));
      // [L2] release, pairs with [L3] and [L5]: publishes the message; failure is relaxed, only the value is used.
      // Pushes over older messages keep theirs published: they continue the release sequence.
    } while (!head_.compare_exchange_weak(head, reinterpret_cast<std::uintptr_t>(&m), std::memory_order_release,
                                          std::memory_order_relaxed));
    if (head != asleep && head != asleep_embedded) return pushed::quietly;
    return head == asleep ? pushed::wake_thread : pushed::wake_embedder;
  }

  /// The pusher's last access, after it has woken the owner.
  void woken() noexcept {
    // [L4] release, pairs with [L6]: what the wake-up touched may be destroyed
    wakes_done_.fetch_add(1, std::memory_order_release);
  }

  /// Takes all messages, chained by `next`, oldest first; null: there are none, or the inbox is closed. Ends an
  /// announced sleep.
  message* take() noexcept {
    const std::uintptr_t head = head_.load(std::memory_order_relaxed);
    if (head <= closed || head == empty_) return nullptr;
    // [L3] acquire, pairs with [L2]: the messages are read below
    return in_order(head_.exchange(empty_, std::memory_order_acquire));
  }

  /// Whether there are messages to take, as far as this thread can know. Relaxed: take() receives them.
  bool has_messages() const noexcept { return head_.load(std::memory_order_relaxed) > asleep_embedded; }

  /// Asks for the memory of the newest message. By any thread.
  void prefetch() const noexcept {
    prefetch_for_write(to_message(head_.load(std::memory_order_relaxed)));  // relaxed: only prefetched
  }

  /// Announces that the owner is about to sleep: the next push owes it a wake-up. False: there are messages. take()
  /// ends the announcement. `embedded`: the loop is woken by its embedder's callback, not by its parker.
  bool sleep(bool embedded) noexcept {
    ASYNCSTEPS_ASSERT(!slept_);
    std::uintptr_t expected = awake;
    // relaxed, both: what a wake-up touches was there before the first push, and take() receives the messages that a
    // failure shows
    slept_ = head_.compare_exchange_strong(expected, embedded ? asleep_embedded : asleep, std::memory_order_relaxed,
                                           std::memory_order_relaxed);
    return slept_;
  }

  /// Makes the first push after each take() owe a wake-up, whether the owner sleeps or not. Before the first push.
  void always_wake() noexcept {
    empty_ = asleep_embedded;
    slept_ = true;
    head_.store(empty_, std::memory_order_relaxed);  // relaxed: no other thread has the inbox
  }

  /// Takes an announcement back. False: there was none, or a push has taken it and wakes.
  bool rouse() noexcept {
    if (!slept_) return false;
    std::uintptr_t expected = asleep_embedded;
    // Relaxed: nothing is published, and nothing received.
    if (!head_.compare_exchange_strong(expected, awake, std::memory_order_relaxed, std::memory_order_relaxed)) {
      return false;
    }
    slept_ = false;
    return true;
  }

  /// Refuses all pushes from here on, and forgets the messages. In a child of fork(), where one thread is left.
  void refuse() noexcept { head_.store(closed, std::memory_order_relaxed); }  // relaxed: there is one thread

  /// Refuses all pushes from here on, waits for the wake-ups under way, and returns the remaining messages.
  message* close() noexcept {
    // [L5] acq_rel, pairs with [L1] and [L2]: receives the messages, and publishes what the owner did to refused
    // pushers
    message* const rest = in_order(head_.exchange(closed, std::memory_order_acq_rel));
    // [L6] acquire, pairs with [L4]
    for (backoff pause; wakes_done_.load(std::memory_order_acquire) != wakes_owed_;) pause.wait();
    return rest;
  }

 private:
  static constexpr std::uint8_t awake = 0;
  static constexpr std::uint8_t closed = 1;
  static constexpr std::uint8_t asleep = 2;
  static constexpr std::uint8_t asleep_embedded = 3;
  static_assert(alignof(message) > asleep_embedded);

  static message* to_message(std::uintptr_t word) noexcept {
    return word > asleep_embedded ? reinterpret_cast<message*>(word) : nullptr;
  }

  [[gnu::noinline]] message* in_order(std::uintptr_t word) noexcept {
    message* newest = to_message(word);
    if (slept_ && newest != nullptr) ++wakes_owed_;  // the first push after sleep() has taken the announcement
    slept_ = empty_ != awake;
    message* oldest = nullptr;
    while (newest != nullptr) {
      message* const older = newest->next.get();
      newest->next.set(oldest);
      oldest = newest;
      newest = older;
    }
    return oldest;
  }

  atomic<std::uintptr_t> head_{awake};
  atomic<std::uint32_t> wakes_done_{0};
  std::uint32_t wakes_owed_ = 0;  // the owner's: sleeps ended by a push
  std::uint8_t empty_ = awake;    // the word without messages: asleep_embedded after always_wake()
  bool slept_ = false;            // the owner's: sleep() has succeeded, and neither take() nor close() has followed
};

}  // namespace async::inline v0_1::detail
