// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <exception>  // for exception_ptr
#include <memory>     // for unique_ptr
#include <mutex>      // for mutex
#include <utility>    // for exchange, forward, move
#include <vector>     // for vector

#include "async/detail/base/chrono.hpp"           // for time_point
#include "async/detail/base/forks.hpp"            // for end_forked_child
#include "async/detail/base/min_max.hpp"          // for min_of
#include "async/detail/base/naps.hpp"             // for look_reason, pool_look
#include "async/detail/pool/backlog.hpp"          // for backlog
#include "async/detail/pool/flow_watch.hpp"       // for flow_watch
#include "async/detail/pool/idle_condition.hpp"   // for idle_condition
#include "async/detail/pool/injector.hpp"         // for injector
#include "async/detail/pool/job.hpp"              // for job, posted_job
#include "async/detail/pool/late_leavers.hpp"     // for late_leavers
#include "async/detail/pool/lookout.hpp"          // for lookout
#include "async/detail/pool/loop_slot.hpp"        // for loop_slot
#include "async/detail/pool/loop_watch.hpp"       // for loop_watch
#include "async/detail/pool/pool_hooks.hpp"       // for pool_hooks
#include "async/detail/pool/pool_timers.hpp"      // for pool_timers
#include "async/detail/pool/priority_queues.hpp"  // for priority_queues, priority_order
#include "async/detail/pool/published_list.hpp"   // for published_list
#include "async/detail/pool/quiescence.hpp"       // for quiescence
#include "async/detail/pool/seat.hpp"             // for this_seat, pool_registry
#include "async/detail/pool/shutdown_state.hpp"   // for shutdown_state
#include "async/detail/pool/sleepers.hpp"         // for sleepers
#include "async/detail/pool/spare_loops.hpp"      // for flow_loops
#include "async/detail/pool/stand_ins.hpp"        // for stand_ins
#include "async/detail/pool/worker_crew.hpp"      // for worker, worker_crew
#include "async/detail/scope/scope_cache.hpp"     // for task_scope, scope_guard
#include "async/detail/scope/wait_scope.hpp"      // for wait_scope
#include "async/errors.hpp"                       // for stopped, stopped_by_fork
#include "async/task.hpp"                         // for task
#include "async/threadpool_options.hpp"           // for threadpool_options

namespace async::inline v0_1 {
class threadpool;
}

namespace async::inline v0_1::detail {

/// The pool behind async::threadpool. A task posted from outside waits in the injector (FIFO). A task posted inside
/// waits in the deque of the posting thread (LIFO for this thread, FIFO for thieves). Event loops that have work wait
/// in the queue of the worker that has given it to them, or in the backlog; the workers run turns of them beside tasks.
///
/// The headers of pool_functions.hpp define what this one only declares. A map of this folder: async/detail/README.md.
class pool_core {
 public:
  pool_core(threadpool_options options, threadpool& facade);
  ~pool_core();

  /// In a child of fork(): the pool is the parent's. It has no threads, its mutexes may be locked, and its memory stays
  /// as it is: no destructor may run.
  bool is_left_behind() const noexcept {
    return is_left_behind_.load(std::memory_order_relaxed);  // relaxed: written while the child has one thread
  }
  /// To be called where a function returns that may have called fork() inside the pool. Does not return in the child.
  void end_if_left_behind() const noexcept {
    if (is_left_behind()) [[unlikely]]
      end_forked_child();
  }
  /// To be called where work is handed in. Throws stopped_by_fork.
  void refuse_if_left_behind() const {
    if (is_left_behind()) [[unlikely]]
      throw stopped_by_fork();
  }

  pool_core(const pool_core&) = delete;
  pool_core& operator=(const pool_core&) = delete;

