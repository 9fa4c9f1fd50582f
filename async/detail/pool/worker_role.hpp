// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t, uint64_t, uint8_t
#include <utility>  // for exchange

#include "async/detail/base/backoff.hpp"          // for spin_before_sleep
#include "async/detail/base/chrono.hpp"           // for milliseconds, time_point
#include "async/detail/base/config.hpp"           // for ASYNCSTEPS_FUNCTION
#include "async/detail/base/durations.hpp"        // for later
#include "async/detail/base/min_max.hpp"          // for max_of
#include "async/detail/base/naps.hpp"             // for look_after_pool
#include "async/detail/loop/loop_core.hpp"        // for current_loop, loop_core, worker_loop
#include "async/detail/pool/credit_turn.hpp"      // for credit_turn, no_credit, settle_credit
#include "async/detail/pool/drive.hpp"            // for drive, tasks_per_turn, yields_of_pools
#include "async/detail/pool/pool_core.hpp"        // for pool_core, worker
#include "async/detail/pool/pool_loops.hpp"       // for run_loop, take_loop
#include "async/detail/pool/priority_queues.hpp"  // for priority_queues
#include "async/detail/pool/turn_share.hpp"       // for turn_share

/// The life of a worker's thread, from its start to its end: run_worker(). The phases of its turns: worker_role.
namespace async::inline v0_1::detail {

/// While it lives, the calling thread is a worker's: sets the thread-locals, calls the hooks of users.
class pool_core::worker_attendance {
 public:
  explicit worker_attendance(worker& w) : worker_(w) {
    this_worker = &w;
    this_home = &w;
    this_pool = &w.pool;
    look_after_pool = &look_after_own;
    worker_loop = &w.own_loop.core();
    w.made_from = w.own.position();  // what the thread before has left is not the hook's
    w.is_in_section = true;          // a section in the hook has no effect: its worker would call the hook, too
    w.pool.hooks_.started(w.index);
    w.is_in_section = false;
    if (w.is_polling) w.pool.stop_polling(w);
    w.pool.end_if_left_behind();
  }
  ~worker_attendance() {
    pool_core& pool = worker_.pool;
    pool.put_down(worker_);  // if the thread ends inside a task
    this_worker = nullptr;
    this_home = nullptr;
    look_after_pool = nullptr;
    if (!worker_.own.empty()) pool.sleepers_.notify();
    pool.pass_on();       // its last turn may have armed a timer that no sleeper knows of
    pool.post_lookout();  // it was free, and tasks may keep the others
    pool.idle_.notify();
    pool.hooks_.stopping(worker_.index);
    pool.end_if_left_behind();
    worker_loop = nullptr;
    this_pool = nullptr;
  }
  worker_attendance(const worker_attendance&) = delete;
  worker_attendance& operator=(const worker_attendance&) = delete;

 private:
  worker& worker_;
};

/// The turns of a worker: tasks and turns of event loops, in turn, then sleep.
///
/// While loops wait it runs one task after each turn of a loop; while none do, up to 16 in a row, of those from outside
/// only if none has taken long lately. Where a task or a turn takes long, the other kind may then run as long, see
/// turn_share. Tasks and loops of high priority come before both, those of low priority after both, except when
/// priority_order decides otherwise.
class pool_core::worker_role {
 public:
  explicit worker_role(worker& w) noexcept : worker_(w), pool_(w.pool) {}

  void maintain() noexcept {
    pool_.fire_timers(worker_);
    if (worker_.in_hand != nullptr && worker_.in_hand->slot.word.is_scheduled()) [[unlikely]]
      pool_.put_down(worker_);
  }

  bool is_done() noexcept {
    if (!worker_.has_requests()) [[likely]]
      return false;
    return heed_requests();
  }

  bool run_next() {
    const bool goes_on = share_.goes_on();
    if (!goes_on) ++rounds_;
    if (rounds_ >= (goes_on ? with_priorities : worker::injector_share) && look_around(goes_on)) return true;
    if (!goes_on) change_kind();
    if (loops_are_next_ && pool_.has_loops_at_hand(worker_) && run_loop(pool_.take_loop(worker_))) return true;
    if (std::exchange(loops_are_next_, false)) share_.end();  // the turn goes to tasks; after these come loops again
    if (std::exchange(is_oldest_due_, false) && run_oldest()) return true;
    if (run_tasks()) return true;
    share_.end();
    return run_loop(pool_.take_loop(worker_)) || run_loop(pool_.steal_loop(worker_)) || run_last();
  }

