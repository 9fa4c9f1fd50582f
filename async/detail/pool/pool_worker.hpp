// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>   // for microseconds
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t, uint64_t
#include <new>      // for placement new
#include <thread>   // for thread
#include <utility>  // for exchange, forward, move

#include "async/detail/base/atomics.hpp"      // for atomic, wait_clock
#include "async/detail/base/backoff.hpp"      // for adaptive_spin
#include "async/detail/base/block_cache.hpp"  // for allocate_block
#include "async/detail/pool/hosted_loop.hpp"  // for hosted_loop
#include "async/detail/pool/job.hpp"          // for job
#include "async/detail/pool/loop_slot.hpp"    // for loop_slot
#include "async/detail/pool/participant.hpp"  // for participant, job_deque
#include "async/detail/pool/run_queue.hpp"    // for run_queue
#include "async/detail/pool/sleepers.hpp"     // for sleepers
#include "async/detail/pool/spare_loops.hpp"  // for spare_loops
#include "async/task.hpp"                     // for task

namespace async::detail {

/// A job that holds a task, in a recycled block.
struct boxed_task : job {
  boxed_task(void (*how)(job*), task what) : job{how}, work(std::move(what)) {}

  template <class F>
  static boxed_task* make(void (*how)(job*), F&& f) {
    void* const block = allocate_block(sizeof(boxed_task));
    try {
      return ::new (block) boxed_task(how, task(std::forward<F>(f)));
    } catch (...) {
      free_block(block, sizeof(boxed_task));
      throw;
    }
  }
  static void destroy(boxed_task* box) noexcept {
    box->~boxed_task();
    free_block(box, sizeof(boxed_task));
  }

  task work;
};

/// Decides when a thread that runs tasks and loops looks at the clock: every 20 to 50 microseconds, counted in calls,
/// or at each call if what runs in between takes longer. One thread's.
class clock_look {
 public:
  using time_point = wait_clock::time_point;

  /// Whether it is time to look.
  bool is_due() noexcept { return ++calls_ >= per_look_; }
  /// Makes the next call due.
  void hurry() noexcept { per_look_ = 1; }
  /// To be called with the time of a look.
  void looked(time_point now) noexcept {
    calls_ = 0;
    const auto since = now - std::exchange(last_, now);
    if (since > std::chrono::microseconds(50)) {
      per_look_ = per_look_ > 4 ? per_look_ / 4 : 1;
    } else if (since < std::chrono::microseconds(20) && per_look_ < 256) {
      per_look_ *= 2;
    }
  }

 private:
  time_point last_{};
  std::uint32_t calls_ = 0;
  std::uint32_t per_look_ = 1;
};

/// A worker: its part in the pool, the loops that it is to turn, and its thread.
///
/// It outlives the thread, and gets another one when the pool grows again. So worker number `index` is always the same
/// object.
struct worker : participant {
  worker(pool_core& owner, std::size_t number, sleepers& s, const pool_timers& timers,
         void (*wake)(hosted_loop&) noexcept)
      : participant(owner, number, this, s), own_loop(owner, own_slot, timers, false, wake) {}

  /// Own thread only: whether the crew asks the thread to end.
  bool is_exit_requested() const noexcept {
    return exit_requested.load(std::memory_order_relaxed);  // relaxed: confirm_exit() asks again, under the mutex
  }
  /// Own thread only: takes its newest job, the usual case of tasks that post tasks. Null: there is none, or it is time
  /// to look at other sources.
  job_deque::element next_own() noexcept {
    if ((turn + 1) % injector_share == 0 || is_exit_requested()) return {};
    ++turn;
    return own.pop();
  }
  static constexpr std::uint32_t injector_share = 61;  // one in so many takes looks at the injector first

  std::uint32_t turn = 0;                // own thread only: counts takes of tasks, and of these only
  std::uint32_t loop_turn = 0;           // own thread only: counts takes of loops
  atomic<bool> trim_requested{false};    // set by any thread; the own thread trims its deque and clears it
  atomic<bool> exit_requested{false};    // written under the crew's mutex, read by the own thread
  wait_clock::time_point flows_since{};  // own thread only: see flow_watch
  atomic<bool> is_in_task{false};        // written by the own thread
  adaptive_spin searches;                // own thread only
  loop_slot own_slot;                    // of own_loop
  hosted_loop own_loop;                  // what pool.loop(index) names; any worker runs it
  run_queue<loop_slot> ready;            // loops that have work; others take from it, too
  spare_loops spares;                    // own thread only
  hosted_loop* in_hand = nullptr;        // own thread only: a spare loop that it has, for the flows that it starts next
  clock_look looks;                      // own thread only: when to compare the pool's timers with the clock
  atomic<std::uint64_t> turns{0};        // of loops; written by the own thread
  atomic<std::uint64_t> moves{0};        // likewise: of loops whose last turn another worker ran
  std::uint64_t turns_seen = 0;          // own thread only: turns of all workers at its last sleep
  bool watches = false;                  // own thread only: see loop_watch
  pool_timers::time_point covers = pool_timers::never;  // own thread only: it sleeps no longer than that
  bool has_thread = false;  // guarded by the crew's mutex: there is a thread that has not confirmed its exit
  std::thread thread;       // guarded by the crew's mutex: the latest thread
  std::thread before;       // the thread before that, which the latest joins before it begins
};

/// The worker whose thread this is; null: none.
inline constinit thread_local worker* this_worker = nullptr;

/// The pool whose task this thread runs; null: none. Differs from this_worker's pool while a worker helps another pool.
inline constinit thread_local pool_core* this_pool = nullptr;

/// The pool whose left-over tasks this thread runs after the pool's threads have ended; null: none.
inline constinit thread_local pool_core* left_over_of = nullptr;

}  // namespace async::detail