  /// The worker whose thread calls, if it belongs to this pool; else null.
  worker* own_worker() const noexcept {
    worker* const w = this_worker;
    return w != nullptr && &w->pool == this ? w : nullptr;
  }
  /// The calling thread's part in this pool, as a worker or in a seat; else null.
  participant* own_part() const noexcept {
    if (worker* const w = own_worker()) return w;
    return this_seat.pool == registered_.number ? this_seat.place : nullptr;
  }
  /// The same, but null unless the thread runs a task of this pool.
  participant* part_inside() const noexcept {
    if (worker* const w = own_worker()) return w;
    return is_inside() ? own_part() : nullptr;
  }
  /// The same, but null unless the thread is a worker, or in a visit that works for this pool, see working_visit.
  participant* part_at_work() const noexcept {
    if (worker* const w = own_worker()) [[likely]]
      return w;
    return this_seat.uses != 0 ? part_inside() : nullptr;
  }
  /// Whether the calling thread runs a task of this pool: as a worker, or as a helper from outside.
  bool is_inside() const noexcept { return this_pool == this; }
  const pool_registry::entry& registered() const noexcept { return registered_; }
  threadpool& facade() const noexcept { return *facade_; }
  /// A thread that posts from outside may have to wait, or to run what it posts.
  bool is_bounded() const noexcept { return injector_.is_bounded(); }

  // --- tasks in ------------------------------------------------------------------------------------------------------

  /// Takes in a callable, made of `from` in its place. Strong guarantee: it throws before anything is accepted.
  template <class Call, class... From>
  void submit(From&&... from) {
    if (participant* const p = part_inside()) {
      using box = boxed_task<Call>;
      box* const made = box::make(&run_boxed<box>, std::forward<From>(from)...);
      try {
        fork(*p, made, p->post_tag);
      } catch (...) {
        box::destroy(made);
        throw;
      }
      posted_inside(*p);
    } else {
      submit_from_outside(task_of<Call>(std::forward<From>(from)...));
    }
  }
  /// Takes a job in, which `owner` keeps until then. The job may be gone when this returns. Throws as submit().
  template <class Owner>
  void submit_job(posted_job* j, Owner owner) {
    if (participant* const p = part_inside()) {
      fork(*p, j, p->post_tag);
      owner.dismiss();
      posted_inside(*p);
    } else {
      submit_from_outside(task(std::move(owner)));
    }
  }
  /// Takes in a job that a thread will wait for. The caller has the part `p` in the pool. Throws std::bad_alloc; then
  /// the caller keeps the job.
  [[gnu::always_inline]] void fork(participant& p, job* j, task_scope* in) {
    p.own.push(j, in);
    sleepers_.notify(in);
  }
  /// The same without exceptions. False: there is no memory.
  [[gnu::always_inline]] bool try_fork(participant& p, job* j, task_scope* in) noexcept {
    try {
      fork(p, j, in);
      return true;
    } catch (...) {
      return false;
    }
  }
  /// Puts `other` back, which has just been popped instead of `wanted`, and takes `wanted`. False: a thief has it.
  bool take_back(participant& p, job_deque::element other, const job* wanted);
  /// Whether the calling thread may hand in tasks that it will wait for. False: it has to run them itself. Throws
  /// stopped when the pool takes no tasks from outside any more.
  bool accepts() const {
    registered_.refuse_if_unwakeable();
    if (is_inside() || !shutdown_.has_begun() || registered_.has_led_away()) return true;
    refuse_if_left_behind();
    if (!late_posts_run_.load(std::memory_order_relaxed)) throw stopped();  // relaxed: see refuse()
    return false;
  }

  /// Takes in a task of high or low priority, from inside or outside. Throws as submit().
  void submit_with(priority wanted, task work);
  void submit_from_outside(task work);
  bool put_for_flow(task& work);
  /// For a task that the queue has no room for, of a thread outside the pool. Throws std::bad_alloc, stopped.
  void run_on_poster(task& work);

