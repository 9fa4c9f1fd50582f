// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for constructible_from, invocable
#include <cstddef>      // for size_t
#include <cstdio>       // for fputs
#include <cstdlib>      // for atexit
#include <exception>    // for terminate
#include <future>       // for future
#include <iterator>     // for input_iterator, iter_reference_t
#include <type_traits>  // for decay_t, is_const_v, remove_const_t
#include <utility>      // for forward, move
#include <version>      // for __cpp_lib_jthread
#if defined(__cpp_lib_jthread)
#include <stop_token>  // for stop_token
#endif

#include "async/detail/base/block_trim.hpp"      // for trim_blocks
#include "async/detail/base/chrono.hpp"          // for duration, nanoseconds, time_point
#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_FUNCTION, ASYNCSTEPS_SHARED
#include "async/detail/base/durations.hpp"       // for to_nanoseconds, call_until
#include "async/detail/base/forks.hpp"           // for process_object
#include "async/detail/base/lazy_coroutine.hpp"  // for has_begun, lazy_coroutine
#include "async/detail/base/platform.hpp"        // for return_free_memory
#include "async/detail/call/bound_call.hpp"      // for submit_bound
#include "async/detail/call/call_result.hpp"     // for submit_call, call_kind, call_result
#include "async/detail/call/call_state.hpp"      // for wait_for_call, is_ready
#include "async/detail/call/future_access.hpp"   // for future_access
#include "async/detail/pool/pool_core.hpp"       // for pool_core
#include "async/detail/pool/seat.hpp"            // for pool_registry
#include "async/detail/wait/pool_functions.hpp"  // for pool_core
#include "async/detail/wait/visit.hpp"           // for visit
#include "async/errors.hpp"                      // for discard_t
#include "async/future.hpp"                      // for future
#include "async/priority.hpp"                    // exports priority
#include "async/task.hpp"                        // for task
#include "async/threadpool_options.hpp"          // for threadpool_options, threadpool_stats

