// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "steps/detail/root/root.hpp"  // for cancel_outside_turn, unlist

/// The branches of a parallel() step.
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
  /// Cancels those that execute, and destroys all but those that are in a callback, and their ancestors: their end
  /// comes when the callback has returned.
  void cancel() noexcept {
    for (flow* b = first; b != nullptr;) {
      if (b->is_running()) {
        cancel_in_turn(*b);
        b = b->list_next;
      } else if (b->is_cancel_held()) {
        b = b->list_next;
      } else {
        if (b->is_idle()) {
          discard(*b);
        } else {
          cancel_outside_turn(*b);
        }
        b = first;
      }
    }
  }

  flow* first = nullptr;
  flow** last = &first;

 private:
  static void discard(flow& b) noexcept {
    destroy_built_steps(b);
    unlist(b);
    b.ops->release(b);
  }
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

}  // namespace steps::detail
