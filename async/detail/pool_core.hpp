// SPDX-License-Identifier: BSL-1.0
// floor: 12
#pragma once
#include <algorithm>     // for min, max
#include <chrono>        // for microseconds, milliseconds
#include <cstddef>       // for size_t
#include <cstdint>       // for uint64_t
#include <exception>     // for exception_ptr
#include <mutex>         // for mutex
#include <stdexcept>     // for out_of_range
#include <system_error>  // for system_error
#include <utility>       // for exchange, forward, move

#include "async/detail/backoff.hpp"      // for backoff
#include "async/detail/idle_gate.hpp"    // for idle_gate
#include "async/detail/pool_census.hpp"  // for pool_census
#include "async/detail/pool_hooks.hpp"   // for pool_hooks
#include "async/detail/sleepers.hpp"     // for sleepers
#include "async/detail/stop_gate.hpp"    // for stop_gate
#include "async/detail/task_feed.hpp"    // for task_feed
#include "async/detail/worker_crew.hpp"  // for worker, worker_crew
#include "async/errors.hpp"              // for stopped, queue_full
#include "async/task.hpp"                // for task
#include "async/threadpool_options.hpp"  // for threadpool_options

namespace async::detail {

/// The pool behind async::threadpool. A task waits in the feed (from outside; FIFO) or in a worker's deque (from
/// inside; LIFO for the owner, FIFO for thieves). Each worker drives an event loop besides, in turns with its tasks.
class pool_core {
 public:
  pool_core(threadpool_options options, void* facade)
      : facade_(facade),
        first_threads_(options.threads),
        processors_(usable_concurrency()),
        feed_(options),
        hooks_(std::move(options)),
        crew_(
            *this, sleepers_, census_, [](worker& w) noexcept { w.pool.live(w); },
            [](worker& w) {
              w.home.loop.on_unhandled([&pool = w.pool](std::exception_ptr error) { pool.unhandled(error); });
            }) {}
  pool_core(const pool_core&) = delete;
  pool_core& operator=(const pool_core&) = delete;

  /// The calling thread's worker if it is one of this pool's, else null.
  worker* own_worker() const noexcept {
    worker* const w = this_worker;
    return w != nullptr && &w->pool == this ? w : nullptr;
  }
  /// Whether the calling thread runs a task of this pool: as a worker, or as a helper from outside.
  bool is_inside() const noexcept { return this_pool == this; }
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

  /// The same for a job, which the caller keeps if this throws; run at once where it `may_wait` not for a full feed.
  void submit_job(job* j, bool may_wait = true) {
    if (worker* const w = own_worker()) {
      w->own.push(j);
      sleepers_.notify();
    } else {
      submit_from_outside(task([j] { j->run(j); }), may_wait);
    }
  }

  void submit_from_outside(task work, bool may_wait = true) {
    if (!is_inside() && end_.has_begun()) return refuse(work);
    if (is_inside() || !may_wait ? !feed_.try_put(work) : !feed_.put(work)) return hooks_.call(work);  // no task blocks
    sleepers_.notify();
    if (end_.is_over()) run_left_over();
  }

  /// Offers a job to all workers, to the calling one first; offered() follows soon. False: the calling thread is no
  /// worker, or there is no memory.
  bool offer(job* j) noexcept {
    worker* const w = own_worker();
    if (w == nullptr) return false;
    try {
      w->own.push(j);
      return true;
    } catch (...) {
      return false;
    }
  }
  void offered() noexcept { sleepers_.notify(); }

  /// From here on, what comes after stop() is run on the calling thread instead of refused: for a pool that ends with
  /// the process.
  void run_late_posts_inline() noexcept { late_posts_run_ = true; }

  /// Something to run, in one of two shapes.
  struct taken {
    job* boxed = nullptr;
    task plain;
  };

  /// The worker's own newest job, else a task from the feed, else the oldest job of another worker; every 61st time the
  /// feed comes first, so that jobs that submit jobs do not starve it. `w` null: a helping thread from outside.
  bool take(worker* w, taken& out) noexcept {
    const bool feed_first = w != nullptr && ++w->turn % worker::feed_share == 0;
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
    hooks_.run(t.plain);
    ended(w);
  }
  void run_job(worker* w, job* j) noexcept {
    hooks_.run(j);
    ended(w);
  }
  bool has_work() const noexcept { return !feed_.empty() || crew_.has_work(); }

  /// Runs tasks until ready() is true; sleeps while there are none. Called inside a task, or by a thread from outside
  /// that helps. What makes ready() true is the end of a task of this pool, or something else, which is looked for
  /// after growing times of at most 8 ms. While this thread sleeps, others call ready(), too, one at a time; it must
  /// not call back into the pool.
  /// Defined in pool_help.hpp.
  template <class Ready>
  void help_until(Ready ready);

