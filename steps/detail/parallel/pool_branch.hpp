// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t
#include <memory>   // for destroy_at
#include <utility>  // for exchange

#include "async/detail/base/block_cache.hpp"   // for free_block
#include "async/detail/pool/pool_core.hpp"     // for this_pool
#include "async/priority.hpp"                  // for priority
#include "steps/detail/flow/branch_state.hpp"  // for branch_state
#include "steps/detail/flow/join_state.hpp"    // for join_state
#include "steps/detail/root/destroy_root.hpp"  // for branch_turn, end_turn_of
#include "steps/detail/root/end_message.hpp"   // for end_message
#include "steps/detail/root/root.hpp"          // for start_here, cancel_on_loop, end_execution

/// parallel() and race() over a pool, the branch's side: these functions run on the branch's loop, which no other flow
/// has at that time. pool_parallel.hpp has the parent's side, and draws the messages between the two.
namespace steps::inline v0_1::detail {

/// Size of the block of a branch without fixed memory: the flow and its arena.
inline constexpr std::size_t branch_block = 440;

/// The end of a branch as an object, and of its memory.
inline void free_branch(flow& b) noexcept {
  std::destroy_at(&b);
  async::detail::free_block(&b, branch_block);
}

/// The part of a parallel() or race() step on a pool that its branches share: they touch the parent by nothing else.
///
/// Branches report to it. The one that decides how the step ends sends the `decided` message: the first that fails; in
/// a race the first that succeeds, or the last that fails. The last that ends sends `over`. Both lie here, so that a
/// report takes no memory.
///
/// Threads     all functions: the branch's loop; count_down() also the parent's. The messages arrive on the parent's.
class branch_join : public join_state<flow, pack_tag> {
 public:
  struct report : end_message {
    report(function act, branch_join& j) noexcept : end_message(act, &j.parent), join(j) {}
    branch_join& join;
  };

  /// `over_arrived` and `decided_arrived` are called on the parent's loop, with a report.
  branch_join(flow& f, std::uint32_t branches, void (*over_arrived)(end_message&),
              void (*decided_arrived)(end_message&)) noexcept
      : join_state(branches), parent(f), over(over_arrived, *this), decided(decided_arrived, *this) {}

  bool is_on_parents_loop() const noexcept { return async::detail::current_loop == parent.core; }

  /// A branch has ended, or a request to end or the decider's report has arrived. At zero the parent is told, at once
  /// on its loop.
  void count_down() noexcept {
    if (!drop()) return;
    if (is_on_parents_loop()) {
      over.deliver(over, async::detail::delivery::on_loop);
    } else {
      parent.core->push(over);
    }
  }

  flow& parent;
  report over;
  report decided;
};

/// Ends a branch that no loop accepts, without a run.
inline void end_unbegun(flow& b) noexcept {
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

inline flow& offered_in(const async::detail::job* j) noexcept { return *static_cast<const offered_branch*>(j)->branch; }

/// The job that offers a branch to the pool: a worker, or a thread that helps the pool, has taken it. Branches that end
/// in their first turns have one turn of a loop together.
inline void branch_taken(async::detail::job* j) noexcept {
  flow& b = offered_in(j);
  auto place = async::detail::this_pool->place_for_flow();
  async::detail::loop_core& core = place.core();
  const bool has_level = b.level != async::priority::normal;
  if (has_level) place.rank(b.level);
  if (place.here && !has_level) {  // else the first turn is queued like the others
    place.visit([&] {
      begin_branch(b, core);
      const auto is_alike = [](const async::detail::job* next) noexcept {
        return next->run == &branch_taken && offered_in(next).level == async::priority::normal;
      };
      while (async::detail::job* const next = place.next_task(is_alike)) begin_branch(offered_in(next), core);
    });
  } else if (!core.push(b) && bind_branch(b, core)) {
    end_unbegun(b);
  }
}

/// The message in the branch has arrived, and asks the branch to begin here. False: it has begun, and is to end. The
/// parent of a branch that has not begun may be gone: it has disposed of the branch then.
inline bool begins_by_message(flow& b) {
  if (branch_state(b.active.of_branch()).is_bound()) return false;
  begin_branch(b, *async::detail::current_loop);
  return true;
}

/// The message in the branch has arrived, and asks the branch to end: cancels it, unless it has ended, and counts the
/// request down.
inline void ends_by_message(branch_join& join, flow& b) {
  if (!branch_state(b.active.of_branch()).has_ended()) {
    const branch_turn here(b);
    cancel_on_loop(b);
  }
  join.count_down();
}

/// The branch has ended in any way, and reports. Its error and state stay for the parent, which frees it.
inline void report_end(branch_join& join, flow& b) noexcept {
  end_turn_of(b);
  clear_remains(b);
  detach_control_block(b);
  if (join.has_claimed(b)) join.parent.core->push(join.decided);
  branch_state(b.active.of_branch()).end();
  join.count_down();
}

/// Ends the execution, as end_execution() does, of a branch that has neither an owner nor a promise.
inline void finish_branch(branch_join& join, flow& b) noexcept {
  finish_execution(b);
  report_end(join, b);
}

/// The branch has succeeded or failed.
inline void end_branch(branch_join& join, flow& b) {
  if (b.is_failing()) join.claim(b);
  finish_branch(join, b);
}

/// The same in a race. A branch that breaks or continues a loop outside the race decides, too.
inline void end_racer(branch_join& join, flow& b) {
  if (!b.is_failing()) {
    join.claim_win(b, b.tag);
  } else if (b.pending.target != nullptr || join.racer_failed()) {
    join.claim(b);
  }
  finish_branch(join, b);
}

}  // namespace steps::inline v0_1::detail
