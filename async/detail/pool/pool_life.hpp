// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>    // for size_t
#include <exception>  // for exception_ptr
#include <mutex>      // for lock_guard
#include <stdexcept>  // for out_of_range
#include <utility>    // for exchange, move

#include "async/detail/base/atomics.hpp"          // for wait_clock
#include "async/detail/base/chrono.hpp"           // for nanoseconds
#include "async/detail/base/config.hpp"           // for ASYNCSTEPS_FUNCTION
#include "async/detail/base/durations.hpp"        // for later, practically_never
#include "async/detail/base/forks.hpp"            // for forked::note
#include "async/detail/base/naps.hpp"             // for look_after_pool
#include "async/detail/base/own_section.hpp"      // for own_section
#include "async/detail/base/processors.hpp"       // for usable_concurrency
#include "async/detail/pool/credit_turn.hpp"      // for no_credit
#include "async/detail/pool/dropping.hpp"         // for dropping
#include "async/detail/pool/pool_core.hpp"        // for pool_core, task_scope
#include "async/detail/pool/pool_queues.hpp"      // for take_any
#include "async/detail/pool/priority_queues.hpp"  // for priority_order
#include "async/detail/pool/work_apart.hpp"       // for work_apart

/// The life of a pool: its start, its number of threads, tasks that are dropped, tasks that are left over, stop().
namespace async::inline v0_1::detail {

// --- the start ----------------------------------------------------------------------------------------------------

ASYNCSTEPS_FUNCTION pool_core::pool_core(threadpool_options options, threadpool& facade)
    : facade_(&facade),
      first_threads_(options.threads),
      processors_(usable_concurrency()),
      injector_(options),
      hooks_(std::move(options)),
      registered_(*this, [](pool_core& self) noexcept { self.leave_behind(); }),
      crew_(
          *this, sleepers_, quiescence_, idle_, timers_, [](worker& w) { w.pool.run_worker(w); }, setting_of_loops(),
          [](worker& w) { w.own_loop.core().set_unhandled(w.pool.loops_unhandled_); }) {
  struct to_pool final : unhandled_hook {
    explicit to_pool(pool_core& p) noexcept : pool(p) {}
    void operator()(std::exception_ptr error) override { pool.unhandled(std::move(error)); }
    pool_core& pool;
  };
  loops_unhandled_ = hook_ref(new to_pool(*this));
  pool_registry::instance().add(registered_);
}

/// In a child of fork(), by its thread, which may be inside the pool: in a task, in a turn of a loop, in a hook, in a
/// wait, or in a call of parallel_for() and the like from outside. The words that make threads take a mutex of the pool
/// get the values for which they do not.
ASYNCSTEPS_FUNCTION void pool_core::leave_behind() noexcept {
  is_left_behind_.store(true, std::memory_order_relaxed);  // relaxed: there is one thread
  shutdown_.begin();                                       // posts from outside go to refuse()
  sleepers_.forget();
  idle_.forget();
  for (loop_core* c = current_loop; c != nullptr; c = c->around()) {
    if (c->is_left_behind()) c->forget_work();  // the turn ends after the callback that has forked
  }
  while (current_loop != nullptr && current_loop->is_left_behind()) current_loop = current_loop->around();
  worker_loop = nullptr;
  if (this_worker != nullptr && &this_worker->pool == this) {
    forked::note();
    // relaxed: the own thread's; tasks in its deque are the parent's
    this_worker->requests.store(worker::exit_request, std::memory_order_relaxed);
    this_worker = nullptr;
  }
  if (this_home != nullptr && &this_home->pool == this) {
    this_home = nullptr;
    look_after_pool = nullptr;
  }
  if (this_pool == this) {
    forked::note();
    this_pool = nullptr;
    scope_of_thread = nullptr;  // what is made from here on belongs to no construct of the parent
  }
  if (left_over_of == this) left_over_of = nullptr;
}

ASYNCSTEPS_FUNCTION pool_core::~pool_core() {
  late_leavers_.wait();
  pool_registry::instance().remove(registered_);
}

ASYNCSTEPS_FUNCTION void pool_core::start() {
  try {
    configure(first_threads_);
  } catch (...) {
    stop();
    throw;
  }
}

ASYNCSTEPS_FUNCTION void pool_core::configure(std::size_t threads) {
  refuse_if_left_behind();
  registered_.refuse_if_unwakeable();
  struct notifier {
    pool_core& pool;
    ~notifier() { pool.idle_.notify(); }
  } const at_end{*this};  // wait_idle() does not wait for a thread that could not be started
  crew_.configure(threads);
  review_lookout();  // workers that were to leave may stay inside their tasks
  if (has_work()) sleepers_.notify();
}

ASYNCSTEPS_FUNCTION event_loop& pool_core::loop(std::size_t index) const {
  refuse_if_left_behind();
  registered_.refuse_if_unwakeable();
  // in the hooks for a thread's start and end its worker may not be a wanted one
  const auto is_own = [index](const worker& w) noexcept {
    return w.index == index && &w.own_loop.core() == worker_loop;
  };
  if (index >= size() && !crew_.any_of(0, is_own)) {
    throw std::out_of_range("async::threadpool: loop() of a worker that is not wanted");
  }
  return crew_.loop(index);
}

ASYNCSTEPS_FUNCTION event_loop& pool_core::first_loop() const noexcept { return crew_.loop(0); }

// --- the end ------------------------------------------------------------------------------------------------------

ASYNCSTEPS_FUNCTION bool pool_core::is_idle() noexcept {
  return quiescence_.is_idle(sleepers_, [this]() noexcept {
    return has_tasks() || (crew_.wanted() != 0 && has_loops()) || (hooks_.has_start() && quiescence_.has_starting());
  });
}

ASYNCSTEPS_FUNCTION bool pool_core::has_flows_only() noexcept {
  return flows_.are_all() && !has_tasks_of_others() && !quiescence_.has_helpers_now() && !quiescence_.has_starting() &&
         !crew_.any_of(0, [](const worker& w) noexcept {
           return w.is_in_task.load(std::memory_order_relaxed) && !w.runs_for_flow.load(std::memory_order_relaxed);
         });
}

/// While the pool stops: whether a thread's oldest job, or one from outside, is no flow's, and is not to be dropped.
ASYNCSTEPS_FUNCTION bool pool_core::has_tasks_of_others() const noexcept {
  if (shutdown_.discards()) return false;
  const auto is_of_other = [](const task_scope* tag) noexcept { return tag != &posted_by_flow; };
  return !injector_.empty() || priorities_.has_tasks() ||
         any_part(0, [is_of_other](const participant& p) noexcept { return p.own.oldest_fits(is_of_other); });
}

ASYNCSTEPS_FUNCTION void pool_core::note_skipped() noexcept {
  if (shutdown_.discards()) count_dropped(1);
}

ASYNCSTEPS_FUNCTION bool pool_core::wait_idle_for(std::chrono::nanoseconds limit) {
  refuse_inside_a_task("async::threadpool: wait_idle() inside one of its tasks");
  if (is_left_behind()) return true;
  const auto is_done = [this] { return !quiescence_.has_starting() && is_idle(); };
  if (is_done()) return true;
  if (limit.count() <= 0) return false;
  const own_section here;  // in a task of another pool
  if (limit < practically_never) return idle_.wait_until(later(wait_clock::now(), limit), is_done);
  idle_.wait(is_done);
  return true;
}

ASYNCSTEPS_FUNCTION bool pool_core::drop_instead(taken& t) noexcept {
  if (!shutdown_.discards()) [[likely]]
    return false;
  if (t.boxed && (!is_posted(t.boxed.tag) || static_cast<posted_job*>(t.boxed.item)->how == nullptr)) return false;
  drop(t);
  return true;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void pool_core::drop(taken& t) noexcept {
  const dropping here(this);
  if (t.boxed) {
    auto* const j = static_cast<posted_job*>(std::exchange(t.boxed, {}).item);
    j->how->discard(j);
  } else {
    t.plain.reset();
  }
  if (here.was_live()) count_dropped(1);
  sleepers_.notify_event();
}

ASYNCSTEPS_FUNCTION void pool_core::drop_what_is_queued() {
  for (taken t; injector_.take(t.plain);) drop(t);
  if (priority_queues::both* const others = priorities_.find()) {
    priority_order order;
    for (taken t; order.take_last(*others, t.plain);) drop(t);
  }
  for (taken t; (t.boxed = steal(nullptr, &is_posted));) {
    if (!drop_instead(t)) run(nullptr, t);
  }
}

ASYNCSTEPS_FUNCTION bool pool_core::run_all() {
  bool any = false;
  priority_order order;
  for (taken t; take_any(nullptr, t, order); any = true) {
    if (!drop_instead(t)) run(nullptr, t);
  }
  return any;
}

ASYNCSTEPS_FUNCTION pool_core::left_alone::left_alone(pool_core* pool) noexcept
    : inside(pool),
      scoped_pool_around(pool->number()),
      outer(std::exchange(left_over_of, pool)),
      look(std::exchange(look_after_pool, &look_after_own)) {}
ASYNCSTEPS_FUNCTION pool_core::left_alone::~left_alone() {
  left_over_of = outer;
  look_after_pool = look;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION bool pool_core::run_left_over(bool in_a_wait) {
  if (left_over_of == this && !in_a_wait) return false;
  const left_alone here(this);
  const work_apart from_those_around;
  const no_credit one_by_one(own_part());
  priority_order order;
  bool any = false;
  for (taken t; !(any && in_a_wait) && take_any(nullptr, t, order); any = true) {
    run(nullptr, t);  // also if the pool discards: its count has been told
  }
  return any;
}

ASYNCSTEPS_FUNCTION std::size_t pool_core::stop_and_discard() {
  refuse_inside_a_task("async::threadpool: stop() inside one of its tasks");
  if (is_left_behind()) return 0;
  const work_apart destructors;
  shutdown_.discard();
  task_scope::make_all_ask();  // task_groups ask whether their tasks are to be called
  shutdown_.begin();
  injector_.close();
  priorities_.close();
  crew_.request(worker::discard_request);
  pool_core* const before = come_inside();
  {
    const scoped_pool_around here(number());
    drop_what_is_queued();
  }
  go_outside(before);
  stop();
  return dropped_.load(std::memory_order_relaxed);  // relaxed: the threads have ended
}

ASYNCSTEPS_FUNCTION void pool_core::stop() {
  refuse_inside_a_task("async::threadpool: stop() inside one of its tasks");
  if (is_left_behind()) return;
  const own_section blocks;  // in a task of another pool
  const work_apart handlers_and_tasks;
  const std::lock_guard once(stop_mutex_);
  shutdown_.begin();
  worker* const without_thread = crew_.close(
      [](const pool_core& pool) noexcept { return pool.has_tasks() || pool.quiescence_.has_threads_or_helpers(); });
  injector_.close();
  priorities_.close();
  if (without_thread != nullptr) run_last_worker(*without_thread);
  if (crew_.wanted() != 0) {
    const auto is_done = [this] { return is_idle() || has_flows_only() || crew_.wanted() == 0; };
    idle_.wait(is_done);
    if (hooks_.has_start()) {  // which may wait for tasks
      shutdown_.end_starts();
      idle_.wait(is_done);
    }
  }
  crew_.join_all();
  lookout_.close();
  stand_ins_.close();
  shutdown_.finish();
  const left_alone here(this);
  end_loops();
  idle_.wait([this] { return !quiescence_.has_helpers_now(); });  // see run_on_poster()
  shutdown_.end_discard();
}

}  // namespace async::inline v0_1::detail
