// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>   // for destroy_at
#include <utility>  // for forward

#include "steps/detail/engine/step_record.hpp"      // for discard_results
#include "steps/detail/parallel/pool_parallel.hpp"  // for pool_parallel
#include "steps/detail/root/destroy_root.hpp"       // for help_branches
#include "steps/detail/root/root.hpp"               // for has_extras, destroy_extras

/// parallel(): a step that waits for the end of several flows, its branches: on its own loop, or see pool_parallel.hpp.
namespace steps::detail {

/// The part of a parallel() step that does not depend on its handler.
template <class Face>
struct group_step : Face {
  branch_list branches;
  pool_parallel<group_step>* all = nullptr;  // while the branches are on several loops

  static group_step& of(flow& branch) noexcept { return static_cast<group_step&>(*branch.root.parent_); }

  struct stop_scope : scope {
    static void stop(scope& self) {
      branch_list& list = static_cast<group_step&>(*self.holder).branches;
      flow& f = *self.holder->flow_;
      f.block_end();
      list.cancel();
      if (list.first == nullptr) f.forget_blocker();  // else release() does
    }
    static void left(scope&) noexcept {}
    static constexpr scope_ops ops{scope_ops::kind::cancel, &stop, &left};
  };

  static void run(step& s) {
    flow& f = *s.flow_;
    auto& self = static_cast<group_step&>(s);
    discard_results(f);
    s.flags_ |= record_flag::begun;
    if (self.branches.first == nullptr) return;
    if (f.pool != nullptr && f.limit == nullptr && self.branches.first->list_next != nullptr) {
      pool_parallel<group_step>::start(s, self.branches);
      return f.mark_wait();
    }
    make_scope<stop_scope>(f, s);
    for (flow* b = self.branches.first; b != nullptr; b = b->list_next) {
      b->core = f.core;
      b->pool = f.pool;
      b->run = f.run;
      b->active.set_unseen();  // no other thread knows it
      if (b->has_no_verdict() && f.core->ready().try_reserve()) {
        start_with_place(*b);
      } else {
        detail::start(*b);
      }
    }
    f.mark_wait();
  }

  static void help(step& s) noexcept {
    auto& self = static_cast<group_step&>(s);
    if (self.all != nullptr) return self.all->help();
    flow* const only = self.branches.first;  // several on this loop have none on others
    if (only != nullptr && only->list_next == nullptr) help_branches(*only);
  }

  /// A branch has ended.
  static void end(flow& b) {
    group_step& self = of(b);
    flow& parent = *self.flow_;
    if (b.is_failing()) [[unlikely]]
      return fail_with(self, parent, b);
    if (b.tag != nullptr || has_extras(b)) [[unlikely]]
      return end_with_more(self, parent, b);
    withdraw_from_loop(b);
    give_back(b);
    if (self.branches.first == nullptr && parent.is_waiting()) wake(parent, verdict::success);
  }
  /// What the branch leaves has destructors, which are users' functions and may cancel the parent.
  [[gnu::noinline]] static void end_with_more(group_step& self, flow& parent, flow& b) {
    parent.block_end();
    withdraw_from_loop(b);
    release(b);
    if (self.branches.first == nullptr && parent.is_waiting() && !parent.is_end_held()) {
      wake(parent, verdict::success);
    }
    unblock_end(parent);
  }
  /// The first error cancels the others at once; then the parallel() step has its turn.
  [[gnu::noinline]] static void fail_with(group_step& self, flow& parent, flow& b) {
    const pending_error error = b.pending;
    parent.block_end();  // a cancel handler may cancel the parent
    self.branches.cancel();
    if (raise(parent, error.code, info_of(b), error.target)) copy_exception(b, parent);
    end_execution(b);
    unblock_end(parent);
  }
  static void release(flow& b) noexcept {
    group_step& self = of(b);
    flow& parent = *self.flow_;
    const bool is_awaited = self.branches.first == nullptr && parent.is_end_held();  // before destructors of users
    if (has_extras(b)) [[unlikely]]
      destroy_extras(b);
    give_back(b);
    if (is_awaited) unblock_end(parent);
  }
  /// Of a branch that has nothing outside of its block.
  static void give_back(flow& b) noexcept {
    if (b.run != &resume) [[unlikely]]
      end_turn_of(b);
    limits* const limit = b.limit;
    std::destroy_at(&b);
    if (limit == nullptr) [[likely]] {
      async::detail::free_block(&b, branch_block);
    } else {
      limit->spare_branch = ::new (static_cast<void*>(&b)) void*(limit->spare_branch);
    }
  }
  static constexpr flow_ops ops{&end, &release};

  /// A new branch; null, and the error is known: a flow with fixed memory has no more. Throws std::bad_alloc.
  step* add_branch() {
    flow& f = *this->flow_;
    flow* const b = f.limit == nullptr
                        ? ::new (async::detail::allocate_block(branch_block))
                              flow(&ops, nullptr, branch_block - sizeof(flow), &resume, &end_message::branch_told)
                        : add_fixed_branch(f);
    if (b == nullptr) return nullptr;
    b->root.parent_ = this;
    b->burst = 1;
    b->detach();
    branches.append(*b);
    return &b->root;
  }
  /// Of the root's memory for branches, see fixed_branch.
  [[gnu::noinline]] flow* add_fixed_branch(flow& f) {
    limits& limit = *f.limit;
    void* memory = limit.spare_branch;
    if (memory != nullptr) {
      limit.spare_branch = *static_cast<void**>(memory);
    } else if (limit.fresh_branches != 0) {
      --limit.fresh_branches;
      memory = std::exchange(limit.fresh_branch, limit.fresh_branch + limit.branch.size());
    } else {
      misuse(f, "the flow exceeds nitro::MaxParallel");
      return nullptr;
    }
    flow* const b = ::new (memory) flow(&ops, nullptr, limit.branch.arena, &resume, nullptr);
    b->limit = &limit;
    return b;
  }

  static constexpr std::size_t branch_block = 448;
};

template <class Face, class E>
struct parallel_step final : group_step<Face> {
  template <class H>
  explicit parallel_step(H&& h) : handler(std::forward<H>(h)) {}

  void fail(ErrorCode code) {
    if constexpr (!std::is_same_v<E, no_handler>) handler(*static_cast<Face*>(this), code);
  }

  [[no_unique_address]] E handler;
};

}  // namespace steps::detail
