// SPDX-License-Identifier: BSL-1.0
// floor: 8
#pragma once
#include <algorithm>     // for min, max
#include <exception>     // for exception_ptr, terminate
#include <memory>        // for unique_ptr
#include <mutex>         // for mutex
#include <stdexcept>     // for length_error
#include <string>        // for string
#include <system_error>  // for system_error
#include <thread>        // for thread
#include <vector>        // for vector

#include "async/detail/backoff.hpp"      // for backoff
#include "async/detail/idle_gate.hpp"    // for idle_gate
#include "async/detail/pool_hooks.hpp"   // for pool_hooks
#include "async/detail/sleepers.hpp"     // for sleepers
#include "async/detail/task_feed.hpp"    // for task_feed
#include "async/detail/worker_crew.hpp"  // for worker, worker_crew
#include "async/errors.hpp"              // for stopped, queue_full
#include "async/task.hpp"                // for task
#include "async/threadpool_options.hpp"  // for threadpool_options

namespace async::detail {

/// The pool behind async::threadpool. A task waits in the feed (from outside; FIFO) or in a worker's deque (from
/// inside; LIFO for the owner, FIFO for thieves). What is about threads (start, retire, join) is guarded by mutex_; the
/// hot paths never take it.
class pool_core {
 public:
  pool_core(threadpool_options options, void* facade)
      : facade_(facade),
        first_threads_(options.threads),
        processors_(usable_concurrency()),
        feed_(options),
        hooks_(std::move(options)) {}
  pool_core(const pool_core&) = delete;
  pool_core& operator=(const pool_core&) = delete;

  /// The calling thread's worker if it is one of this pool's, else null.
  worker* own_worker() const noexcept {
    worker* const w = this_worker;
    return w != nullptr && &w->pool == this ? w : nullptr;
  }
  void* facade() const noexcept { return facade_; }
  // --- tasks in ------------------------------------------------------------------------------------------------------

  /// Takes a callable in. Strong guarantee: it throws before anything is accepted.
  template <class F>
  void submit(F&& f) {
    if (worker* const w = own_worker()) {
      boxed_task* const box = boxed_task::make(&run_boxed, std::forward<F>(f));
      try {
        w->own.push(box);
      } catch (...) {
        boxed_task::destroy(box);
        throw;
      }
      sleepers_.notify();
    } else {
      submit_from_outside(task(std::forward<F>(f)));
    }
  }

  /// The same for a job; the caller keeps it if this throws.
  void submit_job(job* j) {
    if (worker* const w = own_worker()) {
      w->own.push(j);
      sleepers_.notify();
    } else {
      submit_from_outside(task([j] { j->run(j); }));
    }
  }

  void submit_from_outside(task work) {
    // [W1] acquire, pairs with [W2]: after stop() has begun nothing is accepted
    if (stopping_.load(std::memory_order_acquire)) return refuse(work);
    if (!feed_.put(work)) return hooks_.call(work);  // caller_runs
    sleepers_.notify();
    light_fence();  // pairs with stop()'s heavy fence: either stop() sees the task or this thread sees the stop
    if (stopped_.load(std::memory_order_relaxed)) run_left_over();  // relaxed: ordered by the fence
  }

  /// From here on, what comes after stop() is run on the calling thread instead of refused: for a pool that ends with
  /// the process.
  void run_late_posts_inline() noexcept { late_posts_run_ = true; }

  // --- tasks out -----------------------------------------------------------------------------------------------------

  /// Something to run, in one of two shapes.
  struct taken {
    job* boxed = nullptr;
    task plain;
  };

  /// The worker's own newest job, else a task from the feed, else the oldest job of another worker; every 61st time the
  /// feed comes first, so that jobs that submit jobs do not starve it. `w` null: a helping thread from outside.
  bool take(worker* w, taken& out) noexcept {
    const bool feed_first = w != nullptr && ++w->turn % 61 == 0;
    if (feed_first) {
      feed_.sample();
      if (feed_.take(out.plain)) return true;
    }
    if (w != nullptr && (out.boxed = w->own.pop()) != nullptr) return true;
    if (!feed_first && feed_.take(out.plain)) return true;
    out.boxed = crew_.steal(w);
    return out.boxed != nullptr;
  }

  /// Runs it, destroys it and what it captured, and tells who waits for the end of a task.
  void run(worker* w, taken& t) noexcept {
    if (t.boxed != nullptr) return run_job(w, std::exchange(t.boxed, nullptr));
    hooks_.call(t.plain);
    t.plain.reset();
    ended(w);
  }
  void run_job(worker* w, job* j) noexcept {
    j->run(j);
    ended(w);
  }
  bool has_work() const noexcept { return !feed_.empty() || crew_.has_work(); }