  /// Spins as a searcher if that has paid lately, or for an answer to what the loops have sent.
  bool spin() noexcept {
    if (pool_.shutdown_.is_closing()) return false;  // the stopping thread waits for the sleep of all
    using length = adaptive_spin::length;
    const length pays = worker_.searches.next();
    searching_ = searching_ || (pays != length::none && pool_.sleepers_.begin_search(pool_.search_limit()));
    const bool expects_answer = std::exchange(ran_loops_, false) && pool_.quiescence_.threads() <= pool_.processors_;
    const bool searches = searching_ && pays != length::none;
    if (!expects_answer && !searches) return false;
    if (worker_.searches.is_tried()) idle_since_ = wait_clock::now();
    const auto found = [this]() noexcept { return is_wanted() || pool_.shutdown_.is_closing(); };
    const bool is_long = searches && pays == length::long_spin;
    if (!(is_long ? spin_before_sleep_until(idle_since_ + adaptive_spin::long_spin, found)
                  : spin_before_sleep(yields_of_pools, found))) {
      return false;
    }
    worker_.searches.succeeded();
    idle_since_ = {};
    return true;
  }

  void park() noexcept {
    constexpr auto never = (wait_clock::time_point::max)();
    pool_.put_down(worker_);
    trim_if_asked();
    worker_.flows_since = {};
    busy_since_ = {};
    oldest_left_ = 0;
    share_.rest();
    pool_.begin_watch(worker_);
    const auto look = [this](wait_clock::time_point& deadline) noexcept {
      if (is_wanted()) return true;
      pool_.limit_sleep(worker_, deadline);
      pool_.idle_.notify();
      participant::count(worker_.parks);
      return false;
    };
    searching_ = pool_.park_unless(worker_.parking_slot, searching_, never, look);
    if (idle_since_ != wait_clock::time_point()) {
      worker_.searches.idle(wait_clock::now() - std::exchange(idle_since_, {}));
    }
    if (pool_.woke(worker_) && !searching_) pool_.pass_on();
  }

 private:
  static constexpr std::uint32_t with_priorities = 1U << 16;  // added to rounds_: the turn looks at all priorities
  static constexpr std::chrono::milliseconds busy_time{10};   // after which it runs the oldest tasks