  /// While it lives, the pool's destructor waits for the calling thread, unless that is inside a task of the pool. For
  /// a thread that hands in a task whose end may lead to that of the pool, and is not in a call of a user to the pool.
  class stay {
   public:
    explicit stay(pool_core& pool) noexcept : in_(pool.is_inside() ? nullptr : &pool.late_leavers_) {
      if (in_ != nullptr) in_->come();
    }
    ~stay() {
      if (in_ != nullptr) in_->leave();
    }
    stay(const stay&) = delete;
    stay& operator=(const stay&) = delete;

   private:
    late_leavers* const in_;
  };

  /// Offers a job to all workers, to the calling one first. The caller calls offered() soon after. False: the calling
  /// thread is no worker, the pool is closing, or there is no memory.
  bool offer(posted_job* j) noexcept;
  void offered() noexcept { sleepers_.notify(); }

  /// Makes posts after stop() run on the posting thread, for a pool that ends with the process. Else they are refused.
  void run_late_posts_inline() noexcept { late_posts_run_.store(true, std::memory_order_relaxed); }  // see refuse()

  /// A task to run: a job from a deque, or a task from the injector.
  struct taken {
    job_deque::element boxed;
    task plain;
  };

  /// Takes the caller's own newest job, else a task from the injector, else the oldest job of another thread. Every
  /// 61st time the injector comes first, so that jobs that post jobs cannot starve it; then, for a thread that is no
  /// worker, its own oldest. False: there is none. `p` null: a thread without part, which runs left-over tasks.
  bool take(participant* p, taken& out) noexcept;
  /// Steals the oldest job of a thread that may have left it behind: one that is no worker, else any.
  job_deque::element steal_left_behind(worker& w) noexcept;
  /// As steal(), of any job, but leaves short tasks to the thread that has made them, see theft_habit.
  job_deque::element steal_if_it_pays(worker& w) noexcept;

  /// The same in the order of priorities, which `order` decides for the calling thread.
  bool take_any(participant* p, taken& out, priority_order& order) noexcept;

  /// Runs a task, destroys it with its captures, and wakes threads that wait for its end.
  void run(participant* p, taken& t) {
    if (t.boxed) return run_job(p, std::exchange(t.boxed, {}));
    const one_task here(*this, p, nullptr);
    hooks_.run(t.plain);
    end_if_returned();
  }
  /// Whether the worker is to look at loops or timers before it runs another task. False: it may run one now.
  bool is_time_for_loops(worker& w) noexcept {
    return has_loops_at_hand(w) || (timers_.next() != pool_timers::never && is_time_for_timers(w));
  }
  [[gnu::always_inline]] void run_job(participant* p, job_deque::element e) {
    const one_task here(*this, p, e.tag);
    hooks_.run(e.item);
  }
  /// If the pool discards its tasks: drops this one, unless a construct joins it. False: the caller has to run it.
  bool drop_instead(taken& t) noexcept;
  bool discards() const noexcept { return shutdown_.discards(); }
  /// Whether a wait drops posted tasks, too. Without threads it runs those that its own thread has posted.
  bool discards_in_waits() const noexcept { return shutdown_.discards() && left_over_of != this; }
  /// A construct has skipped a task, which counts as dropped if the pool discards its tasks.
  void note_skipped() noexcept;
  /// Runs f() as a task.
  template <class F>
  [[gnu::always_inline]] void run_here(participant* p, F f) {
    const one_task here(*this, p, nullptr);
    f();
  }
  bool has_work() const noexcept { return has_tasks() || has_loops(); }
  bool has_work_for(const worker& w) const noexcept { return has_tasks() || has_loops_to_take(w); }
  bool has_tasks() const noexcept {
    return !injector_.empty() || any_part(0, [](const participant& p) noexcept { return !p.own.empty(); }) ||
           priorities_.has_tasks();
  }

