// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange

#include "steps/detail/flow/arena.hpp"               // for pass_results, destroy_taken
#include "steps/detail/parallel/pool_branch.hpp"     // for end_racer
#include "steps/detail/root/flow_control_block.hpp"  // for resume_after
#include "steps/detail/root/remains.hpp"             // for has_extras, destroy_extras

/// The end of a branch of race(), where it differs from that of a branch of parallel().
namespace steps::inline v0_1::detail {

/// `Group` is the step's group_step. On a pool the branch only reports, see pool_branch.hpp.
///
/// On the parent's own loop the winner cancels the others at once. No turn of the loop runs inside another, so none of
/// them is in a callback, and all have ended when the parent is woken.
template <class Group>
struct race {
  /// A branch has succeeded or failed.
  static void end(flow& b) {
    Group& self = Group::of(b);
    if (self.on_pool != nullptr) return end_racer(*self.on_pool, b);
    flow& parent = *self.flow_;
    if (!b.is_failing()) return win(self, parent, b);
    const bool is_last = self.branches.first == &b && b.list_next == nullptr;
    if (is_last || b.pending.target != nullptr) return Group::fail_with(self, parent, b);  // or leaves for a loop
    drop_out(parent, b);
  }

 private:
  /// Cancel handlers, results and destructors are users' functions, and may cancel the parent: it is held.
  static void win(Group& self, flow& parent, flow& b) {
    const pack_tag* const results = std::exchange(b.tag, nullptr);
    parent.block_end();
    unlist(b);
    self.branches.cancel();
    if (parent.is_waiting() && parent.has_no_verdict()) {
      resume_after(parent, [&] {
        if (results != nullptr) pass_results(b, results, parent);
      });
    } else if (results != nullptr) {
      destroy_taken(b, results, results_in(b, results));
    }
    withdraw_from_loop(b);
    if (has_extras(b)) destroy_extras(b);
    Group::free_block_of(b);
    unblock_end(parent);
  }
  /// The branch has failed, and others run on.
  static void drop_out(flow& parent, flow& b) {
    parent.block_end();
    end_execution(b);
    unblock_end(parent);
  }
};

}  // namespace steps::inline v0_1::detail
