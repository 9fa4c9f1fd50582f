// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace steps::detail {

/// On what the loops of a branch and of its parallel() step agree: whether it has a loop, is to end, has ended.
///
/// The parent asks for the end once. A branch that has a loop by then is told by a message to that loop, and counts as
/// ended when it has ended and no such message is on its way, since both use its memory, which the parent frees when
/// all branches have ended. A branch that has none yet is the parent's at once, who disposes of it; its memory stays
/// for the worker that will take it from a queue, and is freed by the later of both. The order of changes to the word
/// decides.
///
/// Threads     bind(), end(): whoever runs the branch; ask_to_end(), disposed(): the parent's. `here`: both are the
/// same,
///             so that nobody else changes the word, and no read-modify-write is needed.
class branch_state {
 public:
  enum class request { none, send, dispose };
  enum class binding { wanted, let_alone, free };

  explicit branch_state(async::detail::atomic<std::uint32_t>& word) noexcept : word_(word) {}

  /// The branch is offered; before others can see it.
  void offer() noexcept { word_.store(offered, std::memory_order_relaxed); }  // published with the offer
  /// The branch is about to run on a loop, whose address has been stored. Else it is not wanted any more, and the
  /// caller frees it or lets it alone.
  binding bind(bool here) noexcept {
    // [E13] acq_rel, pairs with [E14] and [E16]: the branch's loop; what the parent did to it
    const std::uint32_t before = here ? set(bound) : word_.fetch_or(bound, std::memory_order_acq_rel);
    if ((before & asked) == 0) return binding::wanted;
    return (before & is_disposed) != 0 ? binding::free : binding::let_alone;
  }
  bool is_bound() const noexcept { return (word_.load(std::memory_order_relaxed) & bound) != 0; }  // who binds it asks
  /// send: a message to the branch's loop. dispose: the branch has none, and is the caller's until disposed().
  request ask_to_end() noexcept {
    // [E14] acquire, pairs with [E13]
    const std::uint32_t before = word_.fetch_or(asked, std::memory_order_acquire);
    if ((before & ended) != 0) return request::none;
    return (before & bound) != 0 ? request::send : request::dispose;
  }
  /// True: the worker has come and gone, and the caller frees the branch.
  bool disposed() noexcept {
    // [E16] acq_rel, pairs with [E13]: the later one frees what the earlier has left
    return (word_.fetch_or(is_disposed, std::memory_order_acq_rel) & bound) != 0;
  }
  /// The branch has ended. `stop_delivered`: no message is still to come. False: the message that is on its way counts
  /// the branch.
  bool end(bool stop_delivered, bool here) noexcept {
    // Relaxed: what the branch did is published by the count.
    return ((here ? set(ended) : word_.fetch_or(ended, std::memory_order_relaxed)) & asked) == 0 || stop_delivered;
  }
  /// For the message, on the branch's loop.
  bool has_ended() const noexcept { return (word_.load(std::memory_order_relaxed) & ended) != 0; }

 private:
  static constexpr std::uint32_t offered = 1;
  static constexpr std::uint32_t bound = 2;
  static constexpr std::uint32_t asked = 4;
  static constexpr std::uint32_t ended = 8;
  static constexpr std::uint32_t is_disposed = 16;

  std::uint32_t set(std::uint32_t bit) noexcept {
    const std::uint32_t before = word_.load(std::memory_order_relaxed);  // relaxed, both: one thread
    word_.store(before | bit, std::memory_order_relaxed);
    return before;
  }

  async::detail::atomic<std::uint32_t>& word_;
};

}  // namespace steps::detail
