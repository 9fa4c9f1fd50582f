// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <exception>  // for exception_ptr
#include <string>     // for string

#include "async/detail/base/processors.hpp"       // for usable_processors
#include "async/detail/base/unique_function.hpp"  // for unique_function

namespace async::inline v0_1 {

/// The number of threads that can run at the same time: the processors of the affinity mask, limited by the container's
/// CPU quota; at least 1. The quota is read once per process, the mask on each call.
inline std::size_t usable_concurrency() { return detail::usable_processors(); }

/// Counters of a threadpool. Each is exact at some moment; together they are of about the same moment.
struct threadpool_stats {
  std::uint64_t tasks = 0;       ///< tasks that threads of the pool, or helping it, have run
  std::uint64_t steals = 0;      ///< thefts by such a thread: of a task, or of half of another one's queue of loops
  std::uint64_t parks = 0;       ///< sleeps of workers that found no work
  std::uint64_t wakes = 0;       ///< wake-ups of sleeping threads
  std::size_t queue_peak = 0;    ///< the most tasks seen in the queue from outside, or that of a priority; sampled
  std::uint64_t turns = 0;       ///< turns of event loops: each loop(i), and after its start each flow's
  std::uint64_t moves = 0;       ///< turns on another worker than the loop's turn before
  std::uint64_t stand_ins = 0;   ///< stand-ins started, for threads of the pool that slept or polled while tasks waited
  std::uint64_t late_turns = 0;  ///< turns of loops that were late, on a further thread, because tasks kept all workers
};

/// Options of a threadpool. Moved into the pool; the hooks live as long as the pool.
struct threadpool_options {
  /// Worker threads at the start; 0: paused until configurepool().
  std::size_t threads = usable_concurrency();

  /// The capacity of the queue for tasks from outside, rounded up to a power of two; 0: unbounded. Tasks posted inside
  /// a task of the pool do not count, and such a post never waits. Tasks that are taken beyond the limit start in turn
  /// with those within. Tasks of high and of low priority have queues of the same capacity. Each queue takes 64 bytes a
  /// task from the start. At most 2^28: for more the pool throws std::length_error.
  std::size_t max_queue = 0;

  /// The behaviour of a post from outside when the queue is full.
  enum class overflow {
    block,        ///< sleeps until there is room; in a turn of an event loop, goes beyond the limit
    reject,       ///< throws queue_full
    caller_runs,  ///< runs the task on the posting thread, inside the pool as on a worker; an event loop stands still
  };
  /// The behaviour when the queue is full.
  overflow when_full = overflow::block;

  /// Threads are called "name/0", "name/1", …; empty: they keep the process's name. Linux keeps 15 bytes: a longer
  /// name is cut before the "/". A stand-in has the name of its worker, a lookout that of the first.
  std::string name{};

  /// Called on each worker thread before its first task, with its index. This hook and the next run inside the pool:
  /// they may use threadpool::current(), loop(index), posts and configurepool(); wait_idle() and stop() throw as in a
  /// task. The stop hook of a thread returns before the start hook of its successor begins. A start hook may wait for
  /// the future of a task of the pool, but not by an event or a queue: the threads that would run the task call the
  /// same hook first.
  unique_function<void(std::size_t)> on_thread_start{};
  /// Called on each worker thread after its last task, with its index. It may wait for the future of a task of the
  /// pool, and for nothing else that the pool does: its threads may all have gone. A stand-in thread calls both hooks
  /// with the index of the worker that it replaces, and both threads may run tasks at the same time; a lookout calls
  /// them with 0. Beside tasks in a blocking_section, indices go beyond size(). So the index is a name, for logs, and
  /// no slot for data: keep what a thread needs in thread_local objects. Keep the hook short: a stand-in or a lookout
  /// that is in it counts as at work, so no other takes its place.
  unique_function<void(std::size_t)> on_thread_stop{};

  /// Called with an exception that left a task or flow of execute(), or one of the hooks above, on the thread that has
  /// run it: a worker, or with `caller_runs` the posting thread. Also called, on the thread that destroys a flow of the
  /// pool which does not execute, with one of a function of its onEnd(). Default: a message on stderr and
  /// std::terminate. Must not throw (std::terminate).
  unique_function<void(std::exception_ptr)> on_unhandled{};
};

}  // namespace async::inline v0_1
