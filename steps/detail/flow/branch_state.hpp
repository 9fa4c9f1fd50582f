// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace steps::inline v0_1::detail {

/// Handshake between a branch on a loop of its own and its parallel() step: the branch is bound to a loop, is asked to
/// end, has ended.
///
/// The parent asks for the end once. The order of bind() and ask_to_end() decides who has the branch. To a bound branch
/// the request is a message to its loop, which the parent counts like a branch more: both use the branch's memory,
/// which the parent frees at a count of zero. So the message may find a branch that has ended. A branch that is not
/// bound belongs to the parent from the request on, and the parent disposes of it. The thread that takes it from a
/// queue later still reads its memory; the later of the two frees it.
///
/// Threads     bind(), end(), has_ended(): the thread that runs the branch. ask_to_end(), disposed(): the parent's.
class branch_state {
 public:
  enum class request { none, send, dispose };
  enum class binding { wanted, let_alone, free };

  explicit branch_state(async::detail::atomic<std::uint32_t>& word) noexcept : word_(word) {}

  /// The branch is about to be offered; no other thread can see it yet.
  void offer() noexcept { word_.store(offered, std::memory_order_relaxed); }  // published with the offer
  /// wanted: the branch runs on the loop whose address has been stored. Else its parent has disposed of it, and the
  /// caller frees it (free) or must not touch it (let_alone).
  /// `here`: on the parent's loop, so that no other thread changes the word.
  binding bind(bool here) noexcept {
    // [E13] acq_rel, pairs with [E14] and [E16]: publishes the branch's loop; sees what the parent did to the branch
    const std::uint32_t before = here ? set(bound) : word_.fetch_or(bound, std::memory_order_acq_rel);
    if ((before & asked) == 0) return binding::wanted;
    return (before & is_disposed) != 0 ? binding::free : binding::let_alone;
  }
  bool is_bound() const noexcept {
    return (word_.load(std::memory_order_relaxed) & bound) != 0;
  }  // for the thread that binds it
  /// none: the branch has ended. send: the caller sends a message to the branch's loop. dispose: the branch has no
  /// loop, and belongs to the caller until disposed().
  request ask_to_end() noexcept {
    // [E14] acquire, pairs with [E13]
    const std::uint32_t before = word_.fetch_or(asked, std::memory_order_acquire);
    if ((before & ended) != 0) return request::none;
    return (before & bound) != 0 ? request::send : request::dispose;
  }
  /// True: a thread has taken the branch and left it, and the caller frees it.
  bool disposed() noexcept {
    // [E16] acq_rel, pairs with [E13]: the later of the two frees the branch as the earlier has left it
    return (word_.fetch_or(is_disposed, std::memory_order_acq_rel) & bound) != 0;
  }
  /// The branch has ended. Not a read-modify-write: if it overwrites `asked`, nobody looks at that any more.
  void end() noexcept {
    word_.store(offered | bound | ended, std::memory_order_relaxed);  // the count publishes what the branch did
  }
  /// For the message.
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

}  // namespace steps::inline v0_1::detail