namespace async::inline v0_1 {

/// A callable for a pool and async::async: `f` and `args` can be copied as std::async copies them, and the copy of `f`
/// can be invoked, as an rvalue, with the copies of `args` as rvalues.
template <class F, class... Args>
concept async_callable =
    std::constructible_from<std::decay_t<F>, F> && (std::constructible_from<std::decay_t<Args>, Args> && ...) &&
    std::invocable<std::decay_t<F>, std::decay_t<Args>...>;

namespace detail {

/// The result type of the call; void if the call is ill-formed, so that the compiler's message names the concept.
template <class F, class... Args>
struct async_result {
  using type = void;
};
template <class F, class... Args>
  requires async_callable<F, Args...>
struct async_result<F, Args...> {
  using type = call_result<F, Args...>;
};
template <class F, class... Args>
using async_future = std::future<typename async_result<F, Args...>::type>;

/// The same for a call in a pool, whose first parameter may be a std::stop_token.
template <class F, class... Args>
concept stoppable_callable =
#if defined(__cpp_lib_jthread)
    !async_callable<F, Args...> && async_callable<F, std::stop_token, Args...>;
#else
    false;
#endif
template <class F, class... Args>
struct posted_future {
  using type = void;
};
template <class F, class... Args>
  requires(async_callable<F, Args...> || stoppable_callable<F, Args...>)
struct posted_future<F, Args...> {
  using result = typename call_kind<std::decay_t<F>, std::decay_t<Args>...>::type;
  static_assert(has_begun<result>());
  using type = future<result>;
};

}  // namespace detail

/// A work-stealing thread pool that can be resized at any time.
///
/// Use it for many short tasks and for a fixed degree of parallelism. Do not use it for tasks that block for long on
/// other tasks of the same pool (unless they wait with wait()), nor for one long-lived loop (std::thread).
///
/// Order       tasks from outside start in the order of their posts; see threadpool_options::max_queue. Tasks posted
///             from inside go to the worker's own deque: newest first for the worker, oldest first for thieves. After
///             each 10 ms of work a worker also runs some of the oldest, from inside and from outside in turn, which
///             newer ones might keep waiting for ever. Tasks and turns of event loops alternate; after one that takes
///             longer than 0.1 ms, the other kind may run as long, up to 10 ms. Tasks of high priority come before all
///             that, those of low priority after it, see async::priority.
/// Threads     every member from any thread, and from the pool's own tasks unless stated otherwise; construction and
///             destruction by one thread. Destroy it while no thread outside of its tasks is in a call of a member. A
///             call that has handed in its task and has not returned is still running, even if the task has ended.
///             get() and wait() of a future are no calls of the pool.
/// Progress    posting never waits, except for a full bounded queue. It is lock-free apart from the memory allocator
///             while no worker sleeps; to wake one it takes a short lock.
///             It makes a system call only to wake a sleeping worker.
/// Exceptions  an exception that leaves a task goes to its future, or to on_unhandled if the task has none.
/// Memory      in the steady state neither execute nor post calls operator new: captures of up to 48 bytes and shared
///             states lie in recycled blocks.
/// Waiting     a task that waits for a task_group, a loop or a call of this pool runs only tasks that it waits for and
///             tasks that these have spawned. One that waits for any other future runs tasks that it has posted itself.
///             No other task meets the locks and thread_local objects that it holds; but callbacks of loop(i) and steps
///             of flows may, since a waiting worker also runs turns of event loops. While all workers wait, stand-in
///             threads run queued tasks, up to one for each task that sleeps in a wait: to wait in thousands of tasks,
///             use flows or coroutines. A stand-in starts when a wait has slept for 250 us, or about 2 ms if it is for
///             tasks of this pool, and at most one in 200 us; one that has run out of tasks starts again at once
///             within 50 ms. If no thread can start, a task that sleeps in a wait for a future, group or loop runs any
///             queued task. A stand-in has the index of the worker that it replaces, and calls the hooks with it. The
///             worker may wake while the stand-in is in a task: then both run tasks with one index, which is a name,
///             not a place for data of a thread (thread_local).
/// Flows       flows of steps/ spread over the workers, each on an event loop of its own while it lives. A loop that
///             has work gets its next turn on any worker that is free, one worker at a time. So timers, completions and
///             messages do not wait for a worker that is busy while another is free. While tasks keep all workers of a
///             pool of two or more, a further thread, the lookout, turns loops that are 10 ms late; it stays until the
///             pool's end. A step that blocks holds up its own flow, and flows and callbacks bound to the same loop(i),
///             but no others as long as a worker is free. No loop is tied to a thread: a thread_local object may be
///             another one in the next callback or step.
/// Shutdown    stop() and the destructor run every accepted task, join every thread, and cancel waiting flows. A task
///             of a pool that is a static object must not call std::exit(): std::terminate, as the destructor is then
///             called inside the pool's own task. One of the shared pool may, unless the destructor of a static object
///             waits for that task, such as a future of async::async.
/// Fork        in a child of fork(), a pool of the parent throws stopped_by_fork, a `stopped`, where work is handed in.
///             wait_idle(), stop() and the destructor return at once there, and leave the memory as it is.
/// Example     test/example/pool.cpp
class threadpool {
 public:
  using stats_t = threadpool_stats;  ///< what stats() returns

  /// Starts `threads` workers; 0: paused. Throws std::system_error if a thread cannot start, after ending the others,
  /// std::length_error for more than 65535 or a max_queue above 2^28, and std::bad_alloc.
  explicit threadpool(std::size_t threads = usable_concurrency());
  /// The same with all options.
  explicit threadpool(threadpool_options options);
  threadpool(const threadpool&) = delete;
  threadpool& operator=(const threadpool&) = delete;

  /// Calls stop(). Inside one of the pool's own tasks that would deadlock, so it prints a message and terminates.
  ~threadpool();

  /// Runs f(arguments...) on a worker, with copies of both as std::async makes them. If f takes a std::stop_token
  /// before the arguments, it gets one that future::cancel() stops. Returns the future of its result, whose destructor
  /// does not wait; it converts to std::future. The captures of f are destroyed before the future is ready. Throws
  /// stopped, queue_full (see threadpool_options), std::bad_alloc and what copying throws; nothing has been posted
  /// then.
  template <class F, class... A>
    requires(async_callable<F, A...> || detail::stoppable_callable<F, A...>)
  typename detail::posted_future<F, A...>::type post(F&& f, A&&... arguments) {
    return detail::future_access::make(detail::submit_call(core_, std::forward<F>(f), std::forward<A>(arguments)...));
  }

  /// The same without a result: an exception that leaves f goes to on_unhandled. The cheapest way to run a task.
  template <class F, class... A>
    requires async_callable<F, A...>
  void execute(F&& f, A&&... arguments) {
    if constexpr (sizeof...(A) == 0 && std::constructible_from<task, F>) {
      core_.submit<detail::held_callable<F>>(std::forward<F>(f));
    } else {
      detail::submit_bound(core_, std::forward<F>(f), std::forward<A>(arguments)...);
    }
  }

