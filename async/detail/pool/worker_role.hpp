// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>     // for time_point
#include <exception>  // for exception_ptr
#include <utility>    // for exchange, move

#include "async/detail/pool/drive.hpp"      // for drive, spin_until
#include "async/detail/pool/pool_core.hpp"  // for pool_core, worker
#include "async/threadpool_options.hpp"     // for threadpool_options

/// The life of a worker's thread, from its start to its end: run_worker(). The phases of its turns: worker_role.
namespace async::detail {

/// While it lives, the calling thread is a worker's: sets the thread-locals, calls the hooks of users.
class pool_core::worker_attendance {
 public:
  explicit worker_attendance(worker& w) : worker_(w) {
    this_worker = &w;
    this_home = &w;
    this_pool = &w.pool;
    worker_loop = &w.own_loop.host.core();
    w.pool.hooks_.started(w.index);
  }
  ~worker_attendance() {
    pool_core& pool = worker_.pool;
    this_worker = nullptr;
    this_home = nullptr;
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

/// The turns of a worker: its event loops, then up to 16 tasks of any origin, then sleep.
///
/// A worker that searches takes a task before it turns its loops: the turn would end the search, and that wakes another
/// thread for the task.
class pool_core::worker_role {
 public:
  explicit worker_role(worker& w) noexcept : worker_(w), pool_(w.pool) {}

  void maintain() noexcept {
    has_looked_ = tasks_left_ == 0 || worker_.is_exit_requested();  // a turn also ends an announced sleep
    if (!has_looked_) return;
    const bool due = pool_.loops_are_due(worker_);
    if (due) {
      end_search();
      pool_.turn_loops(worker_);
    }
    tasks_left_ = due ? tasks_per_turn : worker_.loops.tasks_per_look();
  }

  bool is_done() noexcept {
    if (!worker_.is_exit_requested()) return false;
    end_search();
    return pool_.crew_.confirm_exit(worker_);
  }

  bool run_next() {
    taken t;
    if (!pool_.take(&worker_, t)) return false;
    end_search();
    worker_.flows.end();
    pool_.run(&worker_, t);
    if (tasks_left_ != 0) --tasks_left_;
    for (job_deque::element e; tasks_left_ != 0 && (e = worker_.next_own()); --tasks_left_) pool_.run_job(&worker_, e);
    return true;
  }

  bool loops_are_next() noexcept {
    tasks_left_ = 0;
    if (!has_looked_) return true;
    if (!worker_.loops.has_work()) {
      worker_.flows.end();
      return false;
    }
    if (pool_.shutdown_.is_closing()) {
      worker_.flows.go_on();
      pool_.idle_.notify();
    }
    return true;
  }

  /// Spins as a searcher if that has paid lately, or for an answer to what the loops have sent.
  bool spin() noexcept {
    const bool pays = worker_.searches.should_spin();
    searching_ = searching_ || (pays && pool_.sleepers_.begin_search(pool_.search_limit()));
    const bool expects_answer = worker_.loops.were_active() && pool_.quiescence_.threads() <= pool_.processors_;
    if (!expects_answer && !(searching_ && pays)) return false;
    if (!spin_until([this]() noexcept { return is_wanted() || worker_.loops.has_work(); })) return false;
    worker_.searches.spin_succeeded();
    search_first();
    return true;
  }

  void park() noexcept {
    constexpr auto never = (wait_clock::time_point::max)();
    const auto look = [this](wait_clock::time_point& deadline) noexcept {
      if (is_wanted() || !pool_.may_sleep(worker_, deadline)) return true;
      pool_.idle_.notify();
      participant::count(worker_.parks);
      return false;
    };
    searching_ = pool_.park_unless(worker_.parking_slot, searching_, never, look);
    search_first();
  }

 private:
  static constexpr unsigned tasks_per_turn = 16;

  bool is_wanted() const noexcept { return pool_.has_work() || worker_.is_called(); }
  void end_search() noexcept {
    if (std::exchange(searching_, false)) pool_.end_search();
  }
  /// Lets the next turn of a searcher begin with a task.
  void search_first() noexcept { tasks_left_ = searching_ ? 1 : 0; }

  worker& worker_;
  pool_core& pool_;
  unsigned tasks_left_ = 0;  // that may run before the next look at the loops
  bool has_looked_ = false;  // this turn has looked at the loops
  bool searching_ = false;   // the sleepers count this thread as searching
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
          *this, sleepers_, quiescence_, [](worker& w) { w.pool.run_worker(w); },
          [](worker& w) {
            w.own_loop.loop.on_unhandled([&pool = w.pool](std::exception_ptr error) { pool.unhandled(error); });
          }) {
  pool_registry::instance().add(registered_);
}

}  // namespace async::detail
