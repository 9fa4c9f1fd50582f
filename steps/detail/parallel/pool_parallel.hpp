// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t
#include <memory>   // for destroy_at
#include <new>      // for placement new
#include <utility>  // for exchange

#include "async/detail/base/block_cache.hpp"      // for free_block
#include "async/detail/base/reference_count.hpp"  // for reference_count
#include "async/detail/pool/pool_core.hpp"        // for this_pool
#include "steps/detail/engine/engine.hpp"         // for raise
#include "steps/detail/engine/scopes.hpp"         // for make_scope
#include "steps/detail/flow/branch_state.hpp"     // for branch_state
#include "steps/detail/parallel/branch_list.hpp"  // for branch_list, copy_exception
#include "steps/detail/root/destroy_root.hpp"     // for help_branches, branch_turn
#include "steps/detail/root/end_message.hpp"      // for end_message

/// parallel() of a flow on a pool: each branch is offered to all workers, and runs on the loop of the one that takes
/// it.
namespace steps::detail {

/// What the branches share with their step. Lies in the flow's arena until all branches have ended.
///
/// The step is parked meanwhile. Whatever is to end it, be it its branches, an error of one of them, a timeout or a
/// cancel, waits until the count of branches is zero; in the last three cases the branches are asked to end. Branches
/// touch the parent only by the count, by claiming to be the first that failed, and by messages to its loop.
///
/// Group is the parallel() step: Group::of(branch).all is this.
template <class Group>
struct pool_parallel : scope {
  pool_parallel(branch_list& list, std::uint32_t count, const flow& parent) noexcept
      : branches(list), left(count), over_news(&over_came, *this, parent), failed_news(&failure_came, *this, parent) {}

  /// Offers the branches. On the parent's loop. Throws std::bad_alloc; nothing has been offered then.
  static void start(step& group, branch_list& list) {
    flow& parent = *group.flow_;
    state_access::share(state_of(parent));
    std::uint32_t count = 0;
    for (const flow* b = list.first; b != nullptr; b = b->list_next) ++count;
    pool_parallel& all = make_scope<pool_parallel>(parent, group, list, count, parent);
    flow* last = nullptr;
    for (flow* b = list.first; b != nullptr;) {  // turns the list round: a worker takes its own newest job first
      flow& branch = *b;
      branch.ops = &branch_ops;
      branch.run = &resume_branch;
      branch.burst = parent.burst;
      branch.pool = parent.pool;
      branch.core = parent.core;  // until it has a loop of its own
      branch_state(branch.active.of_branch()).offer();
      branch.list_prev = nullptr;
      b = std::exchange(branch.list_next, last);
      last = &branch;
    }
    list.first = last;
    static_cast<Group&>(group).all = &all;
    bool offered = false;
    for (flow* b = last; b != nullptr;) {
      flow& branch = *std::exchange(b, b->list_next);
      const bool is_sound = branch.has_no_verdict();  // else its error lies in the slot
      if (is_sound && parent.pool->offer(::new (static_cast<void*>(branch.slot)) offered_branch{{&taken}, &branch})) {
        if (!std::exchange(offered, true)) parent.pool->offered();
      } else {
        send(parent, branch);
      }
    }
    if (offered) parent.pool->offered();
  }

  // --- on a branch's side ---

  /// A worker, or a thread that helps the pool, has taken the branch.
  static void taken(async::detail::job* j) noexcept {
    flow& b = *static_cast<offered_branch*>(j)->branch;
    const auto place = async::detail::this_pool->place_for_flow();
    async::detail::loop_core& core = place.loop.core();
    if (place.here) {
      place.loop.visit([&b, &core] { begin_branch(b, core); });
    } else if (!core.push(b) && is_wanted(b, core)) {
      not_begun(b);
    }
  }
  /// The message in the branch has come: it is to begin on this loop or, when it has begun, to end.
  static void on_message(flow& b) {
    branch_state word(b.active.of_branch());
    if (!word.is_bound()) return begin_branch(b, *async::detail::current_loop);
    b.mark_stop_delivered();
    if (word.has_ended()) return of(b).count_down();
    const branch_turn here(b);
    cancel_on_loop(b);
  }
  static void begin_branch(flow& b, async::detail::loop_core& core) {
    if (!is_wanted(b, core)) return;
    const branch_turn here(b);
    start_here(b);
  }
  /// Gives the branch its loop, unless its parent has disposed of it meanwhile. In a turn of the loop.
  static bool is_wanted(flow& b, async::detail::loop_core& core) noexcept {
    const bool here = std::exchange(b.core, &core) == &core;
    switch (branch_state(b.active.of_branch()).bind(here)) {
      case branch_state::binding::wanted:
        return true;
      case branch_state::binding::free:
        free_memory(b);
        [[fallthrough]];
      default:
        return false;
    }
  }
  static void not_begun(flow& b) noexcept {
    b.mark_stop_delivered();
    destroy_built_steps(b);
    end_execution(b);
  }
  /// The branch has succeeded or failed.
  static void end(flow& b) {
    if (b.is_failing()) {
      pool_parallel& all = of(b);
      flow* first = nullptr;
      // Relaxed, both: who is first only matters to the branch itself until it sends the news; they keep a count.
      if (all.failed.compare_exchange_strong(first, &b, std::memory_order_relaxed, std::memory_order_relaxed)) {
        all.left.add();
      }
    }
    end_execution(b);
  }
  /// The branch has ended in any way. Its error and state stay for the parent to see, on the parent's loop.
  static void ended(flow& b) noexcept {
    pool_parallel& all = of(b);
    end_turn_of(b);
    clear_remains(b);
    detach_control_block(b);
    if (all.failed.load(std::memory_order_relaxed) == &b) {  // its own value
      all.parent().core->push(all.failed_news);
    }
    if (branch_state(b.active.of_branch()).end(b.is_stop_delivered(), async::detail::current_loop == all.parent().core))
      all.count_down();
  }
  static constexpr flow_ops branch_ops{&end, &ended, &on_message};