  /// Tasks are next after loops, loops after tasks. After long ones it also looks around: 61 turns would take too long.
  void change_kind() noexcept {
    loops_are_next_ = !loops_are_next_;
    const std::uint64_t tasks = worker_.ran.load(std::memory_order_relaxed);  // relaxed: its own
    if (!share_.change(loops_are_next_ != were_loops_last_, tasks)) return;
    rounds_ = worker::injector_share - 1;
    worker_.looks.hurry();  // timers may have come due meanwhile
    pool_.fire_timers(worker_);
  }
  [[gnu::noinline]] bool heed_requests() noexcept {
    if (worker_.is_exit_requested()) {
      pool_.end_if_left_behind();
      pool_.put_down(worker_);
      end_search();
      if (pool_.crew_.confirm_exit(worker_)) return true;
    }
    if (pool_.priorities_.find() != nullptr) rounds_ |= with_priorities;
    return false;
  }
  /// In every 61st turn, also beside endless tasks. When tasks may have priorities, in every turn.
  [[gnu::noinline]] bool look_around(bool only_priorities) {
    if (rounds_ >= with_priorities) {
      rounds_ -= with_priorities;
      if (run_first()) return true;
    }
    if (only_priorities || rounds_ < worker::injector_share) return false;
    rounds_ = 0;
    trim_if_asked();
    is_oldest_due_ = true;
    return run_loop(pool_.relieve_another(worker_));
  }
  /// After 10 ms of work: runs the oldest tasks of one source after the other: up to 16, or for 10 ms. Newer ones that
  /// post newer ones might keep them waiting for ever. So seldom, since a job taken from the top costs a heavy fence,
  /// and may be the root of a tree that the worker then has in its deque, too. Where others want the next turn, it runs
  /// the rest one by one, each after another turn.
  bool run_oldest() {
    const auto begun = wait_clock::now();
    if (oldest_left_ == 0) {
      if (busy_since_ == wait_clock::time_point()) busy_since_ = begun;
      if (begun - busy_since_ < busy_time) return false;
      busy_since_ = begun;
      oldest_left_ = tasks_per_turn;
      oldest_from_ = after(oldest_from_);
    }
    bool has_run = false;
    while (oldest_left_ != 0 && !worker_.is_exit_requested() && run_one_oldest()) {
      has_run = true;
      --oldest_left_;
      const auto now = wait_clock::now();
      if (now - begun >= busy_time) break;
      if (!do_others_want_turns(begun, now)) continue;
      if (oldest_left_ != 0) {
        rounds_ = worker::injector_share - 2;  // the turn after the next one looks around, too
        oldest_from_ = after(oldest_from_);    // it may come late: then another source is next
      }
      return true;
    }
    oldest_left_ = 0;
    return has_run;
  }
  /// Whether a task or loop of high priority waits, or, 50 us of work after `begun`, a loop or a timer.
  bool do_others_want_turns(wait_clock::time_point begun, wait_clock::time_point now) noexcept {
    if (const priority_queues::both* const from = pool_.priorities_.find(); from != nullptr && !from->high.empty()) {
      return true;
    }
    if (now - begun < std::chrono::microseconds(50)) return false;
    worker_.looks.hurry();
    return pool_.has_loops_at_hand(worker_) || pool_.timers_.next() <= now;
  }
  /// Where tasks wait that newer ones may keep waiting.
  enum class source : std::uint8_t { own, other_threads, outside };
  static constexpr unsigned sources = 3;
  static constexpr source after(source s) noexcept {
    return static_cast<source>((static_cast<unsigned>(s) + 1) % sources);
  }
  /// Runs the oldest task of the source whose turn it is; if it has none, of the next one.
  bool run_one_oldest() {
    taken t;
    for (unsigned left = sources; left != 0; --left, oldest_from_ = after(oldest_from_)) {
      if (!take_oldest(oldest_from_, t)) continue;
      run_alone(t);
      return true;
    }
    return false;
  }
  bool take_oldest(source from, taken& out) noexcept {
    if (from == source::outside) return pool_.injector_.take(out.plain);
    out.boxed = from == source::own ? worker_.own.steal() : pool_.steal_left_behind(worker_);
    return static_cast<bool>(out.boxed);
  }

