// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>   // for constructible_from
#include <cstddef>    // for size_t
#include <exception>  // for exception_ptr
#include <string>     // for string
#include <utility>    // for forward, move

#include "async/detail/base/chrono.hpp"           // for duration, nanoseconds, seconds, time_point
#include "async/detail/base/config.hpp"           // for ASYNCSTEPS_SHARED
#include "async/detail/base/durations.hpp"        // for to_nanoseconds, call_until
#include "async/detail/base/forks.hpp"            // for process_object
#include "async/detail/base/unique_function.hpp"  // for unique_function
#include "async/detail/call/bound_call.hpp"       // for submit_bound
#include "async/detail/call/call_result.hpp"      // for hand_call_to
#include "async/detail/call/future_access.hpp"    // for future_access
#include "async/detail/pool/blocking_crew.hpp"    // for blocking_crew
#include "async/errors.hpp"                       // for discard_t
#include "async/task.hpp"                         // for task
#include "async/threadpool.hpp"                   // for async_callable, posted_future
#include "async/threadpool_options.hpp"           // for threadpool_options

namespace async::inline v0_1 {

/// Options of a blocking_pool. Moved into the pool; the hooks live as long as the pool.
struct blocking_pool_options {
  /// The most threads at a time; at least 1.
  std::size_t max_threads = 512;

  /// A thread without a call for this long ends.
  std::chrono::nanoseconds idle_time = std::chrono::seconds(10);

  /// The most calls that wait while all threads are busy, including cancelled ones that no thread has come to yet; one
  /// more throws queue_full. 0: no limit.
  std::size_t max_queue = 0;

  /// Threads are called "name/0", "name/1", … in the order in which they start; see threadpool_options.
  std::string name{};

  /// Called on each thread before its first call and after its last, with its number. Where a call comes as the only
  /// thread ends and no other one can start, the ending thread makes it although on_thread_stop has been called.
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
///             destruction by one thread, as with threadpool. A call belongs to no threadpool: threadpool::current() is
///             null in it.
/// Progress    a post takes a mutex, and starts a thread where one is needed: about 20 us.
/// Exceptions  an exception that leaves a call goes to its future, or to on_unhandled if the call has none.
/// Results     `future.then(disk, f)` continues a future by a call here; a coroutine awaits `disk.post(f)`, or
///             steps::interop::post(disk, f); a flow waits with asi.await(disk, f). There are no flows on this pool.
/// Waiting     a call that waits for another call of the same pool holds its thread meanwhile. When max_threads calls
///             wait for calls that are queued, none of them goes on. While tasks of a threadpool wait for futures of
///             this pool, from 250 us on, stand-in threads run its other tasks: see threadpool.
/// Shutdown    stop() and the destructor run every accepted call and join every thread. The memory of ended threads is
///             returned as they end.
/// Fork        in a child of fork() as threadpool.
/// Example     test/example/blocking.cpp
class blocking_pool {
 public:
  /// Starts no thread. Throws std::invalid_argument if max_threads is 0 or idle_time is negative.
  explicit blocking_pool(blocking_pool_options options = {})
      : crew_(*new detail::blocking_crew({options.max_threads, options.idle_time, options.max_queue},
                                         take_hooks(options))) {}
  blocking_pool(const blocking_pool&) = delete;
  blocking_pool& operator=(const blocking_pool&) = delete;

  /// Calls stop(). Inside one of the pool's own calls that would deadlock, so it prints a message and terminates.
  ~blocking_pool();

  /// Calls f(arguments...) on a thread of the pool, with copies of both as std::async makes them. If f takes a
  /// std::stop_token before the arguments, it gets one that future::cancel() stops. Returns the future of its result,
  /// whose destructor does not wait. Throws stopped, queue_full, std::system_error if the pool has no thread and none
  /// can start, std::bad_alloc and what copying throws; nothing has been posted then. If it has threads, but another
  /// one that it needs cannot start, the call waits for one of them; the next post tries again.
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
      detail::submit_bound(crew_, std::forward<F>(f), std::forward<A>(arguments)...);
    }
  }

