// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint64_t

#include "async/detail/base/atomics.hpp"           // for heavy_fence, wait_clock
#include "async/detail/base/config.hpp"            // for ASYNCSTEPS_FUNCTION
#include "async/detail/pool/guest_attendance.hpp"  // for guest_attendance
#include "async/detail/pool/lookout.hpp"           // for lookout
#include "async/detail/pool/pool_core.hpp"         // for pool_core, worker, pool_loop
#include "async/detail/pool/pool_loops.hpp"        // for run_loop
#include "async/detail/pool/pool_queues.hpp"       // for loop_waits
#include "async/detail/pool/priority_queues.hpp"   // for priority_order
#include "async/detail/pool/run_queue.hpp"         // for run_queue
#include "async/detail/pool/seat.hpp"              // for this_seat, pool_registry

/// The life of a pool's lookout: run_lookout().
namespace async::inline v0_1::detail {

/// The duty of the lookout. It turns loops while tasks keep all workers and either a timer is 10 ms late, or loops have
/// waited for 10 ms in which no worker has turned any, or a worker that has loops has turned none.
///
/// The thread is no worker. What it schedules goes to the backlog, and what a step posts to the injector, so that both
/// wait in the order in which they came, and for no particular thread. While the pool stops, what a step posts goes to
/// the thread's own deque, tagged as a flow's, from which workers steal it.
class pool_core::lookout_role {
 public:
  /// `home`: the thread's part in the pool, for steps that block.
  explicit lookout_role(guest& home) noexcept : pool_(home.pool), home_(home) {}

  /// Until the pool ends, or has needed no lookout for a while, or has another one.
  void keep_duty() {
    bool have_waited = false;
    note_turns();
    for (unsigned quiet = 0; quiet != most_quiet && pool_.lookout_.nap() && !pool_.lookout_.is_surplus();) {
      if (!pool_.needs_lookout()) {
        ++quiet;
        have_waited = false;
        continue;
      }
      quiet = 0;
      if (are_timers_late() || (have_waited && have_stood())) turn_loops();
      have_waited = pool_.has_loops();
      note_turns();
    }
  }

 private:
  static constexpr unsigned most_quiet = 5;  // looks
  static constexpr unsigned turns_per_look = 64;
  static constexpr unsigned takes_per_steal = 8;

  void note_turns() noexcept {
    seen_turns_ = pool_.crew_.turns();
    // relaxed, as below: a guess
    pool_.crew_.for_each([](worker& w) noexcept {
      const std::uint64_t turns = w.ready.empty() ? worker::had_no_loops : w.turns.load(std::memory_order_relaxed);
      w.turns_at_lookout.store(turns, std::memory_order_relaxed);
    });
  }
  /// Since the last look no worker has turned a loop; or one that had loops then, and has some now, has turned none.
  bool have_stood() const noexcept {
    return pool_.crew_.turns() == seen_turns_ || pool_.crew_.any_of(0, [](worker& w) noexcept {
      return !w.ready.empty() &&
             w.turns.load(std::memory_order_relaxed) == w.turns_at_lookout.load(std::memory_order_relaxed);
    });
  }
  bool are_timers_late() const noexcept {
    const pool_timers::time_point first = pool_.timers_.next();
    return first != pool_timers::never && first + lookout::interval <= wait_clock::now();
  }

  /// Until none waits, or workers turn them again.
  void turn_loops() {
    pool_.quiescence_.helper_arrived();
    const struct end_of_work {
      pool_core& pool;
      ~end_of_work() {
        pool.quiescence_.helper_left();
        pool.sleepers_.notify(&loop_waits);
        pool.idle_.notify();
      }
    } at_end{pool_};
    bool are_more = false;
    do {
      are_more = pool_.fire_timers_now(wait_clock::now(), pool_timers::batch, nullptr);
      for (unsigned left = turns_per_look; left != 0 && pool_.needs_lookout(); --left) {
        pool_loop* const h = take_loop();
        if (h == nullptr) break;
        pool_.lookout_.count_turn();
        pool_.before_functions();
        keep_from_waits();
        pool_.run_loop(nullptr, *h);
        if (home_.is_polling) pool_.stop_polling(home_);
        // What it posts is not to wait in a deque of its own. No effect while jobs lie there: workers steal them.
        if (this_seat.pool != 0) pool_registry::instance().vacate(this_seat);
        if (pool_.lookout_.is_surplus()) return;
      }
    } while (pool_.needs_lookout() && (are_more || are_timers_late() || (have_stood() && pool_.has_loops())));
  }

