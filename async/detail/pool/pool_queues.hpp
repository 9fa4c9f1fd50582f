// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint8_t
#include <mutex>    // for defer_lock, unique_lock
#include <utility>  // for move

#include "async/detail/base/config.hpp"           // for ASYNCSTEPS_SHARED
#include "async/detail/base/min_max.hpp"          // for max_of
#include "async/detail/loop/loop_core.hpp"        // for current_loop, worker_loop
#include "async/detail/pool/pool_core.hpp"        // for pool_core, guest, worker
#include "async/detail/pool/priority_queues.hpp"  // for priority_queues, priority_order
#include "async/detail/pool/seat.hpp"             // for this_home
#include "async/errors.hpp"                       // for stopped
#include "async/priority.hpp"                     // for priority
#include "async/task.hpp"                         // for task
#include "async/threadpool_options.hpp"           // for threadpool_stats

/// All queues of a pool: tasks and loops of every priority, memory, figures.
namespace async::inline v0_1::detail {

/// In place of a scope in basic_sleepers::notify(): a loop waits for a turn.
ASYNCSTEPS_SHARED inline constinit task_scope loop_waits{};

/// In place of a wait's scope: any task will do.
inline constexpr auto any_task = [](const task_scope*) noexcept { return true; };

/// Whether this thread may sleep until a full pool has room. Not in a turn of an event loop, which would stand still.
inline bool may_wait() noexcept { return current_loop == nullptr; }

ASYNCSTEPS_FUNCTION void pool_core::refuse(task& work) {
  refuse_if_left_behind();
  // relaxed, all: [W2] has published it. After an earlier stop() of the user a post may miss it, and be refused
  if (!late_posts_run_.load(std::memory_order_relaxed)) throw stopped();
  hooks_.call_here(work);
}

ASYNCSTEPS_FUNCTION void pool_core::submit_with(priority wanted, task work) {
  registered_.refuse_if_unwakeable();
  registered_.note_if_foreign();
  const bool has_begun = shutdown_.has_begun();
  const bool is_from_inside = is_inside() || ((has_begun || is_bounded()) && registered_.has_led_away());
  if (!is_from_inside && has_begun) return refuse(work);
  const auto make_workers_look = [this]() noexcept { crew_.request(worker::priorities_in_use); };
  injector& queue = priorities_.get(injector_, make_workers_look).of(wanted).tasks;
  if (is_from_inside) {
    queue.put_unlimited(work);
  } else if (!queue.put(work, may_wait())) {
    return run_on_poster(work);
  }
  sleepers_.notify();
  if (shutdown_.is_over()) run_left_over();
}

/// While the pool stops: puts what a step on the lookout posts into the deque of that thread, tagged as a flow's.
/// Throws std::bad_alloc.
[[gnu::noinline]] ASYNCSTEPS_FUNCTION bool pool_core::put_for_flow(task& work) {
  participant* const home = this_home;
  if (!shutdown_.is_closing() || home == nullptr || &home->pool != this || !home->is_lookout) return false;
  using box = boxed_task<task>;
  box* const made = box::make(&run_boxed<box>, std::move(work));
  try {
    home->own.push(made, &posted_by_flow);
  } catch (...) {
    box::destroy(made);
    throw;
  }
  return true;
}

ASYNCSTEPS_FUNCTION void pool_core::submit_from_outside(task work) {
  registered_.refuse_if_unwakeable();
  registered_.note_if_foreign();
  const bool has_begun = shutdown_.has_begun();
  const bool is_from_inside = is_inside() || ((has_begun || is_bounded()) && registered_.has_led_away());
  if (!is_from_inside && has_begun) return refuse(work);
  if (is_from_inside) {
    if (!put_for_flow(work)) injector_.put_from_inside(work);
  } else if (!injector_.put(work, may_wait())) {
    return run_on_poster(work);
  }
  sleepers_.notify();
  if (shutdown_.is_over()) run_left_over();
}

ASYNCSTEPS_FUNCTION bool pool_core::offer(posted_job* j) noexcept {
  worker* const w = own_worker();
  // A branch as a task would let flow_watch see a task, for as long as the flow goes on.
  if (w == nullptr || shutdown_.is_closing()) return false;
  try {
    w->own.push(j, &posted_task);
    return true;
  } catch (...) {
    return false;
  }
}

ASYNCSTEPS_FUNCTION bool pool_core::take(participant* p, taken& out) noexcept {
  worker* const w = p == nullptr ? nullptr : p->as_worker;
  const bool injector_first = p != nullptr && ++p->turn % participant::injector_share == 0;
  if (injector_first) {
    injector_.sample();
    if (injector_.take(out.plain)) return true;
    if (w == nullptr && (out.boxed = p->own.steal())) return true;
  }
  if (p != nullptr && (out.boxed = p->own.pop())) return true;
  if (!injector_first && injector_.take(out.plain)) return true;
  out.boxed = w == nullptr ? steal(p, any_task) : steal_if_it_pays(*w);
  return static_cast<bool>(out.boxed);
}

ASYNCSTEPS_FUNCTION job_deque::element pool_core::steal_if_it_pays(worker& w) noexcept {
  w.thefts.begin_look();
  job_deque::element stolen;
  any_part(w.next_random(), [&](participant& victim) noexcept {
    if (&victim == &w || !w.thefts.is_left(victim.own)) return false;
    w.thefts.begin_theft();
    stolen = victim.own.steal();
    if (!stolen) return false;
    w.thefts.end_theft();
    note_theft(w, victim);
    return true;
  });
  return stolen;
}

ASYNCSTEPS_FUNCTION job_deque::element pool_core::steal_left_behind(worker& w) noexcept {
  job_deque::element stolen;
  guests_.any_of(w.next_random(), [&w, &stolen](guest& victim) noexcept {
    if (victim.own.empty() || !(stolen = victim.own.steal())) return false;
    note_theft(w, victim);
    return true;
  });
  return stolen ? stolen : steal(&w, any_task);
}

ASYNCSTEPS_FUNCTION bool pool_core::take_any(participant* p, taken& out, priority_order& order) noexcept {
  priority_queues::both* const others = priorities_.find();
  priority_queues::level* const first = others != nullptr ? order.first(*others) : nullptr;
  if (first != nullptr && first->tasks.take(out.plain)) return true;
  return take(p, out) || (others != nullptr && order.take_last(*others, out.plain));
}

/// Whether the worker is to look at its requests before it runs another task. For priorities it is while such a task or
/// loop waits.
[[gnu::noinline]] ASYNCSTEPS_FUNCTION bool pool_core::must_heed_requests(const worker& w) const noexcept {
  const std::uint8_t requests = w.requests.load(std::memory_order_relaxed);  // relaxed: as has_requests()
  return requests != worker::priorities_in_use || priorities_.has_tasks() || priorities_.has_loops();
}

/// Queues a loop of high or low priority, which this thread has scheduled.
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void pool_core::enqueue_with_priority(loop_slot& s) noexcept {
  if (is_left_behind()) return;  // as in enqueue()
  priorities_.find()->of(s.level).loops.push(s);
  sleepers_.notify(&loop_waits);
  if (own_worker() == nullptr) post_lookout();  // as there
}

/// As take_loop(), of any priority, for a worker that waits in a task.
ASYNCSTEPS_FUNCTION pool_loop* pool_core::take_any_loop(worker& w) noexcept {
  return w.order.take_loop(priorities_.find(), [this, &w]() noexcept { return take_loop(w); });
}

ASYNCSTEPS_FUNCTION std::size_t pool_core::trim() noexcept {
  std::size_t freed = injector_.trim() + priorities_.trim();
  participant* mine = own_part();
  for (const seat& s : other_seats) {
    if (s.pool == registered_.number) mine = s.place;
  }
  if (mine != nullptr) freed += mine->own.trim();
  const bool is_left_alone = pool_around::is_any(number());  // it may have a mutex as the pool's last worker
  crew_.for_each([this, mine, is_left_alone, &freed](worker& w) noexcept {
    if (&w == mine || !w.own.is_trimmable()) return;
    const bool may_be_here = is_left_alone || worker_loop == &w.own_loop.core();  // as it has in its stop hook
    std::unique_lock place(w.occupied, std::defer_lock);
    if (!may_be_here && place.try_lock()) {  // no thread works there
      freed += w.own.trim();
      return;
    }
    w.trim_requested.store(true, std::memory_order_relaxed);  // relaxed: ordered by the sleepers' lock, or in time
    sleepers_.wake(w.parking_slot);
  });
  guests_.for_each([mine, &freed](guest& g) noexcept {
    if (&g != mine && g.own.is_trimmable() && g.take()) {
      freed += g.own.trim();
      g.leave();
    }
  });
  return freed;
}

ASYNCSTEPS_FUNCTION threadpool_stats pool_core::stats() const noexcept {
  threadpool_stats all;
  crew_.count(all);
  all.wakes = sleepers_.wakes();
  all.stand_ins = stand_ins_.started();
  all.late_turns = lookout_.turns();
  all.turns += all.late_turns;
  all.queue_peak = max_of(injector_.peak(), priorities_.peak());
  guests_.for_each([&all](const guest& g) noexcept {
    all.tasks += g.ran.load(std::memory_order_relaxed);  // relaxed, both: each is a figure of its own
    all.steals += g.steals.load(std::memory_order_relaxed);
  });
  return all;
}

}  // namespace async::inline v0_1::detail