  /// The same with a priority, see async::priority.
  template <class F, class... A>
    requires(async_callable<F, A...> || detail::stoppable_callable<F, A...>)
  typename detail::posted_future<F, A...>::type post(priority wanted, F&& f, A&&... arguments) {
    return detail::future_access::make(
        detail::submit_call_with(wanted, core_, std::forward<F>(f), std::forward<A>(arguments)...));
  }
  template <class F, class... A>
    requires async_callable<F, A...>
  void execute(priority wanted, F&& f, A&&... arguments) {
    if (wanted == priority::normal) return execute(std::forward<F>(f), std::forward<A>(arguments)...);
    if constexpr (sizeof...(A) == 0 && std::constructible_from<task, F>) {
      core_.submit_with(wanted, task(std::forward<F>(f)));
    } else {
      using call = detail::bound_call<std::decay_t<F>, std::decay_t<A>...>;
      core_.submit_with(
          wanted, task(std::in_place_type<call>, std::in_place, std::forward<F>(f), std::forward<A>(arguments)...));
    }
  }

  /// Refused: a coroutine that has been called begins when it is awaited.
  template <detail::lazy_coroutine C>
  void post(C&&) = delete;  // write start(f()), which begins it
  template <detail::lazy_coroutine C>
  void execute(C&&) = delete;  // write start(f()), which begins it

  /// Calls execute(*first), execute(*++first), …, `count` times. If one throws, those before it have been posted.
  template <std::input_iterator It>
    requires async_callable<std::iter_reference_t<It>>
  void bulk_execute(It first, std::size_t count) {
    if (count == 0) return;
    for (execute(*first); --count != 0;) execute(*++first);
  }

  /// Sets the number of workers. Returns without waiting for running tasks: surplus workers end after their current
  /// task or turn of a loop, and the others run what these have queued. 0 pauses the pool: tasks and loops wait; what a
  /// worker is taking at that moment still runs. Waits make the calls that they wait for themselves then, and nest as
  /// deep as the stack allows: some 20,000 levels overflow one of 8 MiB. Throws std::system_error if a thread cannot
  /// start: those that did start stay, and size() counts them. Concurrent calls run one after the other. Throws
  /// stopped, std::bad_alloc, and std::length_error for more than 65535.
  void configurepool(std::size_t threads) { core_.configure(threads); }

  /// The number of workers that was asked for.
  std::size_t size() const noexcept { return core_.size(); }
  /// The number of workers that sleep at this moment because there are no tasks.
  std::size_t idlesize() const noexcept { return core_.idle(); }

  /// An event loop for callbacks and flows that share data without a lock: one of them runs at a time, and it sees what
  /// the ones before have done. Any free worker runs the loop's next turn, so the thread may be another one each time.
  /// Different loops run at the same time. Nothing in a loop is lost when the pool shrinks; while the pool is paused,
  /// the loop rests, but for turns in waits of tasks that run. The reference stays valid until the pool's end: after
  /// stop() the loop takes callbacks and destroys them unrun. run() and iterate() of the loop throw std::logic_error.
  /// Throws std::out_of_range unless i < size(), except in a task or hook on worker i; size() is 0 while the pool is
  /// paused, and after stop().
  event_loop& loop(std::size_t i) { return core_.loop(i); }

  /// Waits until no accepted task is queued or running. Waiting flows and callbacks do not count: wait for the futures
  /// of flows, or for the when_empty() of their future_group. Throws std::system_error (resource_deadlock_would_occur)
  /// inside a task of the pool.
  void wait_idle() { static_cast<void>(core_.wait_idle_for((std::chrono::nanoseconds::max)())); }
  /// The same for at most `limit` (steady clock). False: the time is up, and tasks are left. With 0 it only looks; a
  /// worker that has done its last task counts as busy until it sleeps.
  ///
  ///   if (!pool.wait_idle_for(5s)) lost = pool.stop(async::discard);  // shutdown with a deadline
  template <class Rep, class Period>
  bool wait_idle_for(std::chrono::duration<Rep, Period> limit) {
    return core_.wait_idle_for(detail::to_nanoseconds(limit));
  }
  /// The same until a moment of any clock.
  template <class Clock, class Duration>
  bool wait_idle_until(std::chrono::time_point<Clock, Duration> moment) {
    return detail::call_until(moment, [this](std::chrono::nanoseconds limit) { return core_.wait_idle_for(limit); });
  }

