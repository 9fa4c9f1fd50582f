// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t, uint64_t, int64_t

#include "async/detail/base/atomics.hpp"         // for atomic
#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_FUNCTION, no_sharing
#include "async/detail/pool/job.hpp"             // for job
#include "async/detail/pool/sleepers.hpp"        // for sleepers
#include "async/detail/pool/stealing_deque.hpp"  // for stealing_deque
#include "async/detail/scope/scope_cache.hpp"    // for task_scope, posted_task
#include "async/detail/scope/task_credit.hpp"    // for task_credit

namespace async::inline v0_1::detail {

class pool_core;
struct worker;

using job_deque = stealing_deque<job, task_scope>;

/// A thread's part in a pool: the deque of the jobs that it has made, and its parking slot. Each worker has one, each
/// stand-in, the lookout, and each thread from outside that forks and joins in the pool.
///
/// It outlives the thread, since thieves may look at it at any time.
struct alignas(no_sharing) participant {
  participant(pool_core& owner, std::size_t number, worker* w);
  ~participant();
  participant(const participant&) = delete;
  participant& operator=(const participant&) = delete;

  /// Adds one to a counter that only the calling thread writes.
  static void count(atomic<std::uint64_t>& counter) noexcept {
    // relaxed: one writer, and readers want a figure only
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Own thread only: a number that chooses the first victim of a theft.
  std::uint32_t next_random() noexcept {
    random = random * 1664525U + 1013904223U;
    return random >> 8;
  }

  static constexpr std::uint32_t injector_share = 61;  // one in so many takes looks at the injector first

  pool_core& pool;
  const std::size_t index;
  worker* const as_worker;        // null: not a worker
  std::size_t stands_for;         // own thread only: its index; for a stand-in, that of the worker that it replaces
  bool is_stand_in = false;       // own thread only
  bool is_lookout = false;        // own thread only
  bool is_polling = false;        // own thread only: its task has polled for another's result, and has not waited since
  bool is_in_section = false;     // own thread only: it is in a blocking_section, or polls in one
  bool polls_in_section = false;  // own thread only: another worker has taken its place since it polls
  std::uint32_t random;           // own thread only
  std::uint32_t turn = 0;         // own thread only: counts takes of tasks, and of these only
  job_deque own;                  // others steal from it, also after the thread has ended
  task_credit credit;             // own thread only
  task_scope* post_tag = &posted_task;  // own thread only: of the jobs that it posts
  std::int64_t made_from = 0;    // own thread only: the jobs in the deque from this position on are its current task's
  atomic<std::uint64_t> ran{0};  // written by the own thread
  atomic<std::uint64_t> steals{0};  // written by the own thread
  atomic<std::uint64_t> parks{0};   // written by the own thread
  sleepers::sleeper parking_slot;   // for the own thread's sleep
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION participant::participant(pool_core& owner, std::size_t number, worker* w)
    : pool(owner), index(number), as_worker(w), stands_for(number), random(static_cast<std::uint32_t>(number)) {}

ASYNCSTEPS_FUNCTION participant::~participant() = default;
#endif

/// The part of a thread that is no worker, for one thread at a time.
struct guest : participant {
  guest(pool_core& owner, std::size_t number) : participant(owner, number, nullptr) {}

  /// Claims it for the calling thread. False: another thread has it, or its jobs have not all been stolen yet.
  bool take() noexcept {
    if (is_taken_.load(std::memory_order_relaxed) || !own.empty()) return false;  // relaxed: asked again
    // [V1] acquire, pairs with [V2]: what the previous thread has done with it; not modelled: a flag like a lock
    if (is_taken_.exchange(true, std::memory_order_acquire)) return false;
    if (own.empty()) return true;
    leave();  // others still have to steal what the previous thread has left
    return false;
  }
  void take_new() noexcept {
    is_taken_.store(true, std::memory_order_relaxed);  // relaxed: no other thread knows it yet
  }
  void leave() noexcept {
    is_taken_.store(false, std::memory_order_release);  // [V2] release, pairs with [V1]; not modelled: see there
  }

 private:
  atomic<bool> is_taken_{false};
};

}  // namespace async::inline v0_1::detail
