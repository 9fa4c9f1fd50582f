// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t, uint64_t, int64_t

#include "async/detail/base/atomics.hpp"         // for atomic
#include "async/detail/base/config.hpp"          // for no_sharing
#include "async/detail/pool/job.hpp"             // for job
#include "async/detail/pool/sleepers.hpp"        // for sleepers
#include "async/detail/pool/stealing_deque.hpp"  // for stealing_deque
#include "async/detail/scope/scope_cache.hpp"    // for task_scope

namespace async::detail {

class pool_core;
struct worker;

using job_deque = stealing_deque<job, task_scope>;

/// A thread's part in a pool: the deque of the jobs that it has made, and where it sleeps. A worker has one, a
/// stand-in, and each thread outside the pool that forks and joins in it.
///
/// It outlives the thread, since thieves may look at it at any time.
struct alignas(no_sharing) participant {
  participant(pool_core& owner, std::size_t number, worker* w, sleepers& s)
      : pool(owner),
        index(number),
        as_worker(w),
        stands_for(number),
        random(static_cast<std::uint32_t>(number)),
        all(s) {}
  participant(const participant&) = delete;
  participant& operator=(const participant&) = delete;

  /// Counts on one of the own thread's counters.
  static void count(atomic<std::uint64_t>& counter) noexcept {
    // relaxed: one writer, and readers want a figure only
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Own thread only: a number for where to begin stealing.
  std::uint32_t next_random() noexcept {
    random = random * 1664525U + 1013904223U;
    return random >> 8;
  }

  pool_core& pool;
  const std::size_t index;
  worker* const as_worker;       // null: not a worker
  std::size_t stands_for;        // own thread only: the worker's index, that of the worker for whom a stand-in stands
  bool is_stand_in = false;      // own thread only
  bool is_polling = false;       // own thread only: its current task polls for what another one is to do
  std::uint32_t random;          // own thread only
  job_deque own;                 // what a thread leaves in it when it ends is stolen by the others
  std::int64_t made_from = 0;    // own thread only: where in the deque the jobs begin that its current task has made
  atomic<std::uint64_t> ran{0};  // written by the own thread
  atomic<std::uint64_t> steals{0};  // written by the own thread
  atomic<std::uint64_t> parks{0};   // written by the own thread
  sleepers& all;
  sleepers::sleeper parking_slot;  // where the own thread sleeps
};

/// A place for a thread that is no worker; one thread after another.
struct guest : participant {
  guest(pool_core& owner, std::size_t number, sleepers& s) : participant(owner, number, nullptr, s) {}

  /// True: the caller's thread has it.
  bool take() noexcept {
    if (is_taken_.load(std::memory_order_relaxed) || !own.empty()) return false;  // relaxed: asked again
    // [V1] acquire, pairs with [V2]: what the thread before has done with it; not modelled: a flag like a lock
    if (is_taken_.exchange(true, std::memory_order_acquire)) return false;
    if (own.empty()) return true;
    leave();  // others still have to take what was left there
    return false;
  }
  void take_new() noexcept { is_taken_.store(true, std::memory_order_relaxed); }  // relaxed: nobody else knows of it
  void leave() noexcept {
    is_taken_.store(false, std::memory_order_release);  // [V2] release, pairs with [V1]; not modelled: see there
  }

 private:
  atomic<bool> is_taken_{false};
};

}  // namespace async::detail
