// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t
#include <new>      // for placement new
#include <utility>  // for exchange

#include "async/detail/loop/loop_entry.hpp"       // for loop_entry
#include "async/detail/pool/pool_core.hpp"        // for pool_core
#include "steps/detail/engine/engine.hpp"         // for raise, wake, unblock_end
#include "steps/detail/engine/scopes.hpp"         // for make_scope
#include "steps/detail/flow/branch_state.hpp"     // for branch_state
#include "steps/detail/parallel/branch_list.hpp"  // for branch_list, copy_exception
#include "steps/detail/parallel/pool_branch.hpp"  // for branch_join, branch_taken, free_branch
#include "steps/detail/root/destroy_root.hpp"     // for help_branches, branch_turn, resume_branch

/// parallel() and race() of a flow on a pool, the parent's side: each branch is offered to all workers, and gets a loop
/// of its own when one takes it.
///
/// The life of a branch B of a parent P:
///
///               P's loop                          the pool                 B's loop
///                  |                                  |                        |
///     offered      |-- job -------------------------->|                        |   start()
///     taken        |                                  |-- B ------------------>|   branch_taken() gets a loop
///     begun        |                                                           |   begin_branch() binds B to the loop
///     decided      |<---------------------------------------------- `decided`--|   report_end(), first that fails
///                  |   decided_arrived() raises the error at P                 |
///     asked to end |-- B ----------------------------------------------------->|   ends_by_message() cancels B
///     ended        |                                                           |   report_end() counts B down
///     over         |<------------------------------------------------- `over`--|   count_down(), the last
///                  |   over_arrived() frees the branches; P goes on or ends    |
///
/// In a race `decided` comes from the first branch that succeeds: P asks the others to end, and over_arrived() passes
/// the winner's results on. Or it comes from the last branch that fails, as above.
///
/// Each arrow is one message. Where both ends are one loop, all but `decided` are plain calls. These cases differ:
///
/// - The pool refuses the job: P's loop gets B, and runs it.
/// - B has no loop when it is asked to end: P disposes of it at once and counts it down. The thread that takes the job
///   later frees the memory.
/// - B ends while the request to end is on its way: the request does nothing.
///
/// The request and the `decided` report count as one branch more each, until they have arrived. So nothing refers to P
/// when the count is zero, and P may be freed.
namespace steps::inline v0_1::detail {

/// Lies in the flow's arena until all branches have ended; the step waits meanwhile. The deciding branch, a timeout and
/// a cancel ask the branches to end, and the step waits for the count.
///
/// Threads     all functions but those of branch_join: the parent's loop.
struct pool_parallel : scope, branch_join {
  pool_parallel(branch_list& list, std::uint32_t count, flow& f) noexcept
      : branch_join(f, count, &over_arrived, &decided_arrived), branches(list) {}

  /// Offers the branches of a step. `on_pool` is set before the first can run. Throws std::bad_alloc; nothing has been
  /// offered then.
  static void start(step& group, branch_list& list, pool_parallel*& on_pool) {
    flow& parent = *group.flow_;
    state_access::share(state_of(parent));
    std::uint32_t count = 0;
    for (const flow* b = list.first; b != nullptr; b = b->list_next) ++count;
    on_pool = &make_scope<pool_parallel>(parent, group, list, count, parent);
    on_pool->prepare_branches();
    parent.run_by = nullptr;  // before a branch can run: its calls on this step are not those of the step's function
    on_pool->offer_branches();
  }

  /// Ends the branches on loops that no thread is in, as these loops would. For a thread that waits for the end of the
  /// flow and may keep such a loop from its turn. In the parent's loop.
  void help() noexcept {
    is_asking = true;
    for (flow* b = branches.first; b != nullptr; b = b->list_next) {
      const loop_entry there(*b->core);
      if (!there) continue;
      if (b->core->retract(*b) && !begins_by_message(*b)) ends_by_message(*this, *b);
      help_branches(*b);
    }
    async::detail::loop_core& core = *parent.core;
    if (core.retract(decided)) decided_arrived(decided);
    if (core.retract(over)) is_over = true;
    finish_asking();
  }

 private:
  /// State of the branches after all have been asked to end.
  enum class ask_outcome {
    still_ending,  ///< over_arrived() is to come
    all_ended,     ///< the parent's end goes on in the caller
    parent_ended   ///< all have ended, and so has the parent, which may be gone
  };

  // --- starting -----------------------------------------------------------------------------------------------------

  /// Readies the branches for other threads, and reverses the list: a worker takes its own newest job first.
  void prepare_branches() noexcept {
    flow* last = nullptr;
    for (flow* b = branches.first; b != nullptr;) {
      flow& branch = *b;
      branch.run = &resume_branch;
      branch.burst = parent.burst;
      branch.pool = parent.pool;
      branch.level = parent.level;
      branch.core = parent.core;  // until it has a loop of its own
      branch_state(branch.active.of_branch()).offer();
      branch.list_prev = nullptr;
      b = std::exchange(branch.list_next, last);
      last = &branch;
    }
    branches.first = last;
  }
  void offer_branches() {
    async::detail::pool_core& pool = *parent.pool;
    flow& f = parent;
    bool offered = false;
    for (flow* b = branches.first; b != nullptr;) {
      flow& branch = *std::exchange(b, b->list_next);
      const bool has_free_slot = branch.has_no_verdict();  // else its error lies there
      if (has_free_slot &&
          pool.offer(::new (static_cast<void*>(branch.slot)) offered_branch{{{&branch_taken}, nullptr}, &branch})) {
        if (!std::exchange(offered, true)) pool.offered();
      } else if (!f.core->push(branch)) {
        end_unbegun(branch);
      }
    }
    if (offered) pool.offered();
  }

