// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange

#include "async/detail/pool/participant.hpp"  // for participant
#include "async/detail/pool/pool_core.hpp"    // for notify_waiters
#include "async/detail/pool/pool_worker.hpp"  // for this_pool, this_worker

/// When a thread may hold a task_credit.
namespace async::inline v0_1::detail {

/// To be called by a thread between the tasks of a group and whatever else it does.
inline void settle_credit(participant& p) noexcept {
  if (p.credit.settle()) p.pool.notify_waiters();
}

/// The same for a thread that may be a worker of one pool and run a task of another.
inline void settle_credits() noexcept {
  if (this_worker != nullptr) settle_credit(*this_worker);
  participant* const seat = this_pool == nullptr ? nullptr : this_pool->own_part();
  if (seat != nullptr) settle_credit(*seat);
}

/// While it lives, the thread runs tasks one behind the other, and may hold a credit for their group.
class credit_turn {
 public:
  explicit credit_turn(participant& p) noexcept : part_(p), before_(std::exchange(p.credit.is_open, true)) {}
  ~credit_turn() {
    part_.credit.is_open = before_;
    settle_credit(part_);
  }
  credit_turn(const credit_turn&) = delete;
  credit_turn& operator=(const credit_turn&) = delete;

 private:
  participant& part_;
  const bool before_;
};

/// Settles; while it lives, the thread counts the tasks of groups one by one. Null: it has no part in the pool.
class no_credit {
 public:
  explicit no_credit(participant* p) noexcept
      : part_(p), before_(p != nullptr && std::exchange(p->credit.is_open, false)) {
    if (p != nullptr) settle_credit(*p);
  }
  ~no_credit() {
    if (part_ != nullptr) part_->credit.is_open = before_;
  }
  no_credit(const no_credit&) = delete;
  no_credit& operator=(const no_credit&) = delete;

 private:
  participant* const part_;
  const bool before_;
};

}  // namespace async::inline v0_1::detail
