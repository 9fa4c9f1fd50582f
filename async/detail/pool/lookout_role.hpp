// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint64_t

#include "async/detail/base/atomics.hpp"          // for wait_clock
#include "async/detail/base/config.hpp"           // for ASYNCSTEPS_FUNCTION
#include "async/detail/pool/lookout.hpp"          // for lookout
#include "async/detail/pool/pool_core.hpp"        // for pool_core, worker, pool_loop
#include "async/detail/pool/pool_loops.hpp"       // for run_loop
#include "async/detail/pool/pool_queues.hpp"      // for loop_waits
#include "async/detail/pool/priority_queues.hpp"  // for priority_queues
#include "async/detail/pool/run_queue.hpp"        // for run_queue
#include "async/detail/pool/seat.hpp"             // for this_seat, pool_registry

/// The life of a pool's lookout: run_lookout().
namespace async::inline v0_1::detail {

/// The duty of the lookout. It turns loops while tasks keep all workers and either a timer is 10 ms late, or loops have
/// waited for 10 ms in which no worker has turned any.
///
/// The thread is no worker. What it schedules goes to the backlog, and what a step posts to the injector, so that both
/// wait in the order in which they came, and for no particular thread.
class pool_core::lookout_role {
 public:
  explicit lookout_role(pool_core& pool) noexcept : pool_(pool) {}

  /// Until the pool ends, or has needed no lookout for a while.
  void keep_duty() {
    bool have_waited = false;
    seen_turns_ = turns_of_workers();
    for (unsigned quiet = 0; quiet != most_quiet && pool_.lookout_.nap();) {
      if (!pool_.needs_lookout()) {
        ++quiet;
        have_waited = false;
        continue;
      }
      quiet = 0;
      if (are_timers_late() || (have_waited && have_stood())) turn_loops();
      have_waited = pool_.has_loops();
      seen_turns_ = turns_of_workers();
    }
  }

 private:
  static constexpr unsigned most_quiet = 5;  // looks
  static constexpr unsigned turns_per_look = 64;

  /// Of loops, by all workers.
  std::uint64_t turns_of_workers() const noexcept {
    std::uint64_t turns = 0;
    pool_.crew_.for_each([&turns](const worker& w) noexcept {
      turns += w.turns.load(std::memory_order_relaxed);  // relaxed: a figure
    });
    return turns;
  }
  bool have_stood() const noexcept { return turns_of_workers() == seen_turns_; }
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
    do {
      pool_.fire_timers_now(wait_clock::now(), pool_timers::batch, nullptr);
      for (unsigned left = turns_per_look; left != 0 && pool_.idle() == 0; --left) {
        pool_loop* const h = take_loop();
        if (h == nullptr) break;
        pool_.lookout_.count_turn();
        pool_.run_loop(nullptr, *h);
        // What it posts is not to wait in a deque of its own. No effect while jobs lie there: workers steal them.
        if (this_seat.pool != 0) pool_registry::instance().vacate(this_seat);
      }
    } while (pool_.needs_lookout() && (are_timers_late() || (have_stood() && pool_.has_loops())));
  }

  /// Takes the oldest loop of high priority, else of the backlog, else of a worker, else of low priority. Null: there
  /// is none.
  pool_loop* take_loop() noexcept {
    priority_queues::both* const others = pool_.priorities_.find();
    pool_loop* h = others != nullptr ? others->high.take_loop() : nullptr;
    if (h != nullptr) return h;
    if (loop_slot* const oldest = pool_.backlog_.take(1)) return oldest->loop;
    loop_slot* stolen = nullptr;
    pool_.crew_.any_of(next_victim_++, [this, &stolen](worker& victim) noexcept {
      if (!victim.ready.empty()) stolen = own_.steal_half(victim.ready);
      return stolen != nullptr;
    });
    while (loop_slot* const rest = own_.take()) pool_.backlog_.push(*rest);
    if (stolen != nullptr) return stolen->loop;
    return others != nullptr ? others->low.take_loop() : nullptr;
  }

  pool_core& pool_;
  std::uint64_t seen_turns_ = 0;  // of workers, at the last look
  std::size_t next_victim_ = 0;
  run_queue<loop_slot> own_;  // empty, but in take_loop()
};

/// Whether all workers are busy, and one is inside a task. Not in a pool of one thread, whose user may rely on it that
/// tasks and flows do not run at the same time.
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

ASYNCSTEPS_FUNCTION void pool_core::run_lookout() {
  constexpr std::size_t index = 0;
  const inside here(this);
  worker_loop = &crew_.loop(index).core();
  const struct end {
    pool_core& pool;
    ~end() {
      pool.hooks_.stopping(index);
      pool.end_if_left_behind();
      worker_loop = nullptr;
    }
  } at_end{*this};
  quiescence_.helper_arrived();
  hooks_.started(index);
  end_if_left_behind();
  quiescence_.helper_left();
  idle_.notify();
  lookout_role role(*this);
  do {
    role.keep_duty();
  } while (lookout_.rest([this]() noexcept { return needs_lookout(); }));
}

}  // namespace async::inline v0_1::detail