  /// Runs tasks until ready() is true; sleeps while there are none. Called inside a task, or by a thread from outside
  /// that helps. What makes ready() true is the end of a task of this pool, or something else, which is looked for
  /// after growing times of at most 8 ms.
  template <class Ready>
  void help_until(Ready ready) {
    worker* const w = own_worker();
    if (w == nullptr) outside_helpers_.fetch_add(1, std::memory_order_seq_cst);  // [W10] seq_cst, pairs with [W11]
    bool searching = false;
    auto nap = first_nap;
    while (!ready()) {
      taken t;
      if (take(w, t)) {
        if (std::exchange(searching, false)) sleepers_.found_work();
        run(w, t);
        nap = first_nap;
        continue;
      }
      backoff pause;
      bool again = false;
      while (!again && !pause.exhausted(8)) {
        pause.wait();
        again = ready() || has_work();
      }
      if (again) continue;
      sleepers::sleeper bed;
      bed.waits_for_event = true;
      sleepers_.announce(bed, searching);
      if (ready() || has_work()) {
        searching = sleepers_.cancel(bed);
      } else {
        searching = sleepers_.park_until(bed, wait_clock::now() + nap);
        nap = (std::min)(2 * nap, last_nap);
      }
    }
    if (searching) sleepers_.found_work();
    if (w == nullptr) {
      outside_helpers_.fetch_sub(1, std::memory_order_seq_cst);  // [W12] seq_cst, pairs with [W11]
      idle_.notify();
    }
  }

  /// Wakes who sleeps in help_until(), to look at what it waits for.
  void notify_waiters() noexcept { sleepers_.notify_event(); }

  void unhandled(std::exception_ptr error) noexcept { hooks_.unhandled(std::move(error)); }

  // --- threads -------------------------------------------------------------------------------------------------------

  /// Starts as many threads as the options ask for, or none.
  void start() {
    try {
      configure(first_threads_);
    } catch (...) {
      stop();
      throw;
    }
  }