  /// Refused: a coroutine that has been called begins when it is awaited.
  template <detail::lazy_coroutine C>
  void post(C&&) = delete;  // write start(f()), which begins it
  template <detail::lazy_coroutine C>
  void execute(C&&) = delete;  // write start(f()), which begins it

  /// The number of threads at this moment.
  std::size_t size() const { return crew_.size(); }
  /// The number of threads without a call.
  std::size_t idlesize() const { return crew_.idle(); }
  /// The number of calls that wait for a thread.
  std::size_t queued() const { return crew_.queued(); }

  /// Waits until no accepted call is queued or running. Throws std::system_error (resource_deadlock_would_occur) inside
  /// a call of the pool.
  void wait_idle() { static_cast<void>(crew_.wait_idle_for((std::chrono::nanoseconds::max)())); }
  /// The same for at most `limit` (steady clock). False: the time is up, and calls are left. With 0 it only looks.
  template <class Rep, class Period>
  bool wait_idle_for(std::chrono::duration<Rep, Period> limit) {
    return crew_.wait_idle_for(detail::to_nanoseconds(limit));
  }
  /// The same until a moment of any clock.
  template <class Clock, class Duration>
  bool wait_idle_until(std::chrono::time_point<Clock, Duration> moment) {
    return detail::call_until(moment, [this](std::chrono::nanoseconds limit) { return crew_.wait_idle_for(limit); });
  }

  /// Refuses further calls from outside, runs every accepted call and the calls that these post, and joins the threads.
  /// Later calls return when the first one is done. Throws std::system_error (resource_deadlock_would_occur) inside a
  /// call of the pool.
  void stop() { crew_.stop(); }

  /// The same, but destroys the calls that have not begun, those that running calls still post included. Their futures
  /// become broken promises (dropped_call, in flows the error Stopped). Returns the number of dropped calls, once those
  /// that run have ended. A post at the same time is refused, made, or dropped and counted. Later calls return the
  /// same. During a stop() of another thread this call drops what that has left, and both return when all is done.
  /// Destructors of dropped calls are inside calls of the pool: stop() throws there.
  std::size_t stop(discard_t) { return crew_.stop_and_discard(); }

  /// The process's pool, made on first use, with the default options. When static objects are destroyed it runs what it
  /// has accepted and ends its threads. A call posted after that is made by the posting thread.
  ///
  /// In a child of fork() it is another one, made on first use there.
  static inline blocking_pool& shared();

  /// For the library: the implementation that continuations build on.
  detail::blocking_crew& core() noexcept { return crew_; }

 private:
  static threadpool_options take_hooks(blocking_pool_options& own) {
    threadpool_options made;
    made.name = std::move(own.name);
    made.on_thread_start = std::move(own.on_thread_start);
    made.on_thread_stop = std::move(own.on_thread_stop);
    made.on_unhandled = std::move(own.on_unhandled);
    return made;
  }
  static inline void end_shared() noexcept;

  detail::blocking_crew& crew_;
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION blocking_pool::~blocking_pool() {
  if (crew_.is_left_behind()) return;  // in a child of fork(): the parent's memory stays as it is
  crew_.stop_or_terminate();
  delete &crew_;
}
#endif

namespace detail {
ASYNCSTEPS_SHARED inline constinit process_object<blocking_pool> shared_blocking_pool;
}  // namespace detail

/// When static objects are destroyed that were made after the pool.
inline void blocking_pool::end_shared() noexcept {
  blocking_pool* const made = detail::shared_blocking_pool.find();
  if (made != nullptr) made->crew_.stop_at_exit();  // null: it was the parent's
}

inline blocking_pool& blocking_pool::shared() {
  return detail::shared_blocking_pool.get([](blocking_pool&) noexcept { static_cast<void>(std::atexit(&end_shared)); });
}

}  // namespace async::inline v0_1
