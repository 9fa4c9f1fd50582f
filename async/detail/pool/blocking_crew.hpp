// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <condition_variable>  // for condition_variable
#include <cstddef>             // for size_t
#include <cstdio>              // for fputs
#include <deque>               // for deque
#include <exception>           // for terminate
#include <list>                // for list
#include <mutex>               // for lock_guard, mutex, unique_lock
#include <stdexcept>           // for invalid_argument
#include <thread>              // for thread
#include <utility>             // for exchange, move

#include "async/detail/base/atomics.hpp"         // for atomic, wait_clock
#include "async/detail/base/chrono.hpp"          // for nanoseconds
#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_FUNCTION, ASYNCSTEPS_SHARED
#include "async/detail/base/durations.hpp"       // for later, practically_never
#include "async/detail/base/forks.hpp"           // for fork_member, end_forked_child
#include "async/detail/base/own_section.hpp"     // for own_section
#include "async/detail/base/would_deadlock.hpp"  // for throw_would_deadlock
#include "async/detail/pool/dropping.hpp"        // for dropping
#include "async/detail/pool/pool_hooks.hpp"      // for pool_hooks
#include "async/detail/pool/work_apart.hpp"      // for work_apart
#include "async/errors.hpp"                      // for queue_full, stopped, stopped_by_fork
#include "async/task.hpp"                        // for task
#include "async/threadpool_options.hpp"          // for threadpool_options

namespace async::inline v0_1::detail {

/// The threads of a blocking_pool and the queue of its calls. A call blocks for long, so all of it is under one mutex.
///
/// A call that is put calls the thread that was idle last, or starts one; if neither can be, it waits in the queue. A
/// thread that is called or started is `coming` until it looks at the queue. So a further thread is started for the
/// calls that exceed those coming, and a busy thread that takes a call first costs one look in vain. A started thread
/// may stay in its hook for long, so an idle one is called for the calls that exceed those called.
///
/// A thread that ends joins the one that ended before it. stop() joins the last one.
class blocking_crew : fork_member {
 public:
  struct limits {
    std::size_t threads;
    std::chrono::nanoseconds idle_time;
    std::size_t queue;  // 0: none
  };

  blocking_crew(limits l, threadpool_options&& hooks);
  ~blocking_crew();
  blocking_crew(const blocking_crew&) = delete;
  blocking_crew& operator=(const blocking_crew&) = delete;

  /// In a child of fork(): the pool is the parent's. It has no threads, its mutex may be locked, and its memory stays
  /// as it is: no destructor may run.
  bool is_left_behind() const noexcept {
    return is_left_behind_.load(std::memory_order_relaxed);  // relaxed: written while the child has one thread
  }

  /// Takes a call in. Throws stopped, queue_full, std::bad_alloc, and std::system_error if there is no thread to make
  /// it; then it is destroyed by this thread.
  void put(task call);

  /// The same for a Call made of `from`, in its place.
  template <class Call, class... From>
  void submit(From&&... from) {
    put(task(std::in_place_type<Call>, std::forward<From>(from)...));
  }

  /// Waits for the end of what was accepted. False: the time is up. From 31 years on there is no limit.
  bool wait_idle_for(std::chrono::nanoseconds limit);
  void stop();
  /// Drops the calls that wait, and then does what stop() does. Returns how many have been dropped.
  std::size_t stop_and_discard();
  void stop_or_terminate() noexcept;
  /// From now on, posting threads make their calls themselves.
  void stop_at_exit() noexcept;

  std::size_t size() const;
  std::size_t idle() const;
  std::size_t queued() const;

 private:
  using thread_place = std::list<std::thread>::iterator;

  /// A thread that waits for a call. In the list of those, newest first, until it is called or gives up.
  struct idler {
    std::condition_variable wake{};
    bool is_called = false;
    idler* newer = nullptr;
    idler* older = nullptr;
  };

  /// While it lives, the calling thread makes or drops calls of the crew.
  struct inside {
    explicit inside(blocking_crew* in) noexcept : crew(in), outer(std::exchange(of_this_thread, this)) {}
    ~inside() { of_this_thread = outer; }
    inside(const inside&) = delete;
    inside& operator=(const inside&) = delete;
    blocking_crew* crew;
    inside* const outer;
  };
  ASYNCSTEPS_SHARED static inline constinit thread_local inside* of_this_thread = nullptr;

