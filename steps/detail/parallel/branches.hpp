// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>      // for uint16_t
#include <memory>       // for destroy_at
#include <new>          // for placement new
#include <type_traits>  // for is_same_v
#include <utility>      // for exchange, forward

#include "async/detail/base/block_cache.hpp"        // for allocate_block
#include "steps/branch_turns.hpp"                   // for BranchTurns
#include "steps/detail/engine/step_record.hpp"      // for discard_results
#include "steps/detail/parallel/branch_list.hpp"    // for branch_list, copy_exception
#include "steps/detail/parallel/pool_branch.hpp"    // for end_branch, report_end, free_branch
#include "steps/detail/parallel/pool_parallel.hpp"  // for pool_parallel
#include "steps/detail/parallel/race.hpp"           // for race
#include "steps/detail/root/destroy_root.hpp"       // for help_branches, end_turn_of
#include "steps/detail/root/root.hpp"               // for has_extras, destroy_extras, end_execution

/// parallel() and race(): steps that wait for the end of several flows, their branches. They run on the step's own
/// loop, in turn, or on the loops of a pool: see pool_parallel.hpp. race.hpp has what differs in a race.
namespace steps::inline v0_1::detail {

/// The flags of such a step. E: its error handler, or no_handler.
template <class E>
constexpr std::uint16_t group_flags(BranchTurns turns) noexcept {
  int flags = record_flag::is_step | record_flag::is_group;
  if (turns == BranchTurns::burst) flags |= record_flag::bursts;
  if constexpr (!std::is_same_v<E, no_handler>) {
    static_assert(is_error_handler<E>);
    flags |= record_flag::handler;
  }
  return static_cast<std::uint16_t>(flags);
}

/// The part of a parallel() or race() step that does not depend on its handler.
template <class Face>
struct group_step : Face {
  branch_list branches;
  pool_parallel* on_pool = nullptr;  // null: all branches run on the step's loop

  static group_step& of(flow& branch) noexcept { return static_cast<group_step&>(*branch.root.parent_); }

  /// Ends branches on the step's loop when the step ends by an error or a cancel.
  struct local_scope : scope {
    static void cancelled(scope& self) {
      branch_list& list = static_cast<group_step&>(*self.holder).branches;
      flow& f = *self.holder->flow_;
      f.block_end();
      list.cancel();
      if (list.first == nullptr) f.forget_blocker();  // else release() does
    }
    static void left(scope&) noexcept {}
    static constexpr scope_ops ops{scope_ops::kind::cancel, &cancelled, &left};
  };

  static void run(step& s) {
    flow& f = *s.flow_;
    auto& self = static_cast<group_step&>(s);
    discard_results(f);
    s.flags_ |= record_flag::begun;
    if (self.branches.first == nullptr) return;
    if (f.pool != nullptr && f.limit == nullptr && self.branches.first->list_next != nullptr) {
      pool_parallel::start(s, self.branches, self.on_pool);
    } else {
      self.start_on_own_loop();
    }
    f.mark_wait();
  }
  void start_on_own_loop() {
    flow& f = *this->flow_;
    make_scope<local_scope>(f, *this);
    if (f.pool != nullptr && f.limit == nullptr) branches.first->burst = f.burst;  // it has no siblings
    for (flow* b = branches.first; b != nullptr; b = b->list_next) {
      b->core = f.core;
      b->pool = f.pool;
      b->level = f.level;
      b->run = f.run;
      b->active.set_unseen();  // no other thread knows it
      if (b->has_no_verdict() && f.core->ready().try_reserve()) {
        start_with_place(*b);
      } else {
        detail::start(*b);
      }
    }
  }

  static void help(step& s) noexcept {
    auto& self = static_cast<group_step&>(s);
    if (self.on_pool != nullptr) return self.on_pool->help();
    // Several branches run on this loop only in a flow without a pool: none of them waits for other loops.
    flow* const only = self.branches.first;
    if (only != nullptr && only->list_next == nullptr) help_branches(*only);
  }