  /// Returns the future's result. Outside the pool's tasks it is future.get(). Inside a task it runs the awaited call
  /// itself if that is a call of post() or async::async on this pool that no thread has taken; otherwise it waits, and
  /// runs tasks that the call has made. For any other future it runs tasks that the current task has posted. Meanwhile
  /// a worker also runs turns of the pool's event loops; wait() returns after such a turn, however long it takes.
  ///
  /// It cannot deadlock, at any depth, even with one worker, while threads can start or stacks have room: while all
  /// workers sleep in waits and tasks are queued, stand-in threads run them, at most one per sleeping thread of the
  /// pool. The exception is a step of a flow that itself waits for a task that is in a wait: it may run on top of that
  /// one. A future made ready by anything but a task or a flow of this pool is noticed within 8 ms by a worker,
  /// by a stand-in within 8 ms more for each 16 that wait. Do not call it in a callback of an event loop, such as a
  /// step of a flow, since that loop stands still meanwhile, and the worker runs no other: use await() there.
  template <class T>
  T wait(future<T>& awaited) {
    wait_until_ready(awaited);
    return awaited.get();
  }
  template <class T>
  T wait(std::future<T>& awaited) {
    wait_until_ready(awaited);
    return awaited.get();
  }
  /// The same for a shared future, whose value it returns as get() does. With a std::shared_future it never runs the
  /// call itself.
  template <class T>
  decltype(auto) wait(const shared_future<T>& awaited) {
    wait_until_ready(awaited);
    return awaited.get();
  }
  template <class T>
  decltype(auto) wait(const std::shared_future<T>& awaited) {
    wait_until_ready(awaited);
    return awaited.get();
  }
  /// The same for a temporary, as in wait(post(…)).
  template <class T>
  T wait(future<T>&& awaited) {
    return wait(awaited);
  }
  template <class T>
  T wait(std::future<T>&& awaited) {
    return wait(awaited);
  }

  /// Refuses further tasks from outside, runs every accepted task and the tasks that these post, and joins the threads.
  /// Flows run on meanwhile. When no task is left, flows that wait are cancelled, and some 100 ms later those that
  /// still do not wait, or call the pool again and again: what flows post meanwhile is no task that is left. Their
  /// cancel handlers run on the calling thread, and waits in them run what they have posted.
  /// Callbacks that wait in loop(i) are destroyed. A paused pool starts one worker for this; if that fails, the calling
  /// thread takes the worker's place, and on_thread_start and on_thread_stop are not called. Later calls return when
  /// the first one is done. Throws std::system_error (resource_deadlock_would_occur) inside a task of the pool.
  void stop() { core_.stop(); }

  /// The same, but drops what has not begun. Use it to end soon; do not use it when queued tasks must be done.
  ///
  /// Tasks      destroyed without a call, those that running tasks still post, and wait for, included. Their futures
  ///            become broken promises (dropped_call, in flows the error Stopped).
  /// Groups     a task_group with tasks that have not begun is cancelled: its wait() returns false. Loops and
  ///            parallel_invoke() that have begun are completed.
  /// Flows      as with stop(). One that has not started is cancelled: its steps are destroyed.
  /// Returns    the number of dropped tasks, those of groups included, and cancelled flows, once those that run have
  ///            ended. A post at the same time is refused, run, or dropped and counted. Later calls return the same.
  ///
  /// It takes as long as the tasks that run. One of these that waits for what a dropped task was to do, by other means
  /// than its future, a promise that the task owns, or a group, waits for ever. During a stop() of another thread this
  /// call drops what that has left. Throws as stop().
  std::size_t stop(discard_t) { return core_.stop_and_discard(); }

  /// Counters since the pool was made. Each is exact at some moment of the call, not all at the same moment.
  stats_t stats() const { return core_.stats(); }