  bool is_wanted() const noexcept {
    return pool_.has_work_for(worker_) || worker_.is_exit_requested() || is_trim_requested();
  }
  // relaxed, all: ordered by the sleepers' lock, else seen in time
  bool is_trim_requested() const noexcept { return worker_.trim_requested.load(std::memory_order_relaxed); }
  void trim_if_asked() noexcept {
    if (!is_trim_requested()) [[likely]]
      return;
    worker_.trim_requested.store(false, std::memory_order_relaxed);
    worker_.own.trim();
  }
  void end_search() noexcept {
    if (std::exchange(searching_, false)) pool_.end_search();
  }
  /// Runs a turn of a loop. False: null.
  bool run_loop(pool_loop* h) noexcept {
    if (h == nullptr) return false;
    begin();
    pool_.post_lookout();
    ran_loops_ = were_loops_last_ = true;
    const bool is_closing = pool_.shutdown_.is_closing();
    if (is_closing) begin_flows();
    pool_.run_loop(&worker_, *h);
    if (is_closing) [[unlikely]]
      note_flows();
    return true;
  }
  bool run_tasks() {
    taken t;
    if (!pool_.take(&worker_, t)) return false;
    begin();
    were_loops_last_ = false;
    const in_task here(worker_);
    if (has_been_dealt_with(t)) return true;
    const bool is_from_outside = !t.boxed;
    const bool is_posted_one = is_from_outside || t.boxed.tag == &posted_task;
    {
      const turn_of_tasks turn(worker_);
      do {
        pool_.run(&worker_, t);
        run_own_in_turn();
      } while (is_from_outside && share_.are_items_short() && take_next_from_outside(t));
    }
    if (is_posted_one && pool_.shutdown_.is_closing()) [[unlikely]]
      note_task();  // the turn may have taken long
    worker_.thefts.end_task();
    return true;
  }
  [[gnu::always_inline]] void run_own_in_turn() {
    while (const job_deque::element e = pool_.next_in_turn(worker_)) {
      if (e.tag == &posted_by_flow) [[unlikely]] {
        worker_.own.push(e.item, e.tag);  // there is room
        worker_.tasks_left = 0;
        return;
      }
      if (!worker_.credit.may_stay(e.tag)) settle_credit(worker_);
      pool_.run_job(&worker_, e);
    }
  }
  /// After run_own_in_turn(): takes the oldest task from outside for the same turn. False: there is none, or it is time
  /// to look elsewhere.
  [[gnu::always_inline]] bool take_next_from_outside(taken& out) noexcept {
    if (!worker_.may_go_on() || pool_.shutdown_.is_closing() || !pool_.injector_.take(out.plain)) return false;
    ++worker_.turn;
    ++rounds_;
    share_.add_item();
    --worker_.tasks_left;
    settle_credit(worker_);
    return true;
  }
  [[gnu::always_inline]] bool has_been_dealt_with(taken& t) {
    return pool_.shutdown_.is_closing() && deal_while_closing(t);
  }
  /// While the pool stops: drops the task, or runs it if it is a flow's. False: the caller is to run it.
  [[gnu::noinline]] bool deal_while_closing(taken& t) {
    const task_scope* const tag = t.boxed ? t.boxed.tag : &posted_task;
    if (pool_.drop_instead(t)) return true;
    if (tag != &posted_by_flow) {
      if (tag == &posted_task) note_task();  // else it is part of another task
      worker_.post_tag = &posted_task;
      worker_.runs_for_flow.store(false, std::memory_order_relaxed);  // if pthread_exit() has ended a flow's
      return false;
    }
    begin_flows();
    worker_.post_tag = &posted_by_flow;
    worker_.runs_for_flow.store(true, std::memory_order_relaxed);  // relaxed, both: as is_in_task
    pool_.run(&worker_, t);
    worker_.runs_for_flow.store(false, std::memory_order_relaxed);
    worker_.post_tag = &posted_task;
    note_flows();
    return true;
  }
  /// Runs a task or loop that comes before those of normal priority. False: there is none.
  bool run_first() {
    priority_queues::both& from = *pool_.priorities_.find();
    if (rounds_ % worker::injector_share == 0) from.sample();
    priority_queues::level* const first = worker_.order.first(from);
    return first != nullptr && run_one_of(*first);
  }
  /// Runs a task or loop of high or low priority if there is nothing else to do. False: there is none.
  bool run_last() {
    priority_queues::both* const from = pool_.priorities_.find();
    if (from == nullptr) return false;
    if (run_one_of(from->high)) return true;
    worker_.order.begin_low();
    return run_one_of(from->low);
  }
  bool run_one_of(priority_queues::level& from) {
    if (from.empty()) return false;
    const auto run_oldest_loop = [this, &from] {
      pool_loop* const oldest = from.take_loop();
      return oldest != nullptr && run_loop(oldest);
    };
    const bool loops_first = worker_.order.are_loops_first();
    if (loops_first && run_oldest_loop()) return true;
    taken t;
    if (!from.tasks.take(t.plain)) return !loops_first && run_oldest_loop();
    run_alone(t);
    return true;
  }
  /// Runs a task without those that it leaves in the deque.
  void run_alone(taken& t) {
    begin();
    were_loops_last_ = false;
    const in_task here(worker_);
    if (!has_been_dealt_with(t)) pool_.run(&worker_, t);
  }
  /// While it lives, the worker runs tasks one behind the other.
  struct turn_of_tasks {
    explicit turn_of_tasks(worker& its_worker) noexcept : w(its_worker), credit(w) {
      w.tasks_left = tasks_per_turn - 1;
    }
    ~turn_of_tasks() { w.tasks_left = 0; }
    turn_of_tasks(const turn_of_tasks&) = delete;
    turn_of_tasks& operator=(const turn_of_tasks&) = delete;
    worker& w;
    const credit_turn credit;
  };
  /// While it lives, the worker is inside a task. relaxed, both: a guess, see has_flows_only(), or ordered by the fence
  /// of post_lookout().
  struct in_task {
    explicit in_task(worker& its_worker) noexcept : w(its_worker) {
      w.is_in_task.store(true, std::memory_order_relaxed);
      w.pool.post_lookout();
    }
    ~in_task() { w.is_in_task.store(false, std::memory_order_relaxed); }
    in_task(const in_task&) = delete;
    in_task& operator=(const in_task&) = delete;
    worker& w;
  };
  /// To be called before functions of users.
  void begin() noexcept {
    end_search();
    pool_.before_functions();
  }
  /// The pool stops, and has tasks left.
  void note_task() noexcept {
    worker_.flows_since = {};
    pool_.flows_.end();
  }
  /// The pool stops, and this worker may have only flows and their tasks left.
  void begin_flows() noexcept {
    if (worker_.flows_since == wait_clock::time_point()) worker_.flows_since = wait_clock::now();
  }
  void note_flows() noexcept {
    if (pool_.has_tasks_of_others()) return;
    pool_.flows_.go_on(worker_.flows_since);
    pool_.idle_.notify();
  }