  /// A branch less, or news that have come.
  void count_down() noexcept {
    if (!left.drop()) return;
    async::detail::loop_core& core = *parent().core;
    if (async::detail::current_loop == &core) {
      over();
    } else {
      core.push(over_news);
    }
  }

  // --- on the parent's side, on its loop ---

  struct news : end_message {
    news(function f, pool_parallel& s, const flow& parent) noexcept : end_message(f, &parent), about(s) {}
    pool_parallel& about;
  };
  static void over_came(end_message& m) { static_cast<news&>(m).about.over(); }
  static void failure_came(end_message& m) {
    pool_parallel& all = static_cast<news&>(m).about;
    flow& parent = all.parent();
    flow& b = *all.failed.load(std::memory_order_relaxed);  // the message has published it
    if (raise(parent, b.pending.code, info_of(b), b.pending.target)) copy_exception(b, parent);
    all.count_down();  // without which the parent does not end
  }

  flow& parent() const noexcept { return *holder->flow_; }
  static pool_parallel& of(flow& branch) noexcept { return *Group::of(branch).all; }

  enum class branches_are { ending, over, over_and_parent_gone };

  /// Asks the branches to end, once.
  branches_are stop() noexcept {
    if (std::exchange(stopped, true)) return is_over ? branches_are::over : branches_are::ending;
    is_stopping = true;
    for (flow** at = &branches.first; *at != nullptr;) {
      flow& b = **at;
      const branch_state::request how = branch_state(b.active.of_branch()).ask_to_end();
      if (how == branch_state::request::dispose) {
        *at = b.list_next;
        dispose(b);
        count_down();
        continue;
      }
      if (how == branch_state::request::send) {
        if (b.core == parent().core) {
          b.mark_stop_delivered();
          const branch_turn here(b);
          cancel_on_loop(b);
        } else {
          b.core->push(b);
        }
      }
      at = &b.list_next;
    }
    return after_stop();
  }
  /// Ends the branches, as their loops would, where these are driven by nobody: for a thread that waits for the end of
  /// the flow, and may itself be the one that drives them. In the parent's loop.
  void help() noexcept {
    is_stopping = true;
    for (flow* b = branches.first; b != nullptr; b = b->list_next) {
      const loop_entry there(*b->core);
      if (!there) continue;
      if (b->core->retract(*b)) on_message(*b);
      help_branches(*b);
    }
    async::detail::loop_core& core = *parent().core;
    if (core.retract(failed_news)) failure_came(failed_news);
    if (core.retract(over_news)) is_over = true;
    after_stop();
  }
  branches_are after_stop() noexcept {
    is_stopping = false;
    if (!is_over) return branches_are::ending;
    flow& f = parent();
    const branch_turn here(f);
    free_branches();
    if (!f.is_cancel_held()) {
      f.forget_blocker();
      return branches_are::over;
    }
    unblock_end(f);  // a cancel handler has cancelled it, or a destructor
    return branches_are::over_and_parent_gone;
  }
  /// All branches have ended, and their news have come.
  void over() noexcept {
    is_over = true;
    if (is_stopping) return;  // who stops them goes on
    flow& f = parent();
    const branch_turn here(f);
    free_branches();
    if (!f.has_no_verdict()) return unblock_end(f);
    f.forget_blocker();
    if (f.is_waiting()) wake(f, verdict::success);
  }
  /// What they have thrown has destructors, which are users' functions and may cancel the parent: it is held.
  void free_branches() noexcept {
    if (flow& f = parent(); !f.is_end_held()) f.block_end();  // else for this end
    while (flow* const b = branches.first) {
      branches.first = b->list_next;
      destroy_state(*b);
      free_memory(*b);
    }
  }
  /// Of a branch that nobody has taken; what is in a queue is its bare memory.
  static void dispose(flow& b) noexcept {
    {
      const branch_turn here(b);
      destroy_built_steps(b);
    }
    clear_remains(b);
    destroy_state(b);
    detach_control_block(b);
    if (branch_state(b.active.of_branch()).disposed()) free_memory(b);
  }
  static void free_memory(flow& b) noexcept {
    std::destroy_at(&b);
    async::detail::free_block(&b, Group::branch_block);
  }

  static bool halt(scope& self) noexcept { return static_cast<pool_parallel&>(self).stop() != branches_are::over; }
  static void cancelled(scope& self) {
    auto& all = static_cast<pool_parallel&>(self);
    if (all.stop() == branches_are::ending) all.parent().block_end();  // until over()
  }
  static void left_it(scope&) noexcept {}
  static constexpr scope_ops ops{scope_ops::kind::cancel, &cancelled, &left_it, &halt};

  static void send(flow& to, flow& branch) noexcept {
    if (!to.core->push(branch)) not_begun(branch);
  }

  branch_list& branches;
  async::detail::reference_count left;
  async::detail::atomic<flow*> failed{nullptr};
  news over_news;
  news failed_news;
  bool is_over = false;
  bool is_stopping = false;
  bool stopped = false;
};

}  // namespace steps::detail