  /// Sets the number of threads. Strong as to the pool: what was started stays, size() tells how many, and the error
  /// that stopped it reaches the caller.
  void configure(std::size_t threads) {
    if (threads > max_threads) throw std::length_error("async::threadpool: more threads than 65535");
    std::vector<std::thread> ended;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_.load(std::memory_order_relaxed)) throw stopped();  // relaxed: written under the mutex
      while (wanted_ > threads) retire_last();
      ended = take_ended();
      while (wanted_ < threads) start_next();
    }
    for (std::thread& t : ended) t.join();
    sleepers_.notify();
  }

  std::size_t size() const noexcept {
    const std::lock_guard lock(mutex_);
    return wanted_;
  }
  std::size_t idle() const noexcept { return sleepers_.idle(); }

  threadpool_stats stats() const noexcept {
    threadpool_stats all;
    crew_.count(all);
    all.wakes = sleepers_.wakes();
    all.queue_peak = feed_.peak();
    return all;
  }

  /// Until no accepted task is queued or running.
  void wait_idle() {
    not_inside_a_task("async::threadpool: wait_idle() inside one of its tasks");
    idle_.wait([this] { return is_idle(); });
  }

  /// Runs every accepted task, then ends the threads. Later calls wait for the first.
  void stop() {
    not_inside_a_task("async::threadpool: stop() inside one of its tasks");
    const std::lock_guard once(stop_mutex_);
    {
      const std::lock_guard lock(mutex_);
      stopping_.store(true, std::memory_order_release);  // [W2] release, pairs with [W1]
      if (wanted_ == 0) start_last();
    }
    feed_.close();
    if (size() != 0) wait_idle();
    std::vector<std::thread> gone;
    {
      const std::lock_guard lock(mutex_);
      while (wanted_ != 0) retire_last();
      gone.swap(gone_);
    }
    for (std::thread& t : gone) t.join();
    stopped_.store(true, std::memory_order_relaxed);  // relaxed: ordered by the fence
    heavy_fence();                                    // pairs with the light fence of submit_from_outside()
    run_left_over();
  }

 private:
  static constexpr std::size_t max_threads = 65535;
  static constexpr std::chrono::microseconds first_nap{250}, last_nap{8000};

  void ended(worker* w) noexcept {
    if (w != nullptr) worker::count(w->ran);
    sleepers_.notify_event();
  }

  void not_inside_a_task(const char* what) const {
    if (own_worker() == nullptr) return;
    throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), what);
  }

  static void run_boxed(job* j) noexcept {
    auto* const box = static_cast<boxed_task*>(j);
    this_worker->pool.hooks_.call(box->work);
    boxed_task::destroy(box);
  }

  void refuse(task& work) {
    if (!late_posts_run_) throw stopped();
    hooks_.call(work);
  }

  /// After the threads have gone: what slipped in, on the calling thread.
  void run_left_over() noexcept {
    for (taken t; take(nullptr, t);) run(nullptr, t);
  }

  // --- a worker's life -----------------------------------------------------------------------------------------------

  void live(worker& w) noexcept {
    this_worker = &w;
    hooks_.started(w.index);
    bool searching = false;
    // [W6] acquire, pairs with [W7]
    while (!w.retire.load(std::memory_order_acquire)) {
      taken t;
      if (take(&w, t)) {
        if (std::exchange(searching, false)) sleepers_.found_work();
        run(&w, t);
      } else {
        searching = wait_for_work(w, searching);
      }
    }
    if (searching) sleepers_.found_work();
    hooks_.stopping(w.index);
    this_worker = nullptr;
    sleepers_.notify();  // for what is left in its deque
    {
      const std::lock_guard lock(mutex_);
      w.vacant = true;
      ended_.push_back(std::this_thread::get_id());   // room was reserved when the thread was started
      live_.fetch_sub(1, std::memory_order_seq_cst);  // [W14] seq_cst, pairs with [W11]
      idle_.notify();
    }
  }

  /// Searches a while, then sleeps. Returns whether the worker is counted as searching.
  bool wait_for_work(worker& w, bool searching) noexcept {
    if (searching || sleepers_.begin_search(search_limit())) {
      searching = true;
      backoff pause;
      while (!pause.exhausted(8)) {
        if (has_work() || w.retire.load(std::memory_order_relaxed)) return true;  // relaxed: looked at again
        pause.wait();
      }
    }
    sleepers_.announce(w.bed, searching);
    if (has_work() || w.retire.load(std::memory_order_relaxed)) return sleepers_.cancel(w.bed);  // see announce()
    idle_.notify();
    worker::count(w.parks);
    return sleepers_.park(w.bed);
  }

  std::size_t search_limit() const noexcept {
    const std::size_t threads = live_.load(std::memory_order_relaxed);  // relaxed: a hint
    return threads > processors_ ? 1 : (std::max)(threads / 2, std::size_t{1});
  }

  /// Nothing waits and nobody runs. Threads that retire have left live_ only after their last task.
  bool is_idle() const noexcept {
    if (has_work()) return false;
    // [W11] seq_cst, pairs with [W10], [W12] and [W14]
    return outside_helpers_.load(std::memory_order_seq_cst) == 0 &&
           sleepers_.idle() == live_.load(std::memory_order_seq_cst) && !has_work();
  }

  // --- threads, under mutex_ -----------------------------------------------------------------------------------------

  void start_next() {
    worker& w = crew_.vacant(*this, wanted_);
    active_.reserve(wanted_ + 1);
    gone_.reserve(gone_.size() + wanted_ + 1);  // so that retiring them cannot fail
    ended_.reserve(gone_.size() + wanted_ + 1);
    w.retire.store(false, std::memory_order_relaxed);  // relaxed: the thread starts after it
    live_.fetch_add(1, std::memory_order_relaxed);     // relaxed: compared under idle_mutex_, else a hint
    try {
      w.thread = std::thread([this, &w] { live(w); });
    } catch (...) {
      w.vacant = true;
      live_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: as above
      throw;
    }
    active_.push_back(&w);
    ++wanted_;
  }

  /// A paused pool that stops needs a worker once more; without one the caller runs the tasks.
  void start_last() noexcept {
    try {
      start_next();
    } catch (...) {
    }
  }

  void retire_last() noexcept {
    worker& w = *active_.back();
    active_.pop_back();
    --wanted_;
    gone_.push_back(std::move(w.thread));             // room was reserved when it was started
    w.retire.store(true, std::memory_order_release);  // [W7] release, pairs with [W6]
    sleepers_.wake(w.bed);
  }

  /// Takes the threads out of gone_ that are past their last use of the pool, to be joined without waiting for tasks.
  std::vector<std::thread> take_ended() {
    std::vector<std::thread> ended;
    for (const std::thread::id id : ended_) {
      const auto at = std::find_if(gone_.begin(), gone_.end(), [id](const std::thread& t) { return t.get_id() == id; });
      ended.push_back(std::move(*at));
      gone_.erase(at);
    }
    ended_.clear();
    return ended;
  }

  void* const facade_;
  const std::size_t first_threads_;
  const std::size_t processors_;
  task_feed feed_;
  worker_crew crew_;
  const pool_hooks hooks_;
  bool late_posts_run_ = false;  // written before stop()
  sleepers sleepers_;
  atomic<bool> stopping_{false};            // written under mutex_
  atomic<bool> stopped_{false};             // the threads have gone
  atomic<std::size_t> live_{0};             // threads that may run a task
  atomic<std::size_t> outside_helpers_{0};  // threads from outside in help_until()
  idle_gate idle_;
  std::mutex stop_mutex_;     // one stop() at a time
  mutable std::mutex mutex_;  // guards what follows
  std::size_t wanted_ = 0;
  std::vector<worker*> active_;         // workers that have a thread which is not to retire
  std::vector<std::thread> gone_;       // threads that were told to retire and are not joined
  std::vector<std::thread::id> ended_;  // of those, the ones past their last use of the pool
};

}  // namespace async::detail