  static bool forked(fork_member& member, fork_stage at) noexcept;
  /// On a thread of the crew, after a function that may have called fork(). Does not return in the child.
  void end_if_left_behind() const noexcept {
    if (is_left_behind()) end_forked_child();
  }

  bool is_inside() const noexcept {
    const inside* i = of_this_thread;
    while (i != nullptr && i->crew != this) i = i->outer;
    return i != nullptr;
  }
  void refuse_inside(const char* what) const {
    if (is_inside()) throw_would_deadlock(what);
  }

  /// Destroys a call unmade. Returns 0 if it had been cancelled, else 1.
  std::size_t drop(task& call) noexcept;

  // --- under the mutex -----------------------------------------------------------------------------------------------

  /// If it throws, the call is left where it was.
  void take_in(task& call);

  /// Throws std::system_error and std::bad_alloc.
  void start();

  void call_idle() noexcept;
  void list(idler& one) noexcept;
  void unlist(idler& one) noexcept;

  /// Waits until the thread is called. False: its idle time is over, or the crew stops.
  bool rest(std::unique_lock<std::mutex>& lock);

  // --- a thread ------------------------------------------------------------------------------------------------------

  void live(thread_place place, std::size_t number);
  void make_next(std::unique_lock<std::mutex>& lock);
  void leave(thread_place place) noexcept;
  /// By a thread that ends: starts another one for calls that came meanwhile, or after a pthread_exit(). False: none
  /// can start, and this one makes the next call, although its hook for the end has been called.
  bool replace() noexcept;

  // --- the end -------------------------------------------------------------------------------------------------------

  void end_all(bool late_calls_run) noexcept;

