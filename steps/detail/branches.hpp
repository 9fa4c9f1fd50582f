// SPDX-License-Identifier: BSL-1.0
// floor: 11
#pragma once
#include <cstddef>  // for byte, size_t
#include <cstdint>  // for uint32_t
#include <utility>  // for forward

#include "steps/detail/root.hpp"         // for destroy_flow, flow_block
#include "steps/detail/step_record.hpp"  // for ops_of

/// parallel(): a step that waits for the end of several flows, its branches, which live on the same loop.
namespace steps::detail {

/// The branches that have not ended, in the order added.
struct branch_list {
  branch_list() = default;
  branch_list(const branch_list&) = delete;
  branch_list& operator=(const branch_list&) = delete;
  ~branch_list() { cancel(); }  // of a step that has not run

  /// Before they are started, and none has been removed.
  void append(flow& b) noexcept {
    b.list_next = nullptr;
    b.list_prev = last;
    *last = &b;
    last = &b.list_next;
  }
  /// Cancels those that execute, and destroys all.
  void cancel() noexcept {
    while (first != nullptr) {
      if (first->at == phase::idle) {
        drop_steps(*first, arena_of(*first), first->root.sub_end_);
        unlist(*first);
        first->ops->release(*first);
      } else {
        cancel_now(*first);
      }
    }
  }

  flow* first = nullptr;
  flow** last = &first;
};

/// The parent's error is the branch's.
inline void copy_exception(flow& branch, flow& parent) noexcept {
  if (branch.state == nullptr || state_access::exception(*branch.state) == nullptr) return;
  try {
    State& to = state_of(parent);
    state_access::exception(to) = state_access::exception(*branch.state);
    state_access::own_exception(to) = state_access::own_exception(*branch.state);
  } catch (...) {  // no memory: the error itself is known
    return;
  }
}

/// What a branch takes of the arena of a flow with fixed memory.
constexpr std::size_t fixed_branch_size(std::size_t arena, std::size_t texts) noexcept {
  return sizeof(record) + sizeof(flow) + arena + sizeof(State) + texts;
}

/// The part of a parallel() step that does not depend on its handler.
template <class Face>
struct group_step : Face {
  branch_list branches;

  static group_step& of(flow& branch) noexcept { return static_cast<group_step&>(*branch.root.parent_); }

  struct stop_scope : scope {
    static void stop(scope& self) { static_cast<group_step&>(*self.holder).branches.cancel(); }
    static void left(scope&) noexcept {}
    static constexpr scope_ops ops{scope_ops::kind::cancel, &stop, &left};
  };

  static void run(step& s) {
    flow& f = *s.flow_;
    auto& self = static_cast<group_step&>(s);
    clear_results(f);
    s.flags_ |= record_flag::begun;
    if (self.branches.first == nullptr) return;
    make_scope<stop_scope>(f, s);
    for (flow* b = self.branches.first; b != nullptr; b = b->list_next) {
      b->core = f.core;
      detail::start(*b);
    }
    f.signal(signal::wait);
  }

  /// A branch has ended. The first error cancels the others at once.
  static void end(flow& b) {
    group_step& self = of(b);
    flow& parent = *self.flow_;
    const bool failed = b.signal() == signal::error;
    if (failed && raise(parent, b.pending.code, info_of(b), b.pending.target)) {
      copy_exception(b, parent);
    }
    settle(b);
    if (failed) {
      self.branches.cancel();
    } else if (self.branches.first == nullptr && parent.at == phase::parked) {
      make_ready(parent, signal::done);
    }
  }
  static void release(flow& b) noexcept {
    limits* const limit = b.limit;
    destroy_flow(b);
    if (limit == nullptr) {
      async::detail::free_block(&b, branch_block);
    } else {
      ++limit->branches;
    }
  }
  static constexpr flow_ops ops{&end, &release};

  /// A new branch; null, and the error is known: a flow with fixed memory has no more. Throws std::bad_alloc.
  step* add_branch() {
    flow& f = *this->flow_;
    flow* const b = f.limit == nullptr ? ::new (async::detail::allocate_block(branch_block))
                                             flow(&ops, branch_block - sizeof(flow), &resume, nullptr)
                                       : add_fixed_branch(f);
    if (b == nullptr) return nullptr;
    b->root.parent_ = this;
    b->burst = 1;
    b->doomed = true;
    branches.append(*b);
    return &b->root;
  }
  /// In the arena: record, flow, its arena, its state, the state's texts.
  flow* add_fixed_branch(flow& f) {
    limits& limit = *f.limit;
    const std::size_t arena = limit.branch_size;
    const std::size_t size = fixed_branch_size(arena, limit.texts_size);
    if (!take_limited(f, &limits::branches, size, "the flow exceeds nitro::MaxParallel")) return nullptr;
    auto* const memory = static_cast<std::byte*>(allocate(f, size));
    if (f.at == phase::idle) f.root.sub_end_ = f.top;
    ::new (memory) record{static_cast<std::uint32_t>(size), 0, 0};
    flow* const b = ::new (memory + sizeof(record)) flow(&ops, arena, &resume, nullptr);
    b->limit = &limit;
    std::byte* const behind = arena_of(*b) + arena;
    b->state = state_access::make(behind, *b, &state_access::root(state_of(f)), &limit.values);
    state_access::use_buffer(*b->state, reinterpret_cast<char*>(behind + sizeof(State)), limit.texts_size);
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