  /// Steals the oldest job of some thread, if it fits. Starts at a random victim. Null: there is none. `thief` null:
  /// the caller has no part in the pool.
  template <class Fits>
  job_deque::element steal(participant* thief, Fits fits) const noexcept {
    job_deque::element stolen;
    any_part(thief == nullptr ? 0 : thief->next_random(), [&](participant& victim) noexcept {
      if (victim.own.empty()) return false;
      stolen = victim.own.steal_if(fits);
      if (stolen && thief != nullptr && thief != &victim) note_theft(*thief, victim);
      return static_cast<bool>(stolen);
    });
    return stolen;
  }
  static void note_theft(participant& thief, [[maybe_unused]] const participant& victim) noexcept {
    participant::count(thief.steals);
    ASYNCSTEPS_TRACE_INSTANT(steal, "steal", victim.index);
  }

  /// Counts a thread from outside as running a task of the pool, until go_outside(). Returns the pool that it was in.
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
  /// The end of a task of this pool that makes ready() true wakes the thread at once. Any other event is noticed by
  /// polling, see longest_nap(). While the thread sleeps, other threads call ready(), too, one at a time; it must not
  /// call back into the pool.
  template <class Ready>
  void wait_until(participant& p, wait_scope own, const Ready& ready) {
    wait_until_true(p, own, {&ready, [](const void* r) { return (*static_cast<const Ready*>(r))(); }});
  }

  /// Takes the newest job that fits from the thread's own deque; other jobs may lie above it.
  template <class Fits>
  job_deque::element take_below(participant& p, Fits fits) noexcept;

  /// By a task that polls: if no thread of the pool that has started this one is free, lets a stand-in run its tasks
  /// and, if loops wait (for_all: in any case), lets another worker take this one's place until the task ends or waits.
  /// It turns no loop itself: a poll is not expected to run steps of others.
  enum class way : bool { for_what_waits, for_all };
  static void make_way_for_polled(way how = way::for_what_waits) noexcept;
  /// The part of it that is for tasks.
  static void stand_in_for_poller() noexcept;
  /// By a task that sleeps elsewhere: turns a loop as in wait_until(). False: there is none, or no worker is calling.
  bool turn_at_home() noexcept;
  /// What look_after_pool is on threads of pools. In a turn of a loop it has no other turns inside.
  static look_answer look_after_own(look_reason why) noexcept;

  /// A part in the pool for a thread from outside. Throws std::bad_alloc.
  guest& take_seat();
  std::uint64_t number() const noexcept { return registered_.number; }

  /// Wakes the threads in wait_until() whose ready() has become true; or the one of a wait_scope::with_wake_up().
  void notify_waiters() noexcept { sleepers_.notify_event(); }
  void wake(participant& p) noexcept { is_left_behind() ? void() : sleepers_.wake(p.parking_slot); }
  void unhandled(std::exception_ptr error) noexcept { hooks_.unhandled(std::move(error)); }

  /// Starts as many threads as the options ask for, or none.
  void start();
  /// Sets the number of threads; throws what worker_crew::configure() throws.
  void configure(std::size_t threads);

  // --- loops: pool_loops.hpp -----------------------------------------------------------------------------------------

  /// The loop of a flow that the calling thread starts. A worker that is in no loop starts the flow in visit(), which
  /// runs the flow's first turn. Otherwise the caller sends the flow a message.
  class flow_place;
  [[gnu::always_inline]] inline flow_place place_for_flow() noexcept;

  /// Whether a loop waits for a turn.
  bool has_loops() const noexcept {
    return !backlog_.empty() || crew_.any_of(0, [](const worker& w) noexcept { return !w.ready.empty(); }) ||
           priorities_.has_loops();
  }
  /// Whether loops may wait, and no worker is free for them.
  bool loops_need_another() const noexcept {
    return idle() == 0 && (has_loops() || timers_.next() != pool_timers::never);
  }
  /// As has_loops(), for a worker with nothing to do, which leaves other workers what they are about to turn.
  bool has_loops_to_take(const worker& w) const noexcept {
    brief_look look;
    return !backlog_.empty() || !w.ready.empty() || priorities_.has_loops() ||
           crew_.any_of(0, [&look](const worker& other) noexcept { return look.is_left(other.ready); });
  }