  /// Jobs that earlier steps have left in the lookout's deque are for workers, which steal them, and not for the waits
  /// of the next step.
  void keep_from_waits() const noexcept {
    if (this_seat.pool == pool_.number()) this_seat.place->made_from = this_seat.place->own.position();
  }

  /// Takes a loop, in the order of priorities. Null: there is none.
  pool_loop* take_loop() noexcept {
    return order_.take_loop(pool_.priorities_.find(), [this]() noexcept { return take_normal(); });
  }
  /// Takes the oldest loop of the backlog, or of a worker; now and then that one first, since what this thread turns
  /// comes back to the backlog.
  pool_loop* take_normal() noexcept {
    const bool worker_first = takes_++ % takes_per_steal == 0;
    loop_slot* next = worker_first ? steal() : nullptr;
    if (next == nullptr) next = pool_.backlog_.take(1);
    if (next == nullptr && !worker_first) next = steal();
    return next != nullptr ? next->loop : nullptr;
  }
  /// Takes half of a worker's loops. The others go to the backlog.
  loop_slot* steal() noexcept {
    loop_slot* stolen = nullptr;
    pool_.crew_.any_of(next_victim_++, [this, &stolen](worker& victim) noexcept {
      if (!victim.ready.empty()) stolen = own_.steal_half(victim.ready);
      return stolen != nullptr;
    });
    const bool are_more = !own_.empty();
    while (loop_slot* const rest = own_.take()) pool_.backlog_.push(*rest);
    if (are_more) pool_.sleepers_.notify(&loop_waits);
    return stolen;
  }

  pool_core& pool_;
  guest& home_;
  std::uint64_t seen_turns_ = 0;  // of workers, at the last look
  priority_order order_;
  unsigned takes_ = 0;
  std::size_t next_victim_ = 0;
  run_queue<loop_slot> own_;  // empty, but in steal()
};

/// Whether all workers are busy, and one is inside a task. Not in a pool of one thread, whose user may rely on tasks
/// and flows not running at the same time.
ASYNCSTEPS_FUNCTION bool pool_core::needs_lookout() const noexcept {
  return idle() == 0 && crew_.size() > 1 && crew_.is_in_task();
}

ASYNCSTEPS_FUNCTION void pool_core::call_lookout_if_needed() noexcept {
  if (needs_lookout()) lookout_.call([this] { run_lookout(); });
}

/// To be called where a loop has work, or is made, for the first time.
ASYNCSTEPS_FUNCTION void pool_core::begin_use_of_loops() noexcept {
  lookout_.begin_use();
  call_lookout_if_needed();
}

/// To be called where a lookout may be missed although no worker has begun a task or turn.
ASYNCSTEPS_FUNCTION void pool_core::review_lookout() noexcept {
  // Not before a loop has work, nor while a lookout is on duty: begin_use() and rest() make a heavy fence, and then
  // look themselves.
  if (!lookout_.may_be_missed()) return;
  heavy_fence();  // pairs with the light fence of may_be_missed()
  post_lookout();
}

ASYNCSTEPS_FUNCTION void pool_core::run_lookout() {
  const inside here(this);
  if (!guest_attendance::arrive(*this)) return;
  guest* home = nullptr;
  try {
    home = &take_seat();
  } catch (...) {  // without memory: a later one tries again
    guest_attendance::leave(*this);
    return lookout_.pause_starts();
  }
  guest_attendance attendance(*home, guest_attendance::role::looks_out, 0);
  attendance.call_start_hook();
  guest_attendance::leave(*this);
  lookout_role role(*home);
  do {
    role.keep_duty();
  } while (lookout_.rest([this]() noexcept { return lookout_.may_be_missed() && needs_lookout(); }));
}

}  // namespace async::inline v0_1::detail