  // --- reports of branches ------------------------------------------------------------------------------------------

  static pool_parallel& of(end_message& m) noexcept {
    return static_cast<pool_parallel&>(static_cast<report&>(m).join);
  }
  static void decided_arrived(end_message& m) {
    pool_parallel& self = of(m);
    flow& b = self.deciding_branch();
    if (self.is_won()) {
      self.ask_all_to_end();
    } else if (raise(self.parent, b.pending.code, info_of(b), b.pending.target)) {
      copy_exception(b, self.parent);
    }
    self.count_down();  // without which the parent does not end
  }
  /// All branches have ended, and their reports have arrived.
  static void over_arrived(end_message& m) noexcept {
    pool_parallel& self = of(m);
    self.is_over = true;
    if (self.is_asking) return;  // finish_asking() goes on
    flow& f = self.parent;
    const branch_turn here(f);
    self.free_branches();
    if (!f.has_no_verdict()) return unblock_end(f);
    f.forget_blocker();
    if (f.is_waiting()) wake(f, verdict::success);
  }

  // --- the end of the step, other than by success --------------------------------------------------------------------

  /// Asks all branches to end, once.
  ask_outcome ask_all_to_end() noexcept {
    if (std::exchange(has_asked, true)) return is_over ? ask_outcome::all_ended : ask_outcome::still_ending;
    if (!hold()) return finish_asking();
    is_asking = true;
    for (flow** at = &branches.first; *at != nullptr;) {
      flow& b = **at;
      if (ask_to_end(b)) {
        at = &b.list_next;
      } else {
        *at = b.list_next;
        dispose(b);
        count_down();
      }
    }
    count_down();  // what hold() has added
    return finish_asking();
  }
  /// False: the branch has no loop, and is the caller's.
  bool ask_to_end(flow& b) noexcept {
    const branch_state::request how = branch_state(b.active.of_branch()).ask_to_end();
    if (how == branch_state::request::dispose) return false;
    if (how != branch_state::request::send) return true;
    if (b.core == parent.core) {
      const branch_turn here(b);
      cancel_on_loop(b);
    } else {
      count_request();
      b.core->push(b);
    }
    return true;
  }
  /// Ends a branch that no worker has taken. The queue that it is in keeps its bare memory.
  static void dispose(flow& b) noexcept {
    {
      const branch_turn here(b);
      destroy_built_steps(b);
    }
    clear_remains(b);
    destroy_state(b);
    detach_control_block(b);
    if (branch_state(b.active.of_branch()).disposed()) free_branch(b);
  }
  ask_outcome finish_asking() noexcept {
    is_asking = false;
    if (!is_over) return ask_outcome::still_ending;
    flow& f = parent;
    const branch_turn here(f);
    free_branches();
    if (!f.is_cancel_held()) {
      f.forget_blocker();
      return ask_outcome::all_ended;
    }
    unblock_end(f);  // a cancel handler has cancelled it, or a destructor
    return ask_outcome::parent_ended;
  }
  /// The exceptions and results of the branches have destructors, which are users' functions and may cancel the parent:
  /// it is held.
  void free_branches() noexcept {
    if (flow& f = parent; !f.is_end_held()) f.block_end();  // else for this end
    if (const pack_tag* const results = take_results()) pass_on(deciding_branch(), results);
    while (flow* const b = branches.first) {
      branches.first = b->list_next;
      destroy_state(*b);
      free_branch(*b);
    }
  }

  /// Passes the winner's results to the next step, unless the parent ends by an error or a cancel.
  [[gnu::noinline]] void pass_on(flow& winner, const pack_tag* results) noexcept {
    flow& f = parent;
    if (!f.is_waiting() || !f.has_no_verdict()) return destroy_taken(winner, results, results_in(winner, results));
    call_outside(f, [&] { guarded(f, [&] { pass_results(winner, results, f); }); });
  }

  static bool holds_error_back(scope& self) noexcept {
    return static_cast<pool_parallel&>(self).ask_all_to_end() != ask_outcome::all_ended;
  }
  static void cancelled(scope& base) {
    auto& self = static_cast<pool_parallel&>(base);
    if (self.ask_all_to_end() == ask_outcome::still_ending) self.parent.block_end();  // until over_arrived()
  }
  static void left(scope&) noexcept {}

 public:
  static constexpr scope_ops ops{scope_ops::kind::cancel, &cancelled, &left, &holds_error_back};

 private:
  branch_list& branches;
  bool is_over = false;    // the count is zero, and the parent's loop knows it
  bool is_asking = false;  // the list is being walked: over_arrived() frees no branch
  bool has_asked = false;
};

}  // namespace steps::inline v0_1::detail
