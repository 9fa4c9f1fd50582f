// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"          // for atomic, cell
#include "async/detail/base/reference_count.hpp"  // for reference_count

namespace steps::inline v0_1::detail {

/// The agreement of the branches of a parallel() or race() step on a pool: which of them decides how the step ends, and
/// when all have ended.
///
/// The first branch to claim decides, and sends the parent a report. The report counts as a branch more until it has
/// arrived, so that the parent sees it before the count is zero. Exactly one thread counts down to zero.
///
/// Threads     any that holds a count; is_won(), take_results() and deciding_branch() the parent's, after the report.
/// Progress    wait-free, but for hold(), which is lock-free.
template <class Branch, class Results>
class join_state {
 public:
  explicit join_state(std::uint32_t branches) noexcept : left_(branches), racers_(branches) {}

  /// The branch ends, and decides how the step ends if it is the first to claim that. False: another one was first.
  bool claim(Branch& b) noexcept {
    Branch* first = nullptr;
    // Relaxed, both: until it sends the report, only the branch itself asks whether it was first; the others keep a
    // count.
    if (!decider_.compare_exchange_strong(first, &b, std::memory_order_relaxed, std::memory_order_relaxed))
      return false;
    left_.add();
    return true;
  }
  /// The same for a branch that wins a race. Takes `results`, which stay in the branch's slot.
  void claim_win(Branch& b, const Results*& results) noexcept {
    if (!claim(b)) return;
    is_won_.set(true);
    results_.set(std::exchange(results, nullptr));
  }
  /// A branch of a race fails. True: so have all others.
  bool racer_failed() noexcept { return racers_.drop(); }
  /// True for the branch that was the first to claim.
  bool has_claimed(const Branch& b) const noexcept {
    return decider_.load(std::memory_order_relaxed) == &b;  // relaxed: its own value
  }

  /// Keeps the count from zero until it is dropped. False: it is zero.
  bool hold() noexcept { return left_.try_add(); }
  /// A request to end goes to a branch. The caller keeps the count from zero.
  void count_request() noexcept { left_.add(); }
  /// A branch has ended, or a request to end or the report has arrived. True: that was the last; the caller tells the
  /// parent.
  bool drop() noexcept { return left_.drop(); }

  /// The branch that has decided.
  Branch& deciding_branch() const noexcept {
    return *decider_.load(std::memory_order_relaxed);  // relaxed: the message has published it
  }
  /// Whether it has won a race.
  bool is_won() const noexcept { return is_won_.get(); }
  /// Its results, once; null: it has none, or it has failed.
  const Results* take_results() noexcept {
    const Results* const taken = results_.get();
    if (taken != nullptr) results_.set(nullptr);
    return taken;
  }

 private:
  async::detail::cell<bool> is_won_{false};               // the decider's, and the parent's after the report
  async::detail::cell<const Results*> results_{nullptr};  // likewise
  async::detail::reference_count left_;                   // branches that have not ended, and messages on their way
  async::detail::reference_count racers_;                 // of a race: branches that have not failed
  async::detail::atomic<Branch*> decider_{nullptr};
};

}  // namespace steps::inline v0_1::detail