  /// The event loop of a wanted worker. Throws std::out_of_range.
  event_loop& loop(std::size_t index) const;
  event_loop& first_loop() const noexcept;  ///< the first worker's, wanted or not

  /// A thread of the pool enters or leaves a blocking_section. False: it has not entered, and does not leave.
  bool enter_section(participant& home) noexcept;
  void leave_section(participant& home) noexcept;

  /// Returns unused memory of queues and deques to the system, and the number of bytes. Workers trim their own, later.
  std::size_t trim() noexcept;
  std::size_t size() const noexcept { return crew_.size(); }
  std::size_t idle() const noexcept { return sleepers_.idle().count(); }
  threadpool_stats stats() const noexcept;
  /// Waits for the end of what was accepted. False: the time is up. From 31 years on there is no limit.
  bool wait_idle_for(std::chrono::nanoseconds limit);

  /// Drops the tasks that have not begun, then does what stop() does. Returns how many tasks and flows were dropped.
  std::size_t stop_and_discard();

  /// Runs every accepted task, ends the threads, cancels the flows that are left. Later calls wait for the first.
  void stop();

 private:
  /// While it lives, the calling thread runs tasks of `pool`.
  struct inside {
    explicit inside(pool_core* pool) noexcept : before(std::exchange(this_pool, pool)) {}
    inside(const inside&) = delete;
    ~inside() { this_pool = before; }
    pool_core* const before;
  };
  /// The same when the threads have gone: this thread also runs what is posted meanwhile, but not inside the post.
  struct left_alone : inside, scoped_pool_around {
    explicit left_alone(pool_core* pool) noexcept;
    ~left_alone();
    pool_core* const outer;
    const pool_look look;
  };

