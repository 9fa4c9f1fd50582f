// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>     // for time_point
#include <cstdint>    // for uint32_t
#include <exception>  // for exception_ptr
#include <memory>     // for make_shared
#include <utility>    // for exchange, move

#include "async/detail/base/naps.hpp"        // for look_after_pool
#include "async/detail/pool/drive.hpp"       // for drive, spin_until
#include "async/detail/pool/pool_core.hpp"   // for pool_core, worker
#include "async/detail/pool/pool_loops.hpp"  // for run_loop, take_loop
#include "async/threadpool_options.hpp"      // for threadpool_options

/// The life of a worker's thread, from its start to its end: run_worker(). The phases of its turns: worker_role.
namespace async::detail {

/// While it lives, the calling thread is a worker's: sets the thread-locals, calls the hooks of users.
class pool_core::worker_attendance {
 public:
  explicit worker_attendance(worker& w) : worker_(w) {
    this_worker = &w;
    this_home = &w;
    this_pool = &w.pool;
    look_after_pool = &look_after_own;
    worker_loop = &w.own_loop.core();
    w.pool.hooks_.started(w.index);
  }
  ~worker_attendance() {
    pool_core& pool = worker_.pool;
    pool.put_down(worker_);  // if the thread ends inside a task
    this_worker = nullptr;
    this_home = nullptr;
    look_after_pool = nullptr;
    worker_loop = nullptr;
    pool.sleepers_.notify();  // for what is left in its deque
    pool.idle_.notify();
    pool.hooks_.stopping(worker_.index);
    this_pool = nullptr;
  }
  worker_attendance(const worker_attendance&) = delete;
  worker_attendance& operator=(const worker_attendance&) = delete;

 private:
  worker& worker_;
};

/// The turns of a worker: tasks and turns of event loops, in turn, then sleep.
///
/// While loops or timers wait it runs one task after each turn of a loop; while none do, up to 16 in a row.
class pool_core::worker_role {
 public:
  explicit worker_role(worker& w) noexcept : worker_(w), pool_(w.pool) {}

  void maintain() noexcept {
    pool_.fire_timers(worker_);
    if (worker_.in_hand != nullptr && worker_.in_hand->slot.word.is_scheduled()) [[unlikely]]
      pool_.put_down(worker_);
  }

  bool is_done() noexcept {
    if (!worker_.is_exit_requested()) return false;
    pool_.put_down(worker_);
    end_search();
    return pool_.crew_.confirm_exit(worker_);
  }

  bool run_next() {
    if (++rounds_ == worker::injector_share) {  // also beside endless tasks
      rounds_ = 0;
      trim_if_asked();
      if (run_loop(pool_.steal_loop(worker_))) return true;
    }
    loops_are_next_ = !loops_are_next_;
    if (loops_are_next_ && run_loop(pool_.take_loop(worker_))) return true;
    if (run_tasks()) return true;
    return (!loops_are_next_ && run_loop(pool_.take_loop(worker_))) || run_loop(pool_.steal_loop(worker_));
  }

  /// Spins as a searcher if that has paid lately, or for an answer to what the loops have sent.
  bool spin() noexcept {
    const bool pays = worker_.searches.should_spin();
    searching_ = searching_ || (pays && pool_.sleepers_.begin_search(pool_.search_limit()));
    const bool expects_answer = std::exchange(ran_loops_, false) && pool_.quiescence_.threads() <= pool_.processors_;
    if (!expects_answer && !(searching_ && pays)) return false;
    if (!spin_until([this]() noexcept { return is_wanted(); })) return false;
    worker_.searches.spin_succeeded();
    return true;
  }

  void park() noexcept {
    constexpr auto never = (wait_clock::time_point::max)();
    pool_.put_down(worker_);
    trim_if_asked();
    worker_.flows_since = {};
    const auto look = [this](wait_clock::time_point& deadline) noexcept {
      if (is_wanted()) return true;
      pool_.limit_sleep(worker_, deadline);
      pool_.idle_.notify();
      participant::count(worker_.parks);
      return false;
    };
    searching_ = pool_.park_unless(worker_.parking_slot, searching_, never, look);
    if (pool_.woke(worker_) && !searching_) pool_.pass_on();
  }

 private:
  static constexpr unsigned tasks_per_turn = 16;

  bool is_wanted() const noexcept { return pool_.has_work() || worker_.is_exit_requested() || is_trim_requested(); }
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
  bool run_loop(hosted_loop* h) noexcept {
    if (h == nullptr) return false;
    begin();
    ran_loops_ = true;
    const bool is_closing = pool_.shutdown_.is_closing();
    if (is_closing && worker_.flows_since == wait_clock::time_point()) worker_.flows_since = wait_clock::now();
    pool_.run_loop(&worker_, *h);
    if (is_closing) [[unlikely]]
      note_flows();
    return true;
  }
  bool run_tasks() {
    taken t;
    if (!pool_.take(&worker_, t)) return false;
    begin();
    if (pool_.shutdown_.is_closing()) [[unlikely]]
      note_task();
    const in_task here(worker_);
    pool_.run(&worker_, t);
    unsigned left = tasks_per_turn - 1;
    for (job_deque::element e; left != 0 && !pool_.loops_may_be_due(worker_) && (e = worker_.next_own()); --left) {
      pool_.run_job(&worker_, e);
    }
    return true;
  }
  /// While it lives, the worker is inside a task. relaxed, both: a guess, see has_flows_only().
  struct in_task {
    explicit in_task(worker& its_worker) noexcept : w(its_worker) {
      w.is_in_task.store(true, std::memory_order_relaxed);
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
  /// The pool stops, and this worker may have only flows left.
  void note_flows() noexcept {
    if (pool_.has_tasks()) return;
    pool_.flows_.go_on(worker_.flows_since);
    pool_.idle_.notify();
  }

  worker& worker_;
  pool_core& pool_;
  std::uint32_t rounds_ = 0;
  bool loops_are_next_ = false;
  bool ran_loops_ = false;  // since the last spin()
  bool searching_ = false;  // the sleepers count this thread as searching
};

inline void pool_core::run_worker(worker& w) {
  const worker_attendance here(w);
  worker_role role(w);
  drive(role);
}

inline pool_core::pool_core(threadpool_options options, threadpool& facade)
    : facade_(&facade),
      first_threads_(options.threads),
      processors_(usable_concurrency()),
      injector_(options),
      hooks_(std::move(options)),
      crew_(
          *this, sleepers_, quiescence_, timers_, [](worker& w) { w.pool.run_worker(w); }, &schedule,
          [](worker& w) { w.own_loop.core().set_unhandled(w.pool.loops_unhandled_); }) {
  struct to_pool final : unhandled_hook {
    explicit to_pool(pool_core& p) noexcept : pool(p) {}
    void operator()(std::exception_ptr error) override { pool.unhandled(std::move(error)); }
    pool_core& pool;
  };
  loops_unhandled_ = std::make_shared<to_pool>(*this);
  pool_registry::instance().add(registered_);
}

}  // namespace async::detail
