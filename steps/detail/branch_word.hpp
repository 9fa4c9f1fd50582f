// SPDX-License-Identifier: BSL-1.0
// floor: 0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/atomics.hpp"  // for atomic

namespace steps::detail {

/// On what the loops of a branch and of its parallel() step agree: whether it has a loop, is to be cancelled, has
/// ended.
///
/// The parent asks for a cancel once, by a message to the branch's loop when it has one by then. A branch counts as
/// ended when it has ended and no such message is on its way, since both use its memory, which the parent frees when
/// all branches have ended. The order of changes to the word decides.
///
/// Threads     bind(), end(): whoever runs the branch; ask_to_end(): the parent's. `here`: both are the same, so that
///             nobody else changes the word, and no read-modify-write is needed.
class branch_word {
 public:
  explicit branch_word(async::detail::atomic<std::uint32_t>& word) noexcept : word_(word) {}

  /// The branch is offered; before others can see it.
  void offer() noexcept { word_.store(offered, std::memory_order_relaxed); }  // published with the offer
  /// The branch is about to run on a loop, whose address has been stored. False: it is not wanted any more.
  bool bind(bool here) noexcept {
    // [E13] release, pairs with [E14]: the branch's loop
    return ((here ? set(bound) : word_.fetch_or(bound, std::memory_order_release)) & asked) == 0;
  }
  bool is_bound() const noexcept { return (word_.load(std::memory_order_relaxed) & bound) != 0; }  // who binds it asks
  /// True: a message is to be sent to the branch's loop.
  bool ask_to_end() noexcept {
    // [E14] acquire, pairs with [E13]
    return (word_.fetch_or(asked, std::memory_order_acquire) & (bound | ended)) == bound;
  }
  /// The branch has ended. `told`: no message is still to come. False: the message that is on its way counts the
  /// branch.
  bool end(bool told, bool here) noexcept {
    // Relaxed: what the branch did is published by the count.
    return ((here ? set(ended) : word_.fetch_or(ended, std::memory_order_relaxed)) & asked) == 0 || told;
  }
  /// For the message, on the branch's loop.
  bool has_ended() const noexcept { return (word_.load(std::memory_order_relaxed) & ended) != 0; }

 private:
  static constexpr std::uint32_t offered = 1;
  static constexpr std::uint32_t bound = 2;
  static constexpr std::uint32_t asked = 4;
  static constexpr std::uint32_t ended = 8;

  std::uint32_t set(std::uint32_t bit) noexcept {
    const std::uint32_t before = word_.load(std::memory_order_relaxed);  // relaxed, both: one thread
    word_.store(before | bit, std::memory_order_relaxed);
    return before;
  }

  async::detail::atomic<std::uint32_t>& word_;
};

}  // namespace steps::detail