  /// Wakes who sleeps in help_until(), to look at what it waits for.
  void notify_waiters() noexcept { sleepers_.notify_event(); }

  void unhandled(std::exception_ptr error) noexcept { hooks_.unhandled(std::move(error)); }

  /// Starts as many threads as the options ask for, or none.
  void start() {
    try {
      configure(first_threads_);
    } catch (...) {
      stop();
      throw;
    }
  }

  /// Sets the number of threads; throws what worker_crew::configure() throws.
  void configure(std::size_t threads) {
    struct notifier {
      pool_core& pool;
      ~notifier() { pool.idle_.notify(); }
    } const at_end{*this};  // when a thread could not be started, nobody waits for it
    crew_.configure(threads);
    sleepers_.notify();
  }

  /// Where a flow is to run that is started by the calling thread: in the worker's own loop, at once when its thread
  /// drives it; else in some loop, by a message.
  struct flow_place {
    loop_host& loop;
    bool here;
  };
  flow_place place_for_flow() const noexcept {
    worker* const w = own_worker();
    if (w == nullptr) return {crew_.loop(0).host, false};
    const bool elsewhere = current_loop != nullptr && current_loop != &w->home.host.core();
    return {w->home.host, !elsewhere && w->loops.drives(w->home)};
  }

  /// The event loop of a wanted worker. Throws std::out_of_range.
  event_loop& loop(std::size_t index) const {
    const worker* const own = own_worker();  // which is not wanted yet when it begins, and no more when it ends
    const bool is_own = own != nullptr && own->index == index;
    if (index >= size() && !is_own) throw std::out_of_range("async::threadpool: loop() of a worker that is not wanted");
    return crew_.loop(index).loop;
  }

  std::size_t size() const noexcept { return crew_.size(); }
  std::size_t idle() const noexcept { return sleepers_.idle().count(); }

  threadpool_stats stats() const noexcept {
    threadpool_stats all;
    crew_.count(all);
    all.wakes = sleepers_.wakes();
    all.queue_peak = feed_.peak();
    return all;
  }

  void wait_idle() {
    not_inside_a_task("async::threadpool: wait_idle() inside one of its tasks");
    idle_.wait([this] { return !census_.has_fresh() && is_idle(); });
  }

  /// Runs every accepted task, ends the threads, cancels the flows that are left. Later calls wait for the first.
  void stop() {
    not_inside_a_task("async::threadpool: stop() inside one of its tasks");
    const std::lock_guard once(stop_mutex_);
    end_.begin();
    crew_.close([this]() noexcept { return has_work() || census_.has_anybody(); });
    feed_.close();
    if (size() != 0) idle_.wait([this] { return is_idle() || has_flows_only(); });
    crew_.join_all();
    end_.finish();
    const left_alone here(this);
    crew_.end_loops([this]() noexcept { return run_all(); });
  }

 private:
  static constexpr std::chrono::microseconds first_nap{250}, last_nap{8000};

  /// While it lives, the calling thread runs tasks of `pool`.
  struct inside {
    explicit inside(pool_core* pool) noexcept : before(std::exchange(this_pool, pool)) {}
    inside(const inside&) = delete;
    ~inside() { this_pool = before; }
    pool_core* const before;
  };
  /// The same when the threads have gone: what is posted meanwhile is run by this thread, not inside the post.
  struct left_alone : inside {
    explicit left_alone(pool_core* pool) noexcept : inside(pool), outer(std::exchange(left_over_of, pool)) {}
    ~left_alone() { left_over_of = outer; }
    pool_core* const outer;
  };

  void ended(worker* w) noexcept {
    if (w != nullptr) worker::count(w->ran);
    sleepers_.notify_event();
  }

