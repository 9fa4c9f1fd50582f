// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for min
#include <chrono>     // for milliseconds
#include <cstddef>    // for size_t
#include <new>        // for placement new
#include <thread>     // for thread
#include <utility>    // for exchange, forward, move

#include "async/detail/base/atomics.hpp"      // for atomic, wait_clock
#include "async/detail/base/backoff.hpp"      // for adaptive_spin
#include "async/detail/base/block_cache.hpp"  // for allocate_block
#include "async/detail/pool/hosted_loop.hpp"  // for hosted_loop, driven_loops
#include "async/detail/pool/job.hpp"          // for job
#include "async/detail/pool/participant.hpp"  // for participant, job_deque
#include "async/detail/pool/sleepers.hpp"     // for sleepers
#include "async/task.hpp"                     // for task

namespace async::detail {

/// A task in a recycled block, as a job.
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

/// Whether a worker of a pool that stops has only flows left that go on without waiting: it has found no task in turns
/// of its loops that took 100 ms, of which no more than 5 ms count for one: the thread may have been kept from running.
///
/// Threads     are_all(): any, a guess; the others: the worker's.
class flow_watch {
 public:
  /// After a turn, when there is no task and the loops have work.
  void go_on() noexcept {
    constexpr wait_clock::duration most_of_one = std::chrono::milliseconds(5);
    const wait_clock::time_point now = wait_clock::now();
    if (std::exchange(going_, true)) spent_ += (std::min)(now - last_, most_of_one);
    last_ = now;
    if (spent_ > std::chrono::milliseconds(100)) all_.store(true, std::memory_order_relaxed);  // relaxed: a guess
  }
  /// The worker has a task, or its loops rest.
  void end() noexcept {
    if (!going_) return;
    going_ = false;
    spent_ = {};
    all_.store(false, std::memory_order_relaxed);  // relaxed: a guess
  }
  bool are_all() const noexcept { return all_.load(std::memory_order_relaxed); }  // relaxed: a guess

 private:
  bool going_ = false;
  wait_clock::time_point last_{};
  wait_clock::duration spent_{};
  atomic<bool> all_{false};
};

/// A worker: its part in the pool, its event loop and its thread.
///
/// It outlives the thread, and the pool uses it again when it grows: number `index` of the pool's workers is always
/// this one.
struct worker : participant {
  worker(pool_core& owner, std::size_t number, sleepers& s) : participant(owner, number, this, s), home(*this, &wake) {}

  static void wake(worker& w) noexcept { w.all.wake(w.parking_slot); }

  /// Own thread only: the crew wants it to end.
  bool is_to_retire() const noexcept {
    return exit_requested.load(std::memory_order_relaxed);  // relaxed: leave() asks again, under the mutex
  }
  /// Own thread only: the crew wants it to end, or to take loops over or give them away.
  bool is_called() const noexcept {
    return is_to_retire() || review.load(std::memory_order_relaxed);  // relaxed: asked again under the mutex
  }

  /// Own thread only: its newest job, in front of all else that it might do. None: there is none, or it is time to look
  /// at the rest. The usual case of tasks that post tasks.
  job_deque::element next_own() noexcept {
    if ((turn + 1) % feed_share == 0 || is_to_retire()) return {};
    ++turn;
    return own.pop();
  }
  static constexpr std::uint32_t feed_share = 61;  // of so many turns, one begins with the tasks from outside

  std::uint32_t turn = 0;              // own thread only
  atomic<bool> exit_requested{false};  // written under the crew's mutex, read by the own thread
  atomic<bool> review{false};          // likewise: loops are to be taken over or given away
  flow_watch flows;                    // written by the own thread while the pool stops
  adaptive_spin searches;              // own thread only
  hosted_loop home;
  driven_loops loops;            // own thread only
  hosted_loop* given = nullptr;  // guarded by the crew's mutex: loops that it is to drive
  bool has_thread = false;       // guarded by the crew's mutex: one that has not noticed that it is to retire
  std::thread thread;            // guarded by the crew's mutex; the latest
  std::thread before;            // its thread that has ended, which the next one joins before it begins
};

/// The worker whose thread this is.
inline constinit thread_local worker* this_worker = nullptr;

/// The pool whose task this thread runs; differs from this_worker's pool in a thread that helps another pool.
inline constinit thread_local pool_core* this_pool = nullptr;

/// The pool whose last tasks this thread runs, after the pool's threads have gone.
inline constinit thread_local pool_core* left_over_of = nullptr;

}  // namespace async::detail
