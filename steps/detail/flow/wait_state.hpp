// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"          // for atomic
#include "async/detail/base/reference_count.hpp"  // for reference_count

namespace steps::inline v0_1::detail {

/// Handshake between a step that waits and the tokens of its wait: which token ends the wait, and which of them all
/// frees the block that they share.
///
/// One token wins. The result that it stores belongs to it until it has sent the result to the step's loop as a
/// message, or until it takes its win back because storing has failed. The step may close the wait at any time; the
/// message of a token that has won before then finds that the step does not wait.
///
/// Threads     win(), take_back(), refused(): the tokens', any thread. close(): the loop's. The others: any.
class wait_state {
 public:
  /// True for one caller, until that one calls take_back().
  bool win() noexcept {
    std::uint32_t expected = open;
    // [X2] acquire, pairs with [X3]: the winner writes the result memory that an earlier winner has used
    return state_.compare_exchange_strong(expected, won, std::memory_order_acquire, std::memory_order_relaxed);
  }
  /// The winner could not store its result. The wait goes on, unless the step has closed it meanwhile.
  void take_back() noexcept {
    std::uint32_t expected = won;
    // [X3] release, pairs with [X2]; failure is relaxed: after close() no token wins
    state_.compare_exchange_strong(expected, open, std::memory_order_release, std::memory_order_relaxed);
  }
  /// The winner could not send its result: the loop has gone.
  void refused() noexcept { state_.store(closed, std::memory_order_relaxed); }  // nothing is handed over
  /// The step has stopped waiting. A token that has won keeps its result until it has sent it.
  void close() noexcept { state_.store(closed, std::memory_order_relaxed); }  // nothing is handed over
  /// The answer may be out of date at once.
  bool is_open() const noexcept { return state_.load(std::memory_order_relaxed) == open; }

  /// One more token or message. The caller has a reference meanwhile.
  void share() noexcept { references_.add(); }
  /// True: it was the last reference, and the caller frees the block.
  bool release() noexcept { return references_.drop(); }

 private:
  enum : std::uint32_t { open, won, closed };

  async::detail::reference_count references_{2};  // the step's and the first token's
  async::detail::atomic<std::uint32_t> state_{open};
};

}  // namespace steps::inline v0_1::detail