  void not_inside_a_task(const char* what) const {
    if (!is_inside()) return;
    throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), what);
  }

  static void run_boxed(job* j) noexcept {
    auto* const box = static_cast<boxed_task*>(j);
    this_pool->hooks_.call(box->work);
    boxed_task::destroy(box);
  }

  void refuse(task& work) {
    if (!late_posts_run_) throw stopped();
    hooks_.call(work);
  }

  /// What slipped in while the threads went. What such a task posts is run after it, by the same call.
  [[gnu::noinline]] void run_left_over() noexcept {
    if (left_over_of == this) return;
    const left_alone here(this);
    run_all();
  }
  bool run_all() noexcept {
    bool any = false;
    for (taken t; take(nullptr, t); any = true) run(nullptr, t);
    return any;
  }

  // --- a worker's life -----------------------------------------------------------------------------------------------

  void live(worker& w) noexcept {
    const std::size_t index = w.index;
    this_worker = &w;
    this_pool = this;
    home_loop = &w.home.host.core();
    hooks_.started(index);
    bool searching = false;
    unsigned tasks_left = 0;  // before the next look at the loops
    for (;;) {
      taken t;
      bool loops_rest = false;
      // before a turn, whose end of the search would wake another for it
      const bool found = searching && !w.is_to_retire() && take(&w, t);
      if (!found && tasks_left == 0) {
        const bool turned = mind(w, searching);
        loops_rest = !turned || !w.loops.has_work();
        tasks_left = turned ? tasks_per_turn : w.loops.tasks_per_look();
      }
      if (!found && w.is_to_retire()) {
        if (std::exchange(searching, false)) end_search();
        if (crew_.leave(w)) break;
      } else if (found || take(&w, t)) {
        if (std::exchange(searching, false)) end_search();
        w.flows.end();
        run(&w, t);
        if (tasks_left != 0) --tasks_left;
        for (job* j; tasks_left != 0 && (j = w.next_own()) != nullptr; --tasks_left) run_job(&w, j);
      } else if (!loops_rest) {
        tasks_left = 0;
        if (end_.is_closing()) {
          w.flows.go_on();
          idle_.notify();
        }
      } else {
        w.flows.end();
        searching = wait_for_work(w, searching);
        tasks_left = 0;
      }
    }
    this_worker = nullptr;
    home_loop = nullptr;
    sleepers_.notify();  // for what is left in its deque
    idle_.notify();
    hooks_.stopping(index);
    this_pool = nullptr;
  }

  /// Searches a while, if that pays, or waits for an answer to what its loops have sent; sleeps. True: it searches.
  bool wait_for_work(worker& w, bool searching) noexcept {
    const bool pays = w.searches.pay();
    searching = searching || (pays && sleepers_.begin_search(search_limit()));
    const bool looks = (w.loops.were_active() && census_.threads() <= processors_) || (searching && pays);
    for (backoff pause; looks && !pause.exhausted(8); pause.wait()) {
      if (!has_work() && !w.is_called() && !w.loops.has_work()) continue;
      w.searches.paid();
      return searching;
    }
    sleepers_.announce(w.bed, searching);
    auto deadline = (wait_clock::time_point::max)();
    if (has_work() || w.is_called() || !may_sleep(w, deadline)) return sleepers_.cancel(w.bed);  // see announce()
    idle_.notify();
    worker::count(w.parks);
    if (deadline == (wait_clock::time_point::max)()) return sleepers_.park(w.bed);
    return sleepers_.park_until(w.bed, deadline);
  }

  /// A turn of the worker's loops, which ends a search. False: they rest.
  bool mind(worker& w, bool& searching) noexcept {
    if (w.review.load(std::memory_order_relaxed)) [[unlikely]]  // relaxed: read again under the mutex
      crew_.review(w);
    if (!w.loops.wants_turn()) return false;
    if (std::exchange(searching, false)) end_search();
    try {
      w.loops.turn();
    } catch (...) {
      unhandled(std::current_exception());
    }
    sleepers_.notify_event();  // a flow's future may be what a task waits for
    return true;
  }
  /// False: a loop of the worker has work. Brings `deadline` forward to that of the first timer.
  bool may_sleep(worker& w, wait_clock::time_point& deadline) noexcept {
    return !w.review.load(std::memory_order_relaxed) && w.loops.sleep(deadline);  // relaxed: as in is_called()
  }

  std::size_t search_limit() const noexcept {
    const std::size_t threads = census_.threads();
    return threads > processors_ ? 1 : (std::max)(threads / 2, std::size_t{1});
  }

  void end_search() noexcept {
    sleepers_.end_search([this]() noexcept { return has_work(); });
  }

  bool is_idle() noexcept {  // who has announced sleep, or has not come yet, may not know that its loop is called
    return census_.is_idle(sleepers_, [this]() noexcept {
      return has_work() || (hooks_.has_start() && census_.has_fresh()) || crew_.is_called();
    });
  }

  /// No task waits, and whoever does not sleep has found none for as long as flows may go on, see flow_watch. A guess
  /// that stop() needs, lest a flow that never waits keeps it: should it be wrong, a flow is cancelled too early.
  bool has_flows_only() noexcept {
    if (has_work() || census_.has_helpers() || census_.has_fresh()) return false;
    const std::size_t with_flows = crew_.with_flows_only();
    return with_flows != 0 && with_flows + idle() >= census_.threads();  // else is_idle() knows better
  }
  static constexpr unsigned tasks_per_turn = 16;

  void* const facade_;
  const std::size_t first_threads_;
  const std::size_t processors_;
  task_feed feed_;
  const pool_hooks hooks_;
  bool late_posts_run_ = false;  // written before stop()
  sleepers sleepers_;
  stop_gate end_;
  pool_census census_;  // the threads, and those from outside in help_until()
  idle_gate idle_;
  std::mutex stop_mutex_;  // one stop() at a time
  worker_crew crew_;       // last: its threads use the rest
};

}  // namespace async::detail