  /// While it lives, the calling thread runs one task. Its end wakes waiting threads, also when pthread_exit() ends the
  /// thread.
  class one_task {
   public:
    one_task(pool_core& pool, participant* p, task_scope* in) noexcept : scope_(in), pool_(pool), part_(p) {
      if (p != nullptr) made_from_ = std::exchange(p->made_from, p->own.position());
    }
    [[gnu::always_inline]] ~one_task() {
      if (part_ != nullptr) {
        part_->made_from = min_of(made_from_, part_->own.position());  // thieves may have lowered the position
        pool_.count_task(*part_);
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

  /// Calls f(participant&) for the workers, starting at number `first`, and for the guests, until one returns true.
  template <class F>
  bool any_part(std::size_t first, F f) const {
    return crew_.any_of(first, [&f](worker& w) { return f(w); }) || guests_.any_of(0, [&f](guest& g) { return f(g); });
  }

  /// To be called after a thread inside the pool has posted a job.
  void posted_inside(const participant& p) {
    if (p.as_worker == nullptr && shutdown_.is_over()) [[unlikely]]
      run_left_over();
  }
  void refuse_inside_a_task(const char* what) const { registered_.refuse_inside_a_task(what); }

  template <class Box>
  static void run_boxed(job* j) {
    const struct owner {
      Box* box;
      ~owner() {
        end_if_returned();
        Box::destroy(box);
      }
    } here{static_cast<Box*>(j)};
    this_pool->hooks_.call(here.box->work);
  }

  void refuse(task& work);
  /// Runs tasks that were posted while the threads ended, and those that these post after them; a wait runs one.
  bool run_left_over(bool in_a_wait = false);
  bool run_all();

  void count_dropped(std::size_t n) noexcept { dropped_.fetch_add(n, std::memory_order_relaxed); }  // relaxed: a count
  void drop(taken& t) noexcept;
  void drop_what_is_queued();

  // --- the turns of threads: worker_role.hpp, pool_wait.hpp ----------------------------------------------------------

  void leave_behind() noexcept;

  class worker_attendance;
  class guest_attendance;
  class worker_role;
  class last_worker_role;
  class wait_role;
  void wait_until_true(participant& p, wait_scope own, asked_condition ready);
  void run_worker(worker& w);
  void run_last_worker(worker& w);

  // --- loops: pool_loops.hpp -----------------------------------------------------------------------------------------

  class loop_turn;
  static void schedule(loop_core& loop) noexcept;
  loop_setting setting_of_loops() const noexcept;
  void enqueue(loop_slot& s) noexcept;
  void enqueue_with_priority(loop_slot& s) noexcept;
  pool_loop* take_any_loop(worker& w) noexcept;
  void fetch_ahead(worker& w) noexcept;
  pool_loop* take_spare(worker* w) noexcept;
  void review_loops() noexcept;
  void make_spare(worker* w, pool_loop& h) noexcept;
  bool settle(worker* w, pool_loop& h, loop_driver::turn& in) noexcept;
  void put_down(worker& w) noexcept;
  void end_possession(pool_loop& h, bool has_work) noexcept;
  pool_loop* take_loop(worker& w) noexcept;
  loop_slot* take_from_backlog(worker& w) noexcept;
  bool has_loops_for(const worker& w) const noexcept;
  pool_loop* steal_loop(worker& w) noexcept;
  pool_loop* relieve_another(worker& w) noexcept;
  template <class Wanted>
  pool_loop* steal_loop_from(worker& w, Wanted is_wanted) noexcept;
  void run_loop(worker* w, pool_loop& h) noexcept;
  void fire_timers(worker& w) noexcept;
  bool fire_timers_now(wait_clock::time_point now, std::size_t most, const void* by) noexcept;
  /// Whether more threads are awake than `own`.
  bool are_others_awake(std::size_t own) const noexcept {
    return sleepers_.idle().count() + own < quiescence_.threads();
  }
  void begin_watch(worker& w) noexcept;
  void limit_sleep(worker& w, wait_clock::time_point& deadline) noexcept;
  bool woke(worker& w) noexcept;
  void pass_on() noexcept;
  void end_loops() noexcept;

  /// Whether take_loop() would find one.
  bool has_loops_at_hand(const worker& w) const noexcept { return !w.ready.empty() || !backlog_.empty(); }
  /// Whether a loop may need this worker before it has run many more tasks.
  bool loops_may_be_due(const worker& w) const noexcept {
    return has_loops_at_hand(w) || timers_.next() != pool_timers::never;
  }
  bool is_time_for_timers(worker& w) noexcept;
  bool must_heed_requests(const worker& w) const noexcept;
  /// Takes the worker's own newest job. Null: there is none, or it is time to look at other sources.
  [[gnu::always_inline]] job_deque::element next_in_turn(worker& w) noexcept {
    if (w.tasks_left != 0 && (is_time_for_loops(w) || (w.has_requests() && must_heed_requests(w)))) w.tasks_left = 0;
    const job_deque::element e = w.next_own();
    if (e) --w.tasks_left;
    return e;
  }
  /// To be called before a worker runs functions of users, which may block.
  void before_functions() noexcept {
    if (timers_.is_uncovered()) [[unlikely]]
      sleepers_.notify();
  }

  /// The park phase: announces sleep, and parks unless look(deadline) finds something after that. True: the thread is
  /// counted as searching.
  template <class Look>
  bool park_unless(sleepers::sleeper& s, bool was_searching, wait_clock::time_point deadline, Look look) noexcept {
    end_if_left_behind();
    sleepers_.announce(s, was_searching);
    if (look(deadline)) return sleepers_.cancel(s);  // see announce()
    return deadline == (wait_clock::time_point::max)() ? sleepers_.park(s) : sleepers_.park_until(s, deadline);
  }

  std::size_t search_limit() const noexcept;
  void end_search() noexcept {
    sleepers_.end_search([this]() noexcept { return has_work() || timers_.is_uncovered(); });
  }

  /// While the pool is paused, loops rest whether they have work or not.
  bool is_idle() noexcept;

  /// Whether there are only flows and their tasks, for as long as flow_watch allows. A guess for stop(), so that a flow
  /// that goes on for ever cannot block it. A wrong guess cancels a flow too early.
  bool has_flows_only() noexcept;
  bool has_tasks_of_others() const noexcept;

  // --- turns of loops while tasks keep all workers: lookout_role.hpp -------------------------------------------------

  class lookout_role;
  /// By a worker that has marked itself as inside a task, or is about to run a turn.
  void post_lookout() noexcept {
    if (lookout_.may_be_missed()) [[unlikely]]
      call_lookout_if_needed();
  }
  bool needs_lookout() const noexcept;
  void call_lookout_if_needed() noexcept;
  void begin_use_of_loops() noexcept;
  void review_lookout() noexcept;
  void run_lookout();

  // --- threads that wait inside tasks, and their stand-ins: pool_wait.hpp --------------------------------------------

  class blocked_in_wait;
  atomic<std::uint32_t>* blocked_count(const participant& p) noexcept {
    return p.is_stand_in ? &blocked_stand_ins_ : p.as_worker != nullptr ? &blocked_workers_ : nullptr;
  }
  /// A task of this thread has ended.
  [[gnu::always_inline]] void count_task(participant& p) noexcept {
    participant::count(p.ran);
    if (p.is_polling) [[unlikely]]
      stop_polling(p);
  }
  void stop_polling(participant& p) noexcept;
  job_deque::element take_within(participant& p, const wait_scope& own) noexcept;
  template <class Fits>
  job_deque::element steal_below(participant& p, Fits fits) noexcept;
  bool has_within(const participant& p, const wait_scope& own) const noexcept;
  /// The most stand-ins that may be at work: one for each wanted worker, and for each stand-in, that sleeps in a wait.
  /// Relaxed, both: a guess.
  std::size_t missed() const noexcept;
  bool all_are_blocked() const noexcept;
  std::size_t blocked_workers() const noexcept { return blocked_workers_.load(std::memory_order_relaxed); }
  bool call_stand_in(const participant& p, bool may_start) noexcept;
  void run_stand_in(std::size_t index);

  threadpool* const facade_;
  const std::size_t first_threads_;
  const std::size_t processors_;
  injector injector_;
  priority_queues priorities_;
  const pool_hooks hooks_;
  atomic<bool> late_posts_run_{false};  // written before the last stop()
  atomic<bool> is_left_behind_{false};  // written in a child of fork()
  sleepers sleepers_;
  shutdown_state shutdown_;
  quiescence quiescence_;  // counts the threads, and helpers from outside
  idle_condition idle_;
  std::mutex stop_mutex_;  // one stop() at a time
  atomic<std::size_t> dropped_{0};
  late_leavers late_leavers_;
  pool_registry::entry registered_;
  published_list<guest> guests_;  // written under guests_mutex_
  std::mutex guests_mutex_;
  std::vector<std::unique_ptr<guest>> guest_memory_;  // guarded by guests_mutex_
  atomic<std::uint32_t> blocked_workers_{0};          // workers that sleep in a wait, or poll
  atomic<std::uint32_t> blocked_stand_ins_{0};        // likewise
  stand_ins stand_ins_;
  lookout lookout_{[](void* of) noexcept { static_cast<pool_core*>(of)->review_lookout(); }, this};
  backlog<loop_slot> backlog_;
  flow_loops flow_loops_;
  pool_timers timers_{wait_clock::now()};
  loop_watch watch_;
  flow_watch flows_;
  hook_ref loops_unhandled_;
  worker_crew crew_;  // last: its threads use all other members
};

}  // namespace async::inline v0_1::detail
