// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <exception>  // for exception_ptr
#include <string>     // for string

#include "async/detail/base/platform.hpp"         // for usable_processors
#include "async/detail/base/unique_function.hpp"  // for unique_function

namespace async {

/// How many threads can run at the same time: processors of the affinity mask, cut by the container's CPU quota; at
/// least 1. The quota is read once a process, the mask each time.
inline std::size_t usable_concurrency() { return detail::usable_processors(); }

/// What a threadpool has done so far. Each figure is right by itself; together they are of about the same moment.
struct threadpool_stats {
  std::uint64_t tasks = 0;     ///< run by workers
  std::uint64_t steals = 0;    ///< tasks that a worker took from another one's deque
  std::uint64_t parks = 0;     ///< times that a worker went to sleep for want of work
  std::uint64_t wakes = 0;     ///< times that a sleeping thread was woken
  std::size_t queue_peak = 0;  ///< most tasks seen waiting in the queue from outside; sampled
};

/// How a threadpool is set up. Moved into the pool; the hooks live as long as the pool.
struct threadpool_options {
  /// Worker threads at the start; 0: paused until configurepool().
  std::size_t threads = usable_concurrency();

  /// Tasks from outside that may wait at one time, rounded up to a power of two; 0: no bound. Tasks posted by the
  /// pool's own workers are not counted.
  std::size_t max_queue = 0;

  /// What a post from outside does when max_queue tasks wait.
  enum class overflow {
    block,        ///< sleeps until there is room
    reject,       ///< throws queue_full
    caller_runs,  ///< runs the task on the posting thread
  };
  /// Which of them.
  overflow when_full = overflow::block;

  /// Threads are called "name/0", "name/1", …; empty: the process's name is kept. Linux has room for 15
  /// bytes: of a longer name the end is cut, before the "/".
  std::string name{};

  /// Called on each worker thread before its first task, with its index. This hook and the next are inside the pool:
  /// threadpool::current(), the worker's own loop(index), posts, configurepool() are theirs to use; wait_idle() and
  /// stop() throw as they do in a task. What the hook of one thread has begun, that of its successor finds ended.
  unique_function<void(std::size_t)> on_thread_start{};
  /// Called on each worker thread after its last task, with its index. A thread that stands in for a worker which
  /// sleeps in a wait calls both with that worker's index.
  unique_function<void(std::size_t)> on_thread_stop{};

  /// Called on the worker with an exception that left a task of execute(), or a hook above. Default: a message on
  /// stderr and std::terminate. Must not throw (std::terminate).
  unique_function<void(std::exception_ptr)> on_unhandled{};
};

}  // namespace async
