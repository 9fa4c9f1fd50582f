// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t
#include <utility>  // for exchange

#include "async/detail/scope/task_count.hpp"  // for task_count

namespace async::inline v0_1::detail {

/// Tasks that a group counts although they are done: a thread that runs tasks of one group, one behind the other, puts
/// the ends of these tasks here, and takes from here what they fork. Two threads in one group would otherwise take the
/// line of its count from each other with every task.
///
/// The group is not done while there is a credit for it, and so outlives it. The thread settles before it does anything
/// else than run tasks of this group: nobody waits for the group in vain.
///
/// Threads     not thread-safe: one thread's.
/// Progress    wait-free.
class task_credit {
 public:
  /// Whether the thread runs tasks one behind the other, and settles soon.
  bool is_open = false;

  bool is_for(const task_count& group) const noexcept { return group_ == &group; }
  /// Whether it may stay while the thread runs a task of this scope: it is for its group, or empty.
  bool may_stay(const void* scope) const noexcept { return group_ == nullptr || scope_ == scope; }

  /// If it is for the group or empty: a task of the group is done.
  void put(task_count& group, const void* scope) noexcept {
    group_ = &group;
    scope_ = scope;
    ++count_;
  }
  /// If it is for the group: one of its tasks forks another one.
  void take() noexcept {
    if (--count_ == 0) group_ = nullptr;
  }

  /// Gives the credit back. True: the group is done, and the caller must wake a sleeping thread.
  bool settle() noexcept {
    task_count* const group = std::exchange(group_, nullptr);
    return group != nullptr && group->finish(std::exchange(count_, 0U));
  }

 private:
  task_count* group_ = nullptr;  // null: there is no credit
  const void* scope_ = nullptr;
  std::uint64_t count_ = 0;
};

}  // namespace async::inline v0_1::detail