  /// A branch has succeeded or failed.
  static void end(flow& b) {
    group_step& self = of(b);
    if (self.on_pool != nullptr) [[unlikely]]
      return end_branch(*self.on_pool, b);
    flow& parent = *self.flow_;
    if (b.is_failing()) [[unlikely]]
      return fail_with(self, parent, b);
    if (b.tag != nullptr || has_extras(b)) [[unlikely]]
      return end_with_more(self, parent, b);
    withdraw_from_loop(b);
    free_block_of(b);
    if (self.branches.first == nullptr && parent.is_waiting()) wake(parent, verdict::success);
  }
  static void end_with_more(group_step& self, flow& parent, flow& b);
  static void fail_with(group_step& self, flow& parent, flow& b);
  /// A branch has ended in any way, or will not begin.
  static void release(flow& b) noexcept {
    group_step& self = of(b);
    if (self.on_pool != nullptr) return report_end(*self.on_pool, b);
    flow& parent = *self.flow_;
    const bool is_awaited = self.branches.first == nullptr && parent.is_end_held();  // before destructors of users
    if (has_extras(b)) [[unlikely]]
      destroy_extras(b);
    free_block_of(b);
    if (is_awaited) unblock_end(parent);
  }
  static void message_arrived(flow& b) {
    if (!begins_by_message(b)) ends_by_message(*of(b).on_pool, b);
  }
  /// Frees a branch that has nothing outside of its block.
  static void free_block_of(flow& b) noexcept {
    if (b.pool != nullptr) [[unlikely]]  // else no turn of a branch refers to it
      end_turn_of(b);
    limits* const limit = b.limit;
    if (limit == nullptr) [[likely]]
      return free_branch(b);
    if (limit->may_allocate) {
      ++limit->fresh_branches;
      return free_branch(b);
    }
    std::destroy_at(&b);
    limit->spare_branch = ::new (static_cast<void*>(&b)) void*(limit->spare_branch);
  }
  static void withdraw(flow& b) noexcept;
  static constexpr flow_ops ops{&end, &release, &message_arrived, nullptr, &withdraw};
  static constexpr flow_ops race_ops{&race<group_step>::end, &release, &message_arrived};

  /// A new branch. Null when a flow with fixed memory has no more: the mistake is known. Throws std::bad_alloc.
  step* add_branch() {
    flow& f = *this->flow_;
    flow* const b = f.limit == nullptr ? pooled_branch() : add_limited_branch(*f.limit);
    if (b == nullptr) return nullptr;
    b->root.parent_ = this;
    b->burst = (this->flags_ & record_flag::bursts) == 0 ? std::uint16_t{1} : root_of(f).burst;
    b->detach();
    branches.append(*b);
    return &b->root;
  }
  static const flow& root_of(const flow& f) noexcept {
    const flow* root = &f;
    while (root->root.parent_ != nullptr) root = root->root.parent_->flow_;
    return *root;
  }
  static flow* pooled_branch() {
    return ::new (async::detail::allocate_block(branch_block))
        flow(&ops, nullptr, branch_block - sizeof(flow), &resume, &end_message::branch_told);
  }
  static void* reserved_branch(limits& limit) noexcept {
    if (void* const used = limit.spare_branch; used != nullptr) {
      limit.spare_branch = *static_cast<void**>(used);
      return used;
    }
    --limit.fresh_branches;
    return std::exchange(limit.fresh_branch, limit.fresh_branch + limit.branch.size());
  }
  flow* add_limited_branch(limits& limit);
};

/// A step of parallel(). Face, E: the type of `asi`, the error handler or no_handler.
template <class Face, class E>
struct parallel_step : group_step<Face> {
  template <class H>
  explicit parallel_step(H&& h) : handler(std::forward<H>(h)) {}

  void fail(ErrorCode code) { call_handler<Face>(handler, *this, code); }

  [[no_unique_address]] E handler;
};

/// A step of race().
template <class Face, class E>
struct race_step final : parallel_step<Face, E> {
  using parallel_step<Face, E>::parallel_step;

  static void run(step& s) {
    for (flow* b = static_cast<race_step&>(s).branches.first; b != nullptr; b = b->list_next) {
      b->root.ops_ = &group_step<Face>::race_ops;
    }
    group_step<Face>::run(s);
  }
};

// Seldom called: asyncsteps::compiled has them, see instantiations.hpp.

/// The destructors of what the branch leaves are users' functions, and may cancel the parent.
template <class Face>
[[gnu::noinline]] void group_step<Face>::end_with_more(group_step& self, flow& parent, flow& b) {
  parent.block_end();
  withdraw_from_loop(b);
  release(b);
  if (self.branches.first == nullptr && parent.is_waiting() && !parent.is_end_held()) wake(parent, verdict::success);
  unblock_end(parent);
}

/// The first error cancels the others at once; then the parallel() step has its turn.
template <class Face>
[[gnu::noinline]] void group_step<Face>::fail_with(group_step& self, flow& parent, flow& b) {
  const pending_error error = b.pending;
  parent.block_end();  // a cancel handler may cancel the parent
  self.branches.cancel();
  if (raise(parent, error.code, info_of(b), error.target)) copy_exception(b, parent);
  end_execution(b);
  unblock_end(parent);
}

template <class Face>
void group_step<Face>::withdraw(flow& b) noexcept {
  of(b).branches.remove(b);
}

/// A branch of a flow with limits: in the root's memory for branches, see fixed_branch, or in a block.
template <class Face>
[[gnu::noinline]] flow* group_step<Face>::add_limited_branch(limits& limit) {
  if (limit.spare_branch == nullptr && limit.fresh_branches == 0) {
    misuse(*this->flow_, "the flow exceeds nitro::MaxParallel");
    return nullptr;
  }
  flow* b;
  if (limit.may_allocate) {
    b = pooled_branch();
    --limit.fresh_branches;
  } else {
    b = ::new (reserved_branch(limit)) flow(&ops, nullptr, limit.branch.arena, &resume, nullptr);
  }
  b->limit = &limit;
  return b;
}

}  // namespace steps::inline v0_1::detail