  /// Returns unused memory to the system: that of all pools' queues, and the process's recycled blocks that are in no
  /// thread's cache; small ones by the page, when all its blocks are free. Use it after a peak. Any thread may call it
  /// at any time, also in a task, while pools go on. It takes about 30 ms for each 100 MB.
  ///
  /// The result is the number of bytes, without those that go back in two other ways. Workers return the memory of
  /// their deques themselves, soon after: between two tasks, or woken for it. And the call ends with malloc_trim(0) of
  /// glibc, which returns all free pages of the process's heap, not only the library's. A thread from outside keeps the
  /// memory of its own tasks in pools that it has visited until it calls this, or ends.
  ///
  /// The event loops of flows stay until the pool's end: about 390 bytes for each flow that waited at the same time.
  /// With glibc about 1.2 KB stay resident for each, because the free blocks between the loops are too small to return.
  /// glibc also keeps the free end of each thread's heap, up to M_TRIM_THRESHOLD of mallopt(). That is 128 KB, but
  /// rises up to 64 MB when a block of some MB is freed, unless the program sets it. Without glibc the allocator
  /// decides what it keeps. On systems other than Linux the memory of pools' queues stays until the pools' ends.
  static std::size_t trim() noexcept;

  /// The pool whose task or hook the calling thread runs, or null.
  static threadpool* current() noexcept {
    const detail::pool_core* const core = detail::this_pool;
    return core == nullptr ? nullptr : &core->facade();
  }

  /// The process's pool, with usable_concurrency() workers, made on first use. When static objects are destroyed it
  /// runs what it has accepted and ends its threads. A task posted after that runs on the posting thread; a flow
  /// is cancelled, which breaks its future.
  ///
  /// In a child of fork() it is another one, made on first use there.
  static inline threadpool& shared();

  /// For the library: the implementation that task_group and event loops build on.
  detail::pool_core& core() noexcept { return core_; }

 private:
  /// In a task it waits for any kind of future. Outside of tasks it waits only for those of this library: the get()
  /// that follows waits for others.
  template <class Future>
  void wait_until_ready(Future& awaited) {
    core_.registered().refuse_if_unknown_here();
    if constexpr (detail::is_own_future<std::remove_const_t<Future>>) {
      if (awaited.valid()) detail::future_access::state(awaited)->wait_anywhere();
    } else if (core_.is_inside()) {
      if constexpr (!std::is_const_v<Future>) {  // not the call of a std::shared_future
        if (detail::wait_for_call(awaited)) return;
      }
      const detail::visit here(core_);
      core_.wait_until(here.part(), detail::wait_scope(), [&awaited] { return detail::is_ready(awaited); });
    }
  }

  static threadpool_options options_for(std::size_t threads) { return {.threads = threads}; }
  struct not_started {};
  threadpool(threadpool_options&& options, not_started) : core_(*new detail::pool_core(std::move(options), *this)) {}
  static threadpool& make_shared();
  static void end_shared() noexcept;

  detail::pool_core& core_;
};

namespace detail {
ASYNCSTEPS_SHARED inline constinit process_object<threadpool> shared_pool;
}  // namespace detail

inline threadpool& threadpool::shared() {
  threadpool* const made = detail::shared_pool.find();
  return made != nullptr ? *made : make_shared();
}

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION threadpool::threadpool(std::size_t threads) : threadpool(options_for(threads)) {}

ASYNCSTEPS_FUNCTION threadpool::threadpool(threadpool_options options) : threadpool(std::move(options), not_started()) {
  core_.start();  // whose hooks may use the pool; if this throws, the destructor is called
}

ASYNCSTEPS_FUNCTION threadpool::~threadpool() {
  if (core_.is_left_behind()) return;  // in a child of fork(): the parent's memory stays as it is
  if (core_.registered().is_around()) {
    std::fputs("async::threadpool: destroyed inside one of its own tasks\n", stderr);
    std::terminate();
  }
  core_.stop();
  delete &core_;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION threadpool& threadpool::make_shared() {
  return detail::shared_pool.get([](threadpool&) noexcept { static_cast<void>(std::atexit(&end_shared)); });
}

/// When static objects are destroyed that were made after the pool.
ASYNCSTEPS_FUNCTION void threadpool::end_shared() noexcept {
  threadpool* const made = detail::shared_pool.find();
  if (made == nullptr) return;  // it was the parent's
  made->core_.run_late_posts_inline();
  if (made->core_.registered().is_around()) return;  // a task called std::exit: the system ends the rest
  made->core_.stop();
}

ASYNCSTEPS_FUNCTION std::size_t threadpool::trim() noexcept {
  std::size_t freed = 0;
  detail::pool_registry::instance().for_each([&freed](detail::pool_core& pool) noexcept { freed += pool.trim(); });
  freed += detail::trim_blocks();
  detail::return_free_memory();
  return freed;
}
#endif

}  // namespace async::inline v0_1
