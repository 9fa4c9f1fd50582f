// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>     // for nanoseconds, seconds
#include <concepts>   // for constructible_from
#include <cstddef>    // for size_t
#include <exception>  // for exception_ptr
#include <string>     // for string
#include <utility>    // for forward, move

#include "async/detail/base/unique_function.hpp"  // for unique_function
#include "async/detail/call/bound_call.hpp"       // for bound_call
#include "async/detail/call/call_result.hpp"      // for hand_call_to
#include "async/detail/call/future_access.hpp"    // for future_access
#include "async/detail/pool/blocking_crew.hpp"    // for blocking_crew
#include "async/task.hpp"                         // for task
#include "async/threadpool.hpp"                   // for async_callable, posted_future
#include "async/threadpool_options.hpp"           // for threadpool_options

namespace async {

/// Options of a blocking_pool. Moved into the pool; the hooks live as long as the pool.
struct blocking_pool_options {
  /// The most threads at a time; at least 1.
  std::size_t max_threads = 512;

  /// A thread without a call for this long ends.
  std::chrono::nanoseconds idle_time = std::chrono::seconds(10);

  /// The most calls that wait while all threads are busy; one more throws queue_full. 0: no limit.
  std::size_t max_queue = 0;

  /// Threads are called "name/0", "name/1", … in the order in which they start; see threadpool_options.
  std::string name{};

  /// Called on each thread before its first call and after its last, with its number.
  unique_function<void(std::size_t)> on_thread_start{};
  unique_function<void(std::size_t)> on_thread_stop{};  ///< see on_thread_start

  /// Called with an exception that left a call of execute(), or a hook. Default: a message on stderr and
  /// std::terminate. Must not throw (std::terminate).
  unique_function<void(std::exception_ptr)> on_unhandled{};
};

/// A pool for calls that block: files, DNS, database drivers, child processes. It starts a thread where all others are
/// busy, up to a limit, and ends threads that have nothing to do.
///
/// Use it for calls that mostly wait. Do not use it for computations: more threads than processors make them slower
/// (threadpool), nor for waits that the library can do without a thread (timers, queues, sockets of an event loop).
///
/// Order       calls start in the order of their posts. The thread that was busy last gets the next call, so that the
///             others reach their idle time.
/// Threads     every member from any thread, and from the pool's own calls unless stated otherwise; construction and
///             destruction by one thread. A call belongs to no threadpool: threadpool::current() is null in it.
/// Progress    a post takes a mutex, and starts a thread where one is needed: about 20 us.
/// Exceptions  an exception that leaves a call goes to its future, or to on_unhandled if the call has none. A call that
///             is accepted while the pool's only thread ends, and for which no thread can be started, waits until the
///             next post or stop().
/// Coroutines  await a call by its future: `co_await disk.post(f)`. There are no flows on this pool, and no then(pool,
/// f). Waiting     a call that waits for another call of the same pool holds its thread meanwhile. When max_threads
/// calls
///             wait for calls that are queued, none of them goes on. A task of a threadpool that waits for a future of
///             this pool does not hold up its pool: see threadpool.
/// Shutdown    stop() and the destructor run every accepted call and join every thread. The memory of ended threads is
///             returned as they end.
/// Example     test/example/blocking.cpp
class blocking_pool {
 public:
  /// Starts no thread. Throws std::invalid_argument if max_threads is 0 or idle_time is negative.
  explicit blocking_pool(blocking_pool_options options = {})
      : crew_({options.max_threads, options.idle_time, options.max_queue}, take_hooks(options)) {}
  blocking_pool(const blocking_pool&) = delete;
  blocking_pool& operator=(const blocking_pool&) = delete;

  /// Calls stop(). Inside one of the pool's own calls that would deadlock, so it prints a message and terminates.
  ~blocking_pool() { crew_.stop_or_terminate(); }

  /// Calls f(arguments...) on a thread of the pool, with copies of both as std::async makes them. If f takes a
  /// std::stop_token before the arguments, it gets one that future::cancel() stops. Returns the future of its result,
  /// whose destructor does not wait. Throws stopped, queue_full, std::system_error if the pool has no thread and none
  /// can start, std::bad_alloc and what copying throws; nothing has been posted then.
  template <class F, class... A>
    requires(async_callable<F, A...> || detail::stoppable_callable<F, A...>)
  typename detail::posted_future<F, A...>::type post(F&& f, A&&... arguments) {
    return detail::future_access::make(detail::hand_call_to([this](task&& call) { crew_.put(std::move(call)); },
                                                            std::forward<F>(f), std::forward<A>(arguments)...));
  }

  /// The same without a result: an exception that leaves f goes to on_unhandled.
  template <class F, class... A>
    requires async_callable<F, A...>
  void execute(F&& f, A&&... arguments) {
    if constexpr (sizeof...(A) == 0 && std::constructible_from<task, F>) {
      crew_.put(task(std::forward<F>(f)));
    } else {
      crew_.put(task(detail::bound_call(std::forward<F>(f), std::forward<A>(arguments)...)));
    }
  }

  /// The number of threads at this moment.
  std::size_t size() const { return crew_.size(); }
  /// The number of threads without a call.
  std::size_t idlesize() const { return crew_.idle(); }
  /// The number of calls that wait for a thread.
  std::size_t queued() const { return crew_.queued(); }

  /// Waits until no accepted call is queued or running. Throws std::system_error (resource_deadlock_would_occur) inside
  /// a call of the pool.
  void wait_idle() { crew_.wait_idle(); }

  /// Refuses further calls from outside, runs every accepted call and the calls that these post, and joins the threads.
  /// Later calls return when the first one is done. Throws std::system_error (resource_deadlock_would_occur) inside a
  /// call of the pool.
  void stop() { crew_.stop(); }

  /// The process's pool, made on first use, with the default options. When static objects are destroyed it runs what it
  /// has accepted and ends its threads. A call posted after that is made by the posting thread.
  static blocking_pool& shared() {
    static blocking_pool* const immortal = new blocking_pool;
    struct closer {
      blocking_pool& pool;
      ~closer() { pool.crew_.stop_at_exit(); }
    };
    static const closer at_exit{*immortal};
    return *immortal;
  }

 private:
  static threadpool_options take_hooks(blocking_pool_options& own) {
    threadpool_options made;
    made.name = std::move(own.name);
    made.on_thread_start = std::move(own.on_thread_start);
    made.on_thread_stop = std::move(own.on_thread_stop);
    made.on_unhandled = std::move(own.on_unhandled);
    return made;
  }

  detail::blocking_crew crew_;
};

}  // namespace async
