// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"          // for atomic
#include "async/detail/base/reference_count.hpp"  // for reference_count

namespace steps::detail {

/// On what a step that waits and the tokens of its wait agree: who ends the wait, and who frees what they share.
///
/// One token wins; what it stores is its own until it has sent it to the step's loop as a message, or has taken its
/// win back because storing has failed. The step may close the wait at any time; the message of a token that has won
/// before comes to a step that does not wait any more.
///
/// Threads     win(), take_back(), refused(): the tokens', any thread; close(): the loop's.
class wait_state {
 public:
  /// True for the first caller only.
  bool win() noexcept {
    std::uint32_t expected = open;
    // [X2] acquire, pairs with [X3]: the winner writes the result that a winner before it has taken back
    return state_.compare_exchange_strong(expected, won, std::memory_order_acquire, std::memory_order_relaxed);
  }
  /// The winner could not store its result; the wait goes on, unless the step has closed it meanwhile.
  void take_back() noexcept {
    std::uint32_t expected = won;
    // [X3] release, pairs with [X2]; failure is relaxed, nobody wins any more
    state_.compare_exchange_strong(expected, open, std::memory_order_release, std::memory_order_relaxed);
  }
  /// The winner could not send its result: there is no loop any more.
  void refused() noexcept { state_.store(closed, std::memory_order_relaxed); }  // nothing is handed over
  /// The step does not wait any more. A token that has won keeps its result for itself until it has sent it.
  void close() noexcept { state_.store(closed, std::memory_order_relaxed); }  // nothing is handed over
  /// As far as this thread can know.
  bool is_open() const noexcept { return state_.load(std::memory_order_relaxed) == open; }

  /// One more token or message; the caller has one meanwhile.
  void share() noexcept { references_.add(); }
  /// True: it was the last, and the caller frees what they share.
  bool release() noexcept { return references_.drop(); }

 private:
  enum : std::uint32_t { open, won, closed };

  async::detail::reference_count references_{2};  // the step's and the first token's
  async::detail::atomic<std::uint32_t> state_{open};
};

}  // namespace steps::detail
