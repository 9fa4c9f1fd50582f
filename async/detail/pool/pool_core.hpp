// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>     // for min, max
#include <chrono>        // for microseconds
#include <cstddef>       // for size_t
#include <cstdint>       // for uint64_t
#include <exception>     // for exception_ptr
#include <memory>        // for unique_ptr, make_unique
#include <mutex>         // for mutex, lock_guard
#include <stdexcept>     // for out_of_range
#include <system_error>  // for system_error
#include <utility>       // for exchange, forward, move
#include <vector>        // for vector

#include "async/detail/base/backoff.hpp"         // for backoff
#include "async/detail/pool/idle_condition.hpp"  // for idle_condition
#include "async/detail/pool/injector.hpp"        // for injector
#include "async/detail/pool/pool_hooks.hpp"      // for pool_hooks
#include "async/detail/pool/published_list.hpp"  // for published_list
#include "async/detail/pool/quiescence.hpp"      // for quiescence
#include "async/detail/pool/seat.hpp"            // for this_seat, pool_registry
#include "async/detail/pool/shutdown_state.hpp"  // for shutdown_state
#include "async/detail/pool/sleepers.hpp"        // for sleepers
#include "async/detail/pool/stand_ins.hpp"       // for stand_ins
#include "async/detail/pool/worker_crew.hpp"     // for worker, worker_crew
#include "async/detail/scope/scope_cache.hpp"    // for task_scope, scope_guard
#include "async/detail/scope/wait_scope.hpp"     // for wait_scope
#include "async/errors.hpp"                      // for stopped
#include "async/task.hpp"                        // for task
#include "async/threadpool_options.hpp"          // for threadpool_options

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
            *this, sleepers_, quiescence_, [](worker& w) { w.pool.live(w); },
            [](worker& w) {
              w.home.loop.on_unhandled([&pool = w.pool](std::exception_ptr error) { pool.unhandled(error); });
            }) {
    pool_registry::instance().add(registered_);
  }
  ~pool_core() { pool_registry::instance().remove(registered_); }
  pool_core(const pool_core&) = delete;
  pool_core& operator=(const pool_core&) = delete;

  /// The calling thread's worker if it is one of this pool's, else null.
  worker* own_worker() const noexcept {
    worker* const w = this_worker;
    return w != nullptr && &w->pool == this ? w : nullptr;
  }
  /// The calling thread's part in this pool, if it has one: as a worker, or in a seat.
  participant* own_part() const noexcept {
    if (this_worker != nullptr && &this_worker->pool == this) return this_worker;
    return this_seat.pool == registered_.number ? this_seat.place : nullptr;
  }
  /// The same, only while the thread runs tasks of this pool.
  participant* part_inside() const noexcept {
    if (this_worker != nullptr && &this_worker->pool == this) return this_worker;
    return is_inside() ? own_part() : nullptr;
  }
  /// Whether the calling thread runs a task of this pool: as a worker, or as a helper from outside.
  bool is_inside() const noexcept { return this_pool == this; }
  void* facade() const noexcept { return facade_; }

  // --- tasks in ------------------------------------------------------------------------------------------------------

  /// Takes a callable in. Strong guarantee: it throws before anything is accepted.
  template <class F>
  void submit(F&& f) {
    if (participant* const p = part_inside()) {
      boxed_task* const box = boxed_task::make(&run_boxed, std::forward<F>(f));
      try {
        fork(*p, box, &posted_task);
      } catch (...) {
        boxed_task::destroy(box);
        throw;
      }
      posted_inside(*p);
    } else {
      submit_from_outside(task(std::forward<F>(f)));
    }
  }
  /// After a thread inside the pool has posted a job.
  void posted_inside(const participant& p) {
    if (p.as_worker == nullptr && end_.is_over()) [[unlikely]]
      run_left_over();
  }

  /// Takes in a job that somebody will wait for, from a thread with a part in the pool. Throws std::bad_alloc, then the
  /// caller keeps it.
  [[gnu::always_inline]] void fork(participant& p, job* j, task_scope* in) {
    p.own.push(j, in);
    sleepers_.notify(in);
  }
  /// The same without an exception. False: there is no memory.
  [[gnu::always_inline]] bool try_fork(participant& p, job* j, task_scope* in) noexcept {
    try {
      fork(p, j, in);
      return true;
    } catch (...) {
      return false;
    }
  }
  /// Puts back what the same thread has popped in place of `wanted`, and takes that, if nobody else has. Defined in
  /// pool_wait.hpp.
  bool take_back(participant& p, job_deque::element other, const job* wanted);
  /// Whether a thread may hand in tasks that it will wait for. Throws stopped: none from outside, any more. False: it
  /// is to run them itself.
  bool accepts() const {
    if (is_inside() || !end_.has_begun()) return true;
    if (!late_posts_run_) throw stopped();
    return false;
  }

  void submit_from_outside(task work) {
    if (!is_inside() && end_.has_begun()) return refuse(work);
    if (is_inside() ? !feed_.try_put(work) : !feed_.put(work)) return hooks_.call(work);  // no task blocks
    sleepers_.notify();
    if (end_.is_over()) run_left_over();
  }

  /// Offers a job to all workers, to the calling one first; offered() follows soon. False: the calling thread is no
  /// worker, or there is no memory.
  bool offer(job* j) noexcept {
    worker* const w = own_worker();
    if (w == nullptr) return false;
    try {
      w->own.push(j, &posted_task);
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
    job_deque::element boxed;
    task plain;
  };

  /// The own newest job, else a task from the feed, else the oldest job of another thread; every 61st time the feed
  /// comes first, so that jobs that submit jobs do not starve it. `p` null: a thread that runs what is left.
  bool take(participant* p, taken& out) noexcept {
    worker* const w = p == nullptr ? nullptr : p->as_worker;
    const bool feed_first = w != nullptr && ++w->turn % worker::feed_share == 0;
    if (feed_first) {
      feed_.sample();
      if (feed_.take(out.plain)) return true;
    }
    if (p != nullptr && (out.boxed = p->own.pop())) return true;
    if (!feed_first && feed_.take(out.plain)) return true;
    out.boxed = steal(p, [](const task_scope*) noexcept { return true; });
    return static_cast<bool>(out.boxed);
  }

  /// Runs it, destroys it and what it captured, and tells who waits for the end of a task.
  void run(participant* p, taken& t) {
    if (t.boxed) return run_job(p, std::exchange(t.boxed, {}));
    const one_task here(*this, p, nullptr);
    hooks_.run(t.plain);
  }
  void run_job(participant* p, job_deque::element e) {
    const one_task here(*this, p, e.tag);
    hooks_.run(e.item);
  }
  /// Runs f() as a task of its own.
  template <class F>
  void run_here(participant* p, F f) {
    const one_task here(*this, p, nullptr);
    f();
  }
  bool has_work() const noexcept {
    return !feed_.empty() || any_part(0, [](const participant& p) noexcept { return !p.own.empty(); });
  }

  /// The oldest job of some thread that fits, starting from any; null: there is none. `thief` null: as in take().
  template <class Fits>
  job_deque::element steal(participant* thief, Fits fits) const noexcept {
    job_deque::element stolen;
    any_part(thief == nullptr ? 0 : thief->next_random(), [&](participant& victim) noexcept {
      if (victim.own.empty()) return false;
      stolen = victim.own.steal_if(fits);
      if (stolen && thief != nullptr && thief != &victim) {
        participant::count(thief->steals);
        ASYNC_TRACE_INSTANT(steal, "steal", victim.index);
      }
      return static_cast<bool>(stolen);
    });
    return stolen;
  }

  /// Enters a thread from outside: until go_outside() it counts as running a task of the pool. Returns the pool that it
  /// was in.
  pool_core* come_inside() noexcept {
    quiescence_.helper_arrived();
    return std::exchange(this_pool, this);
  }
  void go_outside(pool_core* before) noexcept {
    quiescence_.helper_left();
    idle_.notify();
    this_pool = before;
  }

  // --- waiting: pool_wait.hpp ----------------------------------------------------------------------------------------

  /// Returns when ready() is true. Meanwhile runs the jobs that `own` allows, and the worker's event loops. Sleeps
  /// while there are none.
  ///
  /// What makes ready() true is the end of a task of this pool, or something else, which is looked for after growing
  /// times of at most 8 ms. While this thread sleeps, others call ready(), too, one at a time; it must not call back
  /// into the pool.
  template <class Ready>
  void wait_until(participant& p, wait_scope own, Ready ready);

  /// By a thread that has found another job on top: its own newest one that fits, which lies below.
  template <class Fits>
  job_deque::element take_below(participant& p, Fits fits) noexcept;

  /// A task polls for what another task of the pool is to do: sees to it that somebody is free for that.
  void stand_in_for_poller() noexcept;

  /// A place for a thread that is none of this pool's. Throws std::bad_alloc.
  guest& take_seat() {
    guest* found = nullptr;
    guests_.any_of(0, [&found](guest& g) noexcept {
      if (g.take()) found = &g;
      return found != nullptr;
    });
    if (found != nullptr) return *found;
    const std::lock_guard lock(guests_mutex_);
    auto fresh = std::make_unique<guest>(*this, worker_crew::most_workers + guest_memory_.size(), sleepers_);
    fresh->take_new();
    guests_.reserve_one();
    guest_memory_.push_back(std::move(fresh));
    guests_.add(*guest_memory_.back());
    return *guest_memory_.back();
  }
  std::uint64_t number() const noexcept { return registered_.number; }

  /// Wakes who sleeps in wait_until(), to look at what it waits for.
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
    guests_.any_of(0, [&all](const guest& g) noexcept {
      all.tasks += g.ran.load(std::memory_order_relaxed);  // relaxed, both: each is a figure of its own
      all.steals += g.steals.load(std::memory_order_relaxed);
      return false;
    });
    return all;
  }

  void wait_idle() {
    not_inside_a_task("async::threadpool: wait_idle() inside one of its tasks");
    idle_.wait([this] { return !quiescence_.has_starting() && is_idle(); });
  }

  /// Runs every accepted task, ends the threads, cancels the flows that are left. Later calls wait for the first.
  void stop() {
    not_inside_a_task("async::threadpool: stop() inside one of its tasks");
    const std::lock_guard once(stop_mutex_);
    end_.begin();
    crew_.close([this]() noexcept { return has_work() || quiescence_.has_anybody(); });
    feed_.close();
    if (size() != 0) idle_.wait([this] { return is_idle() || has_flows_only(); });
    crew_.join_all();
    stand_ins_.close();
    end_.finish();
    const left_alone here(this);
    crew_.end_loops([this] { return run_all(); });
  }

 private:
  static constexpr unsigned tasks_per_turn = 16;
  static constexpr std::chrono::microseconds first_nap{250}, stand_in_nap{1000}, last_nap{8000};

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

  /// One task of the pool, on this thread; its end tells those who wait, also when pthread_exit() ends the thread.
  class one_task {
   public:
    one_task(pool_core& pool, participant* p, task_scope* in) noexcept : scope_(in), pool_(pool), part_(p) {
      if (p != nullptr) made_from_ = std::exchange(p->made_from, p->own.position());
    }
    ~one_task() {
      if (part_ != nullptr) {
        part_->made_from = (std::min)(made_from_, part_->own.position());  // which others may have lowered
        participant::count(part_->ran);
        if (part_->is_polling) [[unlikely]]
          pool_.stop_polling(*part_);
      }
      pool_.sleepers_.notify_event();
    }
    one_task(const one_task&) = delete;
    one_task& operator=(const one_task&) = delete;

   private:
    const scope_guard scope_;
    pool_core& pool_;
    participant* const part_;
    std::int64_t made_from_ = 0;
  };

  /// Calls f(participant&) for the workers, from number `first` on, and for the guests, until one returns true.
  template <class F>
  bool any_part(std::size_t first, F f) const {
    return crew_.any_of(first, [&f](worker& w) { return f(w); }) || guests_.any_of(0, [&f](guest& g) { return f(g); });
  }

  void not_inside_a_task(const char* what) const {
    if (!is_inside()) return;
    throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), what);
  }

  static void run_boxed(job* j) {
    const struct owner {
      boxed_task* box;
      ~owner() { boxed_task::destroy(box); }
    } here{static_cast<boxed_task*>(j)};
    this_pool->hooks_.call(here.box->work);
  }

  void refuse(task& work) {
    if (!late_posts_run_) throw stopped();
    hooks_.call(work);
  }

  /// What slipped in while the threads went. What such a task posts is run after it, by the same call.
  [[gnu::noinline]] void run_left_over() {
    if (left_over_of == this) return;
    const left_alone here(this);
    run_all();
  }
  bool run_all() {
    bool any = false;
    for (taken t; take(nullptr, t); any = true) run(nullptr, t);
    return any;
  }

  // --- a worker's life -----------------------------------------------------------------------------------------------

  /// The thread's first and last acts as a worker.
  class attendance {
   public:
    explicit attendance(worker& w) : worker_(w) {
      this_worker = &w;
      this_home = &w;
      this_pool = &w.pool;
      worker_loop = &w.home.host.core();
      w.pool.hooks_.started(w.index);
    }
    ~attendance() {
      pool_core& pool = worker_.pool;
      this_worker = nullptr;
      this_home = nullptr;
      worker_loop = nullptr;
      pool.sleepers_.notify();  // for what is left in its deque
      pool.idle_.notify();
      pool.hooks_.stopping(worker_.index);
      this_pool = nullptr;
    }
    attendance(const attendance&) = delete;
    attendance& operator=(const attendance&) = delete;

   private:
    worker& worker_;
  };

  void live(worker& w) {
    const attendance here(w);
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
        for (job_deque::element e; tasks_left != 0 && (e = w.next_own()); --tasks_left) run_job(&w, e);
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
  }

  /// Searches a while, if that pays, or waits for an answer to what its loops have sent; sleeps. True: it searches.
  bool wait_for_work(worker& w, bool searching) noexcept {
    const bool pays = w.searches.should_spin();
    searching = searching || (pays && sleepers_.begin_search(search_limit()));
    const bool looks = (w.loops.were_active() && quiescence_.threads() <= processors_) || (searching && pays);
    for (backoff pause; looks && !pause.exhausted(8); pause.wait()) {
      if (!has_work() && !w.is_called() && !w.loops.has_work()) continue;
      w.searches.spin_succeeded();
      return searching;
    }
    sleepers_.announce(w.parking_slot, searching);
    auto deadline = (wait_clock::time_point::max)();
    if (has_work() || w.is_called() || !may_sleep(w, deadline))
      return sleepers_.cancel(w.parking_slot);  // see announce()
    idle_.notify();
    participant::count(w.parks);
    if (deadline == (wait_clock::time_point::max)()) return sleepers_.park(w.parking_slot);
    return sleepers_.park_until(w.parking_slot, deadline);
  }

  /// A turn of the worker's loops, which ends a search. False: they rest.
  bool mind(worker& w, bool& searching) noexcept {
    if (w.review.load(std::memory_order_relaxed)) [[unlikely]]  // relaxed: read again under the mutex
      crew_.review(w);
    if (!w.loops.wants_turn()) return false;
    if (std::exchange(searching, false)) end_search();
    const std::int64_t before = w.own.position();
    const std::int64_t made_from = std::exchange(w.made_from, before);
    try {
      const scope_guard none(nullptr);  // callbacks belong to no task
      w.loops.turn();
    } catch (...) {
      unhandled(std::current_exception());
    }
    // Jobs posted by callbacks lie above those of the current task, and are not its own.
    w.made_from = w.own.position() > before ? w.own.position() : (std::min)(made_from, w.own.position());
    sleepers_.notify_event();  // a flow's future may be what a task waits for
    return true;
  }
  /// False: a loop of the worker has work. Brings `deadline` forward to that of the first timer.
  bool may_sleep(worker& w, wait_clock::time_point& deadline) noexcept {
    return !w.review.load(std::memory_order_relaxed) && w.loops.sleep(deadline);  // relaxed: as in is_called()
  }

  std::size_t search_limit() const noexcept {
    const std::size_t threads = quiescence_.threads();
    return threads > processors_ ? 1 : (std::max)(threads / 2, std::size_t{1});
  }

  void end_search() noexcept {
    sleepers_.end_search([this]() noexcept { return has_work(); });
  }

  bool is_idle() noexcept {  // who has announced sleep, or has not come yet, may not know that its loop is called
    return quiescence_.is_idle(sleepers_, [this]() noexcept {
      return has_work() || (hooks_.has_start() && quiescence_.has_starting()) || crew_.is_called();
    });
  }

  /// No task waits, and whoever does not sleep has found none for as long as flows may go on, see flow_watch. A guess
  /// that stop() needs, lest a flow that never waits keeps it: should it be wrong, a flow is cancelled too early.
  bool has_flows_only() noexcept {
    if (has_work() || quiescence_.has_helpers() || quiescence_.has_starting()) return false;
    const std::size_t with_flows = crew_.with_flows_only();
    return with_flows != 0 && with_flows + idle() >= quiescence_.threads();  // else is_idle() knows better
  }

  // --- threads that wait in tasks, and those that stand in for them: pool_wait.hpp -----------------------------------

  class sleep_in_task;
  atomic<std::uint32_t>* blocked_count(const participant& p) noexcept {
    return p.is_stand_in ? &blocked_stand_ins_ : p.as_worker != nullptr ? &blocked_workers_ : nullptr;
  }
  void stop_polling(participant& p) noexcept {
    p.is_polling = false;
    if (atomic<std::uint32_t>* const count = blocked_count(p)) count->fetch_sub(1, std::memory_order_relaxed);
  }
  job_deque::element take_within(participant& p, const wait_scope& own) noexcept;
  template <class Fits>
  job_deque::element unearth(participant& p, Fits fits) noexcept;
  bool has_within(const participant& p, const wait_scope& own) const noexcept;
  /// How many may stand in: those who do and sleep themselves, and one for each wanted worker that sleeps in a wait.
  /// Relaxed, both: a guess.
  std::size_t missed() const noexcept {
    return blocked_stand_ins_.load(std::memory_order_relaxed) + (std::min)(blocked_workers(), size());
  }
  bool all_are_blocked() const noexcept { return size() != 0 && blocked_workers() >= size(); }
  std::size_t blocked_workers() const noexcept { return blocked_workers_.load(std::memory_order_relaxed); }
  bool stand_in_for(const participant& p, bool may_start) noexcept;
  void live_as_stand_in(std::size_t index);

  void* const facade_;
  const std::size_t first_threads_;
  const std::size_t processors_;
  injector feed_;
  const pool_hooks hooks_;
  bool late_posts_run_ = false;  // written before stop()
  sleepers sleepers_;
  shutdown_state end_;
  quiescence quiescence_;  // the threads, and those from outside in wait_until()
  idle_condition idle_;
  std::mutex stop_mutex_;  // one stop() at a time
  pool_registry::entry registered_;
  published_list<guest> guests_;  // written under guests_mutex_
  std::mutex guests_mutex_;
  std::vector<std::unique_ptr<guest>> guest_memory_;  // guarded by guests_mutex_
  atomic<std::uint32_t> blocked_workers_{0};          // that sleep in a wait, or poll
  atomic<std::uint32_t> blocked_stand_ins_{0};        // likewise
  stand_ins stand_ins_;
  worker_crew crew_;  // last: its threads use the rest
};

}  // namespace async::detail