  worker& worker_;
  pool_core& pool_;
  std::uint32_t rounds_ = 0;
  unsigned oldest_left_ = 0;  // of the oldest jobs that it is about to run
  turn_share share_;
  bool is_oldest_due_ = false;  // the next turn of tasks may be for the oldest ones
  bool loops_are_next_ = false;
  bool were_loops_last_ = false;
  source oldest_from_ = source::own;
  bool ran_loops_ = false;               // since the last spin()
  wait_clock::time_point busy_since_{};  // its last look for the oldest jobs, or the first turn after its last sleep
  wait_clock::time_point idle_since_{};  // the begin of the last spin, if the sleep after it is of interest
  bool searching_ = false;               // the sleepers count this thread as searching
};

ASYNCSTEPS_FUNCTION std::size_t pool_core::search_limit() const noexcept {
  const std::size_t threads = quiescence_.threads();
  return threads > processors_ ? 1 : max_of(threads / 2, std::size_t{1});
}

ASYNCSTEPS_FUNCTION void pool_core::run_worker(worker& w) {
  const worker_attendance here(w);
  worker_role role(w);
  drive(role);
}

/// The turns of the thread that stops a paused pool for which no thread can be started: those of a worker, until no
/// task and no loop is left, or flows only.
class pool_core::last_worker_role {
 public:
  explicit last_worker_role(worker& w) noexcept : worker_(w), turns_(w), pool_(w.pool) {}

  void maintain() noexcept { turns_.maintain(); }
  bool is_done() noexcept { return turns_.is_done() || has_run_all_ || pool_.has_flows_only(); }
  bool run_next() { return turns_.run_next(); }
  bool spin() const noexcept { return false; }
  /// While threads from outside help, their tasks may bring others, which wake workers only: looks once a millisecond.
  void park() {
    const auto are_gone = [this] { return !pool_.quiescence_.has_helpers_now(); };
    has_run_all_ = pool_.idle_.wait_until(later(wait_clock::now(), std::chrono::milliseconds(1)), are_gone) &&
                   !pool_.has_work_for(worker_);
  }

 private:
  worker& worker_;
  worker_role turns_;
  pool_core& pool_;
  bool has_run_all_ = false;
};

ASYNCSTEPS_FUNCTION void pool_core::run_last_worker(worker& w) {
  /// The thread-locals of a worker, in place of what the thread is elsewhere. It calls no hook. Waits run any task, as
  /// there is no other thread.
  struct attendance : left_alone {
    explicit attendance(worker& its_worker) noexcept
        : left_alone(&its_worker.pool),
          self(its_worker),
          as_worker(std::exchange(this_worker, &its_worker)),
          home(std::exchange(this_home, &its_worker)),
          own_loop(std::exchange(worker_loop, &its_worker.own_loop.core())),
          turned_loop(std::exchange(current_loop, nullptr)),
          hidden(home != nullptr ? home->pool.number() : 0) {}
    ~attendance() {
      self.pool.put_down(self);  // if a task ends the thread
      this_worker = as_worker;
      this_home = home;
      worker_loop = own_loop;
      current_loop = turned_loop;
    }
    worker& self;
    worker* const as_worker;
    participant* const home;
    loop_core* const own_loop;
    loop_core* const turned_loop;
    const scoped_pool_around hidden;
  };
  const no_credit one_by_one(this_home);
  const worker_crew::occupant place(crew_, w);
  const attendance here(w);
  last_worker_role role(w);
  drive(role);
}

}  // namespace async::inline v0_1::detail
