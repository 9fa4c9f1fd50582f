// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t
#include <memory>   // for destroy_at
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"          // for atomic
#include "async/detail/base/block_cache.hpp"      // for free_block
#include "async/detail/base/reference_count.hpp"  // for reference_count
#include "async/detail/pool/pool_core.hpp"        // for this_pool
#include "steps/detail/flow/branch_state.hpp"     // for branch_state
#include "steps/detail/root/destroy_root.hpp"     // for branch_turn, end_turn_of
#include "steps/detail/root/end_message.hpp"      // for end_message
#include "steps/detail/root/root.hpp"             // for start_here, cancel_on_loop, end_execution

/// parallel() over a pool, the branch's side: these functions run on the branch's loop, which it has for itself.
/// pool_parallel.hpp has the parent's side, and draws the messages between the two.
namespace steps::detail {

/// Size of the block of a branch without fixed memory: the flow and its arena.
inline constexpr std::size_t branch_block = 448;

/// The end of a branch as an object, and of its memory.
inline void free_branch(flow& b) noexcept {
  std::destroy_at(&b);
  async::detail::free_block(&b, branch_block);
}

/// The part of a parallel() step on a pool that its branches share: they touch the parent by nothing else.
///
/// Branches report to it. The first that fails sends the `failed` message, and the last that ends sends `over`; both
/// lie here, so that a report takes no memory.
///
/// Threads     all functions: the branch's loop; count_down() also the parent's. The messages arrive on the parent's.
class branch_join {
 public:
  struct report : end_message {
    report(function act, branch_join& j) noexcept : end_message(act, &j.parent), join(j) {}
    branch_join& join;
  };

  /// `over_arrived` and `failed_arrived` are called on the parent's loop, with a report.
  branch_join(flow& f, std::uint32_t branches, void (*over_arrived)(end_message&),
              void (*failed_arrived)(end_message&)) noexcept
      : parent(f), over(over_arrived, *this), failed(failed_arrived, *this), left_(branches) {}

  bool is_on_parents_loop() const noexcept { return async::detail::current_loop == parent.core; }

  /// The branch ends by an error. The first one's report counts as a branch more until it has arrived.
  void claim_failure(flow& b) noexcept {
    flow* first = nullptr;
    // Relaxed, both: until it sends the report, only the branch itself asks whether it was first; the others keep a
    // count.
    if (first_failed_.compare_exchange_strong(first, &b, std::memory_order_relaxed, std::memory_order_relaxed))
      left_.add();
  }
  /// True for the branch that was the first to claim.
  bool has_claimed(const flow& b) const noexcept {
    return first_failed_.load(std::memory_order_relaxed) == &b;  // relaxed: its own value
  }
  /// The branch that has failed; for failed_arrived.
  flow& failed_branch() const noexcept {
    return *first_failed_.load(std::memory_order_relaxed);  // relaxed: the message has published it
  }
  /// One branch has ended, or the failure's report has arrived. At zero the parent is told, at once on its loop.
  void count_down() noexcept {
    if (!left_.drop()) return;
    if (is_on_parents_loop()) {
      over.deliver(over, async::detail::delivery::on_loop);
    } else {
      parent.core->push(over);
    }
  }

  flow& parent;
  report over;
  report failed;

 private:
  async::detail::reference_count left_;  // branches that have not ended
  async::detail::atomic<flow*> first_failed_{nullptr};
};

/// Ends a branch that no loop accepts, without a run.
inline void end_unbegun(flow& b) noexcept {
  b.mark_stop_delivered();
  destroy_built_steps(b);
  end_execution(b);
}

/// Gives the branch its loop, in a turn of that loop. False: its parent has disposed of the branch meanwhile.
inline bool bind_branch(flow& b, async::detail::loop_core& core) noexcept {
  const bool is_parents = std::exchange(b.core, &core) == &core;
  switch (branch_state(b.active.of_branch()).bind(is_parents)) {
    case branch_state::binding::wanted:
      return true;
    case branch_state::binding::free:
      free_branch(b);
      [[fallthrough]];
    default:
      return false;
  }
}

inline void begin_branch(flow& b, async::detail::loop_core& core) {
  if (!bind_branch(b, core)) return;
  const branch_turn here(b);
  start_here(b);
}

/// The job that offers a branch to the pool: a worker, or a thread that helps the pool, has taken it.
inline void branch_taken(async::detail::job* j) noexcept {
  flow& b = *static_cast<offered_branch*>(j)->branch;
  auto place = async::detail::this_pool->place_for_flow();
  async::detail::loop_core& core = place.core();
  if (place.here) {
    place.visit([&b, &core] { begin_branch(b, core); });
  } else if (!core.push(b) && bind_branch(b, core)) {
    end_unbegun(b);
  }
}

/// The message in the branch has arrived: it asks the branch to begin here or, when it has begun, to end.
inline void branch_message_arrived(branch_join& join, flow& b) {
  branch_state state(b.active.of_branch());
  if (!state.is_bound()) return begin_branch(b, *async::detail::current_loop);
  b.mark_stop_delivered();
  if (state.has_ended()) return join.count_down();
  const branch_turn here(b);
  cancel_on_loop(b);
}

/// The branch has succeeded or failed.
inline void end_branch(branch_join& join, flow& b) {
  if (b.is_failing()) join.claim_failure(b);
  end_execution(b);
}

/// The branch has ended in any way, and reports. Its error and state stay for the parent, which frees it.
inline void report_end(branch_join& join, flow& b) noexcept {
  end_turn_of(b);
  clear_remains(b);
  detach_control_block(b);
  if (join.has_claimed(b)) join.parent.core->push(join.failed);
  if (branch_state(b.active.of_branch()).end(b.is_stop_delivered(), join.is_on_parents_loop())) join.count_down();
}

}  // namespace steps::detail