  const limits limits_;
  const pool_hooks hooks_;
  atomic<bool> is_left_behind_{false};  // written in a child of fork()
  mutable std::mutex mutex_;            // guards what follows
  std::condition_variable changed_;     // no call, no discarder or no thread is left, or the crew has stopped
  std::deque<task> queue_;
  std::deque<task> discarded_;  // of the first stop_and_discard(), which needs no memory
  std::size_t unfinished_ = 0;  // calls in the queue or running
  std::size_t coming_ = 0;
  std::size_t starting_ = 0;  // of those coming
  std::size_t started_ = 0;
  idler* newest_idle_ = nullptr;
  std::size_t idle_count_ = 0;
  std::list<std::thread> threads_;
  std::thread ended_;  // the last one
  std::size_t dropped_ = 0;
  std::size_t discarding_ = 0;  // calls of stop_and_discard() that destroy what they have taken from the queue
  bool is_refusing_ = false;    // calls from outside
  bool discards_ = false;
  bool is_stopping_ = false;
  bool has_stopped_ = false;
  bool late_calls_run_ = false;
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION blocking_crew::blocking_crew(limits l, threadpool_options&& hooks)
    : fork_member(&forked),
      limits_(l),
      hooks_(std::move(hooks), "async::blocking_pool: unhandled exception in a call") {
  if (l.threads == 0) throw std::invalid_argument("async::blocking_pool: max_threads is 0");
  if (l.idle_time < std::chrono::nanoseconds(0)) {
    throw std::invalid_argument("async::blocking_pool: idle_time is negative");
  }
  forks.value.join(*this);
}

ASYNCSTEPS_FUNCTION blocking_crew::~blocking_crew() { forks.value.leave(*this); }

ASYNCSTEPS_FUNCTION void blocking_crew::put(task call) {
  if (is_left_behind()) throw stopped_by_fork();
  bool is_dropped = false;
  {
    const std::lock_guard lock(mutex_);
    is_dropped = discards_ && is_inside();
    if (!is_dropped && (!is_refusing_ || is_inside())) return take_in(call);
    if (!is_dropped && !late_calls_run_) throw stopped();
  }
  if (!is_dropped) return hooks_.call_here(call);
  const std::size_t count = drop(call);
  const std::lock_guard lock(mutex_);
  dropped_ += count;
}

ASYNCSTEPS_FUNCTION bool blocking_crew::wait_idle_for(std::chrono::nanoseconds limit) {
  refuse_inside("async::blocking_pool: wait_idle() inside a call of the pool");
  if (is_left_behind()) return true;
  const auto is_done = [this] { return unfinished_ == 0; };
  {
    const std::lock_guard lock(mutex_);
    if (is_done()) return true;
  }
  if (limit.count() <= 0) return false;
  const own_section here;  // in a task of a threadpool
  std::unique_lock lock(mutex_);
  if (limit < practically_never) return changed_.wait_until(lock, later(wait_clock::now(), limit), is_done);
  changed_.wait(lock, is_done);
  return true;
}

ASYNCSTEPS_FUNCTION void blocking_crew::stop() {
  refuse_inside("async::blocking_pool: stop() inside a call of the pool");
  end_all(false);
}

ASYNCSTEPS_FUNCTION std::size_t blocking_crew::stop_and_discard() {
  refuse_inside("async::blocking_pool: stop() inside a call of the pool");
  if (is_left_behind()) return 0;
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_refusing_ = true;
    is_first = !std::exchange(discards_, true);
    if (is_first) discarded_.swap(queue_);
    ++discarding_;
  }
  std::size_t count = 0;
  if (is_first) {
    const work_apart destructors;
    const inside here(this);  // calls that destructors post are dropped, too
    for (task& call : discarded_) count += drop(call);
  }
  {
    const std::lock_guard lock(mutex_);
    dropped_ += count;
    if (is_first) unfinished_ -= discarded_.size();
    --discarding_;
    changed_.notify_all();
  }
  end_all(false);
  const std::lock_guard lock(mutex_);
  return dropped_;
}

ASYNCSTEPS_FUNCTION void blocking_crew::stop_or_terminate() noexcept {
  if (is_inside()) {
    std::fputs("async::blocking_pool: destroyed inside one of its own calls\n", stderr);
    std::terminate();
  }
  end_all(false);
}

ASYNCSTEPS_FUNCTION void blocking_crew::stop_at_exit() noexcept {
  if (!is_inside()) end_all(true);  // else a call has called std::exit: the system ends the rest
}

ASYNCSTEPS_FUNCTION std::size_t blocking_crew::size() const {
  if (is_left_behind()) return 0;
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

ASYNCSTEPS_FUNCTION std::size_t blocking_crew::idle() const {
  if (is_left_behind()) return 0;
  const std::lock_guard lock(mutex_);
  return idle_count_;
}

ASYNCSTEPS_FUNCTION std::size_t blocking_crew::queued() const {
  if (is_left_behind()) return 0;
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

ASYNCSTEPS_FUNCTION bool blocking_crew::forked(fork_member& member, fork_stage at) noexcept {
  auto& self = static_cast<blocking_crew&>(member);
  if (at != fork_stage::in_child) return true;
  self.is_left_behind_.store(true, std::memory_order_relaxed);  // relaxed: there is one thread
  for (inside* i = of_this_thread; i != nullptr; i = i->outer) {
    if (i->crew != &self) continue;
    forked::note();
    i->crew = nullptr;
  }
  return false;
}

ASYNCSTEPS_FUNCTION std::size_t blocking_crew::drop(task& call) noexcept {
  const dropping here(this);
  call.reset();
  return here.was_live() ? 1 : 0;
}

ASYNCSTEPS_FUNCTION void blocking_crew::take_in(task& call) {
  const bool is_behind = queue_.size() >= coming_;  // no thread that is coming would make this call
  if (is_behind && newest_idle_ == nullptr && threads_.size() >= limits_.threads && limits_.queue != 0 &&
      queue_.size() - coming_ >= limits_.queue) {
    throw queue_full();
  }
  queue_.push_back(std::move(call));
  ++unfinished_;
  if (newest_idle_ != nullptr) {
    if (queue_.size() > coming_ - starting_) call_idle();
    return;
  }
  if (!is_behind || threads_.size() >= limits_.threads) return;
  try {
    start();
  } catch (...) {
    const bool has_threads = !threads_.empty();  // one of those will make the call, if there is room for it
    if (has_threads && (limits_.queue == 0 || queue_.size() - coming_ <= limits_.queue)) return;
    call = std::move(queue_.back());
    queue_.pop_back();
    --unfinished_;
    if (has_threads) throw queue_full();
    throw;
  }
}

ASYNCSTEPS_FUNCTION void blocking_crew::start() {
  threads_.emplace_front();
  const thread_place place = threads_.begin();
  try {
    *place = std::thread([this, place, number = started_] { live(place, number); });
  } catch (...) {
    threads_.pop_front();
    throw;
  }
  ++started_;
  ++starting_;
  ++coming_;
}

ASYNCSTEPS_FUNCTION void blocking_crew::call_idle() noexcept {
  idler& called = *newest_idle_;
  unlist(called);
  called.is_called = true;
  ++coming_;
  called.wake.notify_one();
}

ASYNCSTEPS_FUNCTION void blocking_crew::list(idler& one) noexcept {
  one.older = newest_idle_;
  if (newest_idle_ != nullptr) newest_idle_->newer = &one;
  newest_idle_ = &one;
  ++idle_count_;
}

ASYNCSTEPS_FUNCTION void blocking_crew::unlist(idler& one) noexcept {
  (one.newer != nullptr ? one.newer->older : newest_idle_) = one.older;
  if (one.older != nullptr) one.older->newer = one.newer;
  --idle_count_;
}

ASYNCSTEPS_FUNCTION bool blocking_crew::rest(std::unique_lock<std::mutex>& lock) {
  if (is_stopping_) return false;
  idler self;
  list(self);
  const auto deadline = later(std::chrono::steady_clock::now(), limits_.idle_time);
  self.wake.wait_until(lock, deadline, [this, &self] { return self.is_called || is_stopping_; });
  if (self.is_called) {
    --coming_;
  } else {
    unlist(self);
  }
  return self.is_called;
}

ASYNCSTEPS_FUNCTION void blocking_crew::live(thread_place place, std::size_t number) {
  const inside here(this);
  const struct end_of_thread {  // also if a call ends the thread by pthread_exit()
    blocking_crew& crew;
    thread_place place;
    std::size_t number;
    ~end_of_thread() {
      crew.hooks_.stopping(number);
      crew.end_if_left_behind();
      crew.leave(place);
    }
  } at_end{*this, place, number};
  hooks_.started(number);
  end_if_left_behind();
  std::unique_lock lock(mutex_);
  --starting_;
  --coming_;
  do {
    while (!queue_.empty()) make_next(lock);
  } while (rest(lock));
}

ASYNCSTEPS_FUNCTION void blocking_crew::make_next(std::unique_lock<std::mutex>& lock) {
  task call = std::move(queue_.front());
  queue_.pop_front();
  lock.unlock();
  const struct end_of_call {
    blocking_crew& crew;
    std::unique_lock<std::mutex>& lock;
    ~end_of_call() {
      crew.end_if_left_behind();
      lock.lock();
      if (--crew.unfinished_ == 0) crew.changed_.notify_all();
    }
  } at_end{*this, lock};
  const struct end_of_captures {
    task& call;
    ~end_of_captures() { call.reset(); }
  } before_that{call};
  hooks_.call(call);
}

ASYNCSTEPS_FUNCTION void blocking_crew::leave(thread_place place) noexcept {
  std::thread before;
  {
    std::unique_lock lock(mutex_);
    while (!replace()) make_next(lock);
    before = std::exchange(ended_, std::move(*place));
    threads_.erase(place);
    if (threads_.empty()) changed_.notify_all();
  }
  if (before.joinable()) before.join();
}

ASYNCSTEPS_FUNCTION bool blocking_crew::replace() noexcept {
  if (queue_.size() <= coming_ || threads_.size() > limits_.threads) return true;
  try {
    start();
  } catch (...) {
    return threads_.size() > 1;  // else the other ones make the calls
  }
  return true;
}

ASYNCSTEPS_FUNCTION void blocking_crew::end_all(bool late_calls_run) noexcept {
  if (is_left_behind()) return;
  const own_section here;  // in a task of a threadpool
  std::unique_lock lock(mutex_);
  late_calls_run_ = late_calls_run_ || late_calls_run;
  is_refusing_ = true;
  if (std::exchange(is_stopping_, true)) {
    return changed_.wait(lock, [this] { return has_stopped_ && discarding_ == 0; });
  }
  for (idler* i = newest_idle_; i != nullptr; i = i->older) i->wake.notify_one();
  // A call in the queue has a thread: the last one that leaves makes those that no other can start for.
  changed_.wait(lock, [this] { return threads_.empty() && discarding_ == 0; });
  std::thread last = std::move(ended_);
  lock.unlock();
  if (last.joinable()) last.join();
  lock.lock();
  has_stopped_ = true;
  changed_.notify_all();
}
#endif

}  // namespace async::inline v0_1::detail
