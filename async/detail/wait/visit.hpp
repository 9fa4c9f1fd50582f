// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for int64_t
#include <utility>  // for exchange, move, swap

#include "async/detail/base/config.hpp"     // for ASYNCSTEPS_FUNCTION
#include "async/detail/pool/pool_core.hpp"  // for pool_core, participant
#include "async/detail/pool/seat.hpp"       // for this_seat, other_seats, keep_seats, pool_registry
#if ASYNCSTEPS_DEFINED
#include "async/detail/base/min_max.hpp"     // for min_of
#include "async/detail/pool/work_apart.hpp"  // for work_apart
#include "async/detail/wait/pool_wait.hpp"   // for take_seat
#endif

namespace async::inline v0_1::detail {

/// While it lives, the calling thread has a part in the pool: its worker's, or a seat. A thread from outside keeps its
/// seats in up to four pools, so that the next visit costs a few loads.
class visit {
 public:
  /// Throws std::bad_alloc and, in a child of fork(), stopped_by_fork.
  [[gnu::always_inline]] explicit visit(pool_core& pool) : part_(pool.own_worker()) {
    if (part_ == nullptr) [[unlikely]]
      enter(pool);
  }
  [[gnu::always_inline]] ~visit() {
    if (part_->as_worker == nullptr) [[unlikely]]
      leave();
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;

  participant& part() const noexcept { return *part_; }

 private:
  void enter(pool_core& pool);
  void leave() noexcept;

  /// Makes the thread's seat in the pool the current one; takes one if there is none.
  participant& sit_down(pool_core& pool);
  static bool vacate(seat& s) noexcept { return s.pool == 0 || pool_registry::instance().vacate(s); }

  participant* part_;
  seat* parked_ = nullptr;  // holds the seat that was the current one
  bool is_extra_ = false;
  seat before_;         // of an extra seat: the seat that was the current one
  pool_around hidden_;  // likewise: its pool
};

/// A visit in which the thread runs tasks or parts of tasks: it counts as inside the pool.
class working_visit : public visit {
 public:
  [[gnu::always_inline]] explicit working_visit(pool_core& pool) : visit(pool) {
    if (part().as_worker == nullptr) [[unlikely]]
      come_inside();
  }
  [[gnu::always_inline]] ~working_visit() {
    if (part().as_worker == nullptr) [[unlikely]]
      go_outside();
  }

 private:
  void come_inside() noexcept;
  void go_outside() noexcept;

  bool was_outside_;        // set unless the part is a worker's
  pool_core* before_;       // set if the thread was outside
  std::int64_t made_from_;  // likewise
};

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void visit::enter(pool_core& pool) {
  pool.refuse_if_left_behind();
  part_ = pool.own_part();
  if (part_ == nullptr) part_ = &sit_down(pool);
  ++this_seat.uses;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void visit::leave() noexcept {
  --this_seat.uses;
  if (is_extra_) {
    this_seat.place->leave();
    hidden_.end();
    this_seat = before_;
  } else if (parked_ != nullptr) {
    std::swap(this_seat, *parked_);
  }
}

ASYNCSTEPS_FUNCTION participant& visit::sit_down(pool_core& pool) {
  for (seat& s : other_seats) {
    if (s.pool != pool.number()) continue;
    parked_ = &s;
    std::swap(this_seat, s);
    return *this_seat.place;
  }
  guest& place = pool.take_seat();
  if (keep_seats()) {
    const auto park_in = [&](seat& s) noexcept {
      parked_ = &s;
      s = std::exchange(this_seat, {pool.number(), &place, 0});
    };
    if (this_seat.pool != 0) {  // it is kept while there is room
      for (seat& s : other_seats) {
        if (s.pool == 0 || pool_registry::instance().forget_if_gone(s)) return park_in(s), place;
      }
    }
    if (vacate(this_seat)) {
      this_seat = {pool.number(), &place, 0};
      return place;
    }
    for (seat& s : other_seats) {
      if (vacate(s)) return park_in(s), place;
    }
  }
  is_extra_ = true;  // all seats are in use, or the thread is ending: this seat is for the visit only
  before_ = this_seat;
  hidden_.begin(before_.uses != 0 ? before_.pool : 0);
  this_seat = {pool.number(), &place, 0};
  return place;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void working_visit::come_inside() noexcept {
  pool_core& pool = part().pool;
  was_outside_ = !pool.is_inside();
  if (!was_outside_) return;
  before_ = pool.come_inside();
  made_from_ = std::exchange(part().made_from, part().own.position());  // earlier visits have made what lies there
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void working_visit::go_outside() noexcept {
  part().pool.end_if_left_behind();
  if (!was_outside_) return;
  part().made_from = min_of(made_from_, part().own.position());
  part().pool.go_outside(before_);
}

ASYNCSTEPS_FUNCTION void pool_core::run_on_poster(task& work) {
  const work_apart from_those_around;
  const working_visit here(*this);
  if (shutdown_.has_begun()) return refuse(work);  // a stop() that misses this thread has begun before the visit
  taken t;
  t.plain = std::move(work);
  run(&here.part(), t);
}
#endif

}  // namespace async::inline v0_1::detail
