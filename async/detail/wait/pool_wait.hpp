// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>   // for size_t
#include <cstdint>   // for int64_t
#include <limits>    // for numeric_limits
#include <memory>    // for make_unique
#include <mutex>     // for lock_guard
#include <optional>  // for optional
#include <utility>   // for exchange, move
#include <vector>    // for vector

#include "async/detail/base/backoff.hpp"           // for spin_before_sleep
#include "async/detail/base/chrono.hpp"            // for microseconds
#include "async/detail/base/config.hpp"            // for ASYNCSTEPS_FUNCTION
#include "async/detail/base/min_max.hpp"           // for min_of
#include "async/detail/base/naps.hpp"              // for longest_nap, look_answer
#include "async/detail/base/own_section.hpp"       // for own_section
#include "async/detail/base/platform.hpp"          // for has_stack_room
#include "async/detail/future/ready_actions.hpp"   // for ready_actions
#include "async/detail/pool/credit_turn.hpp"       // for credit_turn, no_credit
#include "async/detail/pool/drive.hpp"             // for drive, tasks_per_turn, yields_of_pools
#include "async/detail/pool/guest_attendance.hpp"  // for guest_attendance
#include "async/detail/pool/left_in_wait.hpp"      // for left_in_wait
#include "async/detail/pool/pool_core.hpp"         // for pool_core
#include "async/detail/pool/pool_loops.hpp"        // for run_loop, steal_loop
#include "async/detail/pool/pool_queues.hpp"       // for take_any
#include "async/detail/pool/priority_queues.hpp"   // for priority_order
#include "async/detail/pool/turn_share.hpp"        // for turn_share
#include "async/detail/pool/wait_in_turn.hpp"      // for wait_in_turn

/// Waiting for tasks of a pool: pool_core::wait_until().
///
/// A thread that waits for a group, a loop or a call runs only tasks of these, and tasks that they have spawned. A wait
/// for another future runs the tasks that the current task has posted. So the depth of the thread's stack follows the
/// depth of the tree of tasks, never their number. A worker turns event loops, too. A lock that the thread holds over
/// the wait may be requested by tasks of its wait and by steps of flows, and by no other task.
///
/// A sleeping wait cannot deadlock the pool. While tasks are queued, no worker is free, and workers sleep in waits, up
/// to as many stand-ins run the tasks, see stand_ins. The same holds for a thread whose stack has little room left, see
/// has_stack_room(): it runs no more tasks.
namespace async::inline v0_1::detail {

/// Takes a job that the wait may run: the newest own one, else the oldest of another thread, else an own one below
/// others. In a paused pool also one that lies above others in the deque of another thread.
ASYNCSTEPS_FUNCTION job_deque::element pool_core::take_within(participant& p, const wait_scope& own) noexcept {
  if (own.is_of_current_task()) {
    const bool is_its =
        p.own.position() > p.made_from && (p.own.is_newest_of(&posted_task) || p.own.is_newest_of(&posted_by_flow));
    return is_its ? p.own.pop() : job_deque::element{};
  }
  const auto fits = [&own](const task_scope* of_job) noexcept { return own.allows(of_job); };
  const auto element_fits = [&own](const job_deque::element& e) noexcept { return own.allows(e.tag); };
  std::int64_t newer = 0;
  if (p.own.find(1, element_fits, newer)) {
    if (const job_deque::element e = p.own.pop()) return e;
  }
  if (const job_deque::element e = steal(&p, fits)) return e;
  if (const job_deque::element e = take_below(p, element_fits)) return e;
  return size() == 0 ? steal_below(p, fits) : job_deque::element{};
}

/// Steals the oldest jobs of the thread's own deque until one fits. Those before it become the newest. After that no
/// job counts as made by the current task.
template <class Fits>
[[gnu::noinline, gnu::cold]] job_deque::element take_oldest(participant& p, Fits fits) noexcept {
  for (std::int64_t newer = 0; p.own.find((std::numeric_limits<std::int64_t>::max)(), fits, newer);) {
    const job_deque::element oldest = p.own.steal();
    if (!oldest || fits(oldest)) return oldest;
    p.own.push(oldest.item, oldest.tag);  // there is room
    p.made_from = p.own.position();
  }
  return {};
}

/// Takes the newest job that fits from the thread's own deque. The jobs above it stay there.
/// Without memory: the oldest job that fits.
template <class Fits>
job_deque::element pool_core::take_below(participant& p, Fits fits) noexcept {
  std::int64_t newer = 0;
  if (!p.own.find((std::numeric_limits<std::int64_t>::max)(), fits, newer)) return {};
  std::vector<job_deque::element> above;
  try {
    above.reserve(static_cast<std::size_t>(newer));
  } catch (...) {
    return take_oldest(p, fits);
  }
  while (above.size() != static_cast<std::size_t>(newer)) {
    const job_deque::element e = p.own.pop();
    if (!e) break;
    above.push_back(e);
  }
  job_deque::element found = above.size() == static_cast<std::size_t>(newer) ? p.own.pop() : job_deque::element{};
  if (found && !fits(found)) {  // a thief has taken it
    p.own.push(found.item, found.tag);
    found = {};
  }
  for (; !above.empty(); above.pop_back()) p.own.push(above.back().item, above.back().tag);  // there is room
  sleepers_.notify();
  return found;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION bool pool_core::take_back(participant& p, job_deque::element other,
                                                                const job* wanted) {
  p.own.push(other.item, other.tag);  // there is room
  return static_cast<bool>(take_below(p, [wanted](const job_deque::element& e) noexcept { return e.item == wanted; }));
}

/// For a paused pool, where no worker takes the older jobs: steals the oldest job that fits from another thread. Moves
/// the older jobs of that thread to the own deque.
template <class Fits>
job_deque::element pool_core::steal_below(participant& p, Fits fits) noexcept {
  job_deque::element found;
  any_part(0, [&](participant& other) noexcept {
    while (&other != &p && other.own.any_fits(fits)) {
      try {
        p.own.make_room();
      } catch (...) {
        return false;  // without memory
      }
      found = other.own.steal();
      if (!found || fits(found.tag)) break;
      p.own.push(found.item, found.tag);
      p.made_from = p.own.position();  // the current task has not made it
      found = {};
    }
    return static_cast<bool>(found);
  });
  return found;
}

/// Whether take_within() may find a job.
ASYNCSTEPS_FUNCTION bool pool_core::has_within(const participant& p, const wait_scope& own) const noexcept {
  if (own.is_of_current_task()) {
    std::int64_t newer = 0;
    return p.own.position() > p.made_from &&
           p.own.find(1, [](const job_deque::element& e) noexcept { return is_posted(e.tag); }, newer);
  }
  const auto fits = [&own](const task_scope* of_job) noexcept { return own.allows(of_job); };
  std::int64_t newer = 0;
  return any_part(0, [&fits](const participant& other) noexcept { return other.own.oldest_fits(fits); }) ||
         p.own.find(8, [&own](const job_deque::element& e) noexcept { return own.allows(e.tag); }, newer);
}

ASYNCSTEPS_FUNCTION std::size_t pool_core::missed() const noexcept {
  // relaxed: a guess
  return blocked_stand_ins_.load(std::memory_order_relaxed) + min_of(blocked_workers(), crew_.wanted());
}
/// In waits, or in sections, which have other workers in their place.
ASYNCSTEPS_FUNCTION bool pool_core::all_are_blocked() const noexcept {
  const std::size_t all = crew_.wanted();
  return all != 0 && blocked_workers() + crew_.in_sections() >= all;
}

/// Counts a thread of the pool as blocked, from its first begin() until end(), so that a stand-in may work for it.
/// Takes over the count of a thread that has polled: the end of a task that the wait runs would end it.
class pool_core::blocked_in_wait {
 public:
  explicit blocked_in_wait(participant* home) noexcept
      : count_(home == nullptr ? nullptr : home->pool.blocked_count(*home)),
        is_counted_(count_ != nullptr && std::exchange(home->is_polling, false)) {
    if (is_counted_ && std::exchange(home->polls_in_section, false)) home->pool.leave_section(*home);
  }
  ~blocked_in_wait() { end(); }
  blocked_in_wait(const blocked_in_wait&) = delete;
  blocked_in_wait& operator=(const blocked_in_wait&) = delete;

  void begin() noexcept {
    if (count_ == nullptr || std::exchange(is_counted_, true)) return;
    count_->fetch_add(1, std::memory_order_relaxed);  // relaxed, both: readers want a guess
  }
  void end() noexcept {
    if (std::exchange(is_counted_, false)) count_->fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  atomic<std::uint32_t>* const count_;  // null: the thread belongs to no pool
  bool is_counted_;
};

/// The turns of a thread that waits: a task that it may run and, for a worker that is in no loop, an event loop, then
/// sleep.
class pool_core::wait_role : sleepers::wait_condition {
 public:
  wait_role(pool_core& pool, participant& p, const wait_scope& own, const asked_condition& ready) noexcept
      : sleepers::wait_condition{&ask_ready, &ask_may_run},
        pool_(pool),
        part_(p),
        worker_(current_loop == nullptr ? p.as_worker : nullptr),
        home_(this_home),
        own_(own),
        ready_(ready),
        blocked_(home_) {
    if (own.has_wake_up() && worker_ == nullptr) is_ready = nullptr;  // nobody asks
  }

  void maintain() {
    is_done_ = ready_();
    if (is_done_ || worker_ == nullptr) return;
    if (worker_->in_hand != nullptr) pool_.put_down(*worker_);
    if (!pool_.loops_may_be_due(*worker_) && !pool_.priorities_.has_loops()) return;
    turn_loops();
  }

  bool is_done() const noexcept { return is_done_; }

  /// Before functions of users, and before the wait returns to one: leaves loops and timers to others.
  void leave() noexcept {
    if (worker_ == nullptr) return;
    if (std::exchange(owes_look_, false)) [[unlikely]] {
      pool_.pass_on();
    } else {
      pool_.before_functions();
    }
  }

  bool run_next() {
    may_run_ = has_stack_room() || pool_.size() == 0;  // in a paused pool no other thread would
    if (const job_deque::element e = may_run_ ? pool_.take_within(part_, own_) : job_deque::element{}) {
      run_or_return(e);
      return true;
    }
    // Another one's loops only if no worker is free: a step may need what this task holds.
    if (worker_ != nullptr && pool_.idle() == 0 && run_loop(pool_.steal_loop(*worker_))) return true;
    const bool is_alone = left_over_of == &pool_;  // the pool's threads have gone: no other thread runs its tasks
    return is_alone && run_any();
  }

  bool spin() const noexcept {
    return spin_before_sleep(yields_of_pools, [this]() noexcept { return is_wanted(); });
  }

  void park() {
    blocked_.begin();
    if (home_ != nullptr) static_cast<void>(home_->pool.call_stand_in(*home_, false));
    part_.parking_slot.condition = this;
    if (worker_ != nullptr) pool_.begin_watch(*worker_);
    const auto look = [this](wait_clock::time_point& deadline) noexcept {
      if (is_wanted()) return true;
      if (worker_ != nullptr) pool_.limit_sleep(*worker_, deadline);
      return false;
    };
    pool_.park_unless(part_.parking_slot, false, wait_clock::now() + nap_, look);
    if (worker_ != nullptr) owes_look_ = pool_.woke(*worker_) || owes_look_;
    part_.parking_slot.condition = nullptr;
    look_after_home();
    if (!section_ && loops_need_another()) section_.emplace();
    const bool is_long = nap_ >= long_nap;
    if ((is_long || own_.is_of_current_task()) && home_ != nullptr && !ready_() &&
        !home_->pool.call_stand_in(*home_, true) && is_long && may_run_ && pool_.has_tasks() && pool_.idle() == 0 &&
        pool_.all_are_blocked()) {
      run_any();  // no thread can be started: besides left-over tasks, the one case in which a task is not the wait's
                  // own
    }
    nap_ = min_of(2 * nap_, longest_nap(waiting_beside(home_)));
    share_.rest();
  }

  /// For longest_nap(): how many threads wait beside a stand-in. 0 for a worker, which looks every 8 ms, whoever else
  /// waits: what it sleeps in tells it neither of loops nor of tasks. Null: a thread from outside.
  static std::size_t waiting_beside(const participant* home) noexcept {
    return home == nullptr || home->as_worker != nullptr ? 0 : home->pool.missed();
  }

 private:
  // A wait for tasks of the pool, which other threads are running, starts no stand-in before the end of a long nap, a
  // wait for any other future after each nap.
  static constexpr std::chrono::microseconds first_nap{250}, long_nap{1000};

  static bool ask_ready(const sleepers::wait_condition& self) noexcept {
    return static_cast<const wait_role&>(self).ready_();
  }
  static bool ask_may_run(const sleepers::wait_condition& self, const task_scope* work) noexcept {
    const auto& role = static_cast<const wait_role&>(self);
    return work == &loop_waits ? role.worker_ != nullptr : role.own_.allows(work);
  }

  bool is_wanted() const noexcept {
    return ready_() || (may_run_ && pool_.has_within(part_, own_)) ||
           (worker_ != nullptr && pool_.has_loops_for(*worker_));
  }

  /// In a turn of a loop the wait has no other turns inside.
  bool loops_need_another() const noexcept {
    return current_loop != nullptr && home_ != nullptr && (home_->as_worker != nullptr || home_->is_lookout) &&
           !ready_() && home_->pool.loops_need_another();
  }
  /// For a worker of another pool, whose loops perhaps no other thread turns.
  void look_after_home() noexcept {
    if (home_ == nullptr || &home_->pool == &pool_ || current_loop != nullptr || ready_()) return;
    if (home_->pool.turn_at_home()) nap_ = first_nap;
  }

  /// Runs a turn of a loop, or more if the tasks before have taken long.
  [[gnu::noinline]] void turn_loops() {
    const std::uint64_t tasks = part_.ran.load(std::memory_order_relaxed);  // relaxed: its own
    if (share_.change(true, tasks)) worker_->looks.hurry();                 // timers may have come due meanwhile
    do {
      pool_.fire_timers(*worker_);
      if (!run_loop(pool_.take_any_loop(*worker_))) break;
      is_done_ = ready_();
    } while (!is_done_ && share_.goes_on());
    share_.change(false, tasks);
  }
  /// Runs a turn of a loop. False: null.
  bool run_loop(pool_loop* h) noexcept {
    if (h == nullptr) return false;
    blocked_.end();
    leave();
    pool_.run_loop(worker_, *h);
    nap_ = first_nap;
    return true;
  }

  void run_or_return(job_deque::element e) {
    if (returns(e)) return;
    blocked_.end();
    leave();
    if (!own_.is_of_current_task()) {
      run_with_others(e);
    } else if (taken t{e, {}}; !pool_.discards_in_waits() || !drops(t)) {
      pool_.run_job(&part_, e);
    }
    nap_ = first_nap;
  }
  [[gnu::noinline, gnu::cold]] bool drops(taken& t) noexcept {
    const scope_setting outside_groups(nullptr);
    return pool_.drop_instead(t);
  }
  /// Runs a task of a construct, and those of the same construct that are the newest ones of this thread then.
  void run_with_others(job_deque::element e) {
    const credit_turn turn(part_);
    left_in_wait not_own(part_);
    const task_scope* const construct = e.tag;
    unsigned left = tasks_per_turn;
    do {
      not_own.begin_task();
      pool_.run_job(&part_, e);
      if (--left == 0 || (worker_ != nullptr && pool_.is_time_for_loops(*worker_))) return;
      e = part_.own.pop_if(construct);
    } while (e && !returns(e));
  }
  /// If the awaited call has just ended, so that the job is another's: gives it back, or runs it without memory for
  /// that.
  bool returns(const job_deque::element& e) {
    if (own_.is_of_current_task() || own_.allows(e.tag)) [[likely]]
      return false;
    try {
      pool_.fork(part_, e.item, e.tag);
    } catch (...) {
      pool_.run_job(&part_, e);
    }
    return true;
  }

  [[gnu::noinline]] bool run_any() {  // not inlined, to keep the stack of nested waits small
    taken t;
    priority_order order;
    if (!pool_.take_any(&part_, t, order)) return false;
    leave();
    if (!pool_.discards_in_waits() || !drops(t)) pool_.run(&part_, t);
    return true;
  }

  pool_core& pool_;
  participant& part_;
  worker* const worker_;     // null: the thread is no worker of this pool, or is in a turn of a loop
  participant* const home_;  // the thread's part in the pool that has started it; null: none has
  const wait_scope& own_;
  const asked_condition& ready_;
  blocked_in_wait blocked_;
  const own_exceptions others_;
  const wait_in_turn allowed_;
  bool is_done_ = false;
  bool may_run_ = true;
  turn_share share_;
  bool owes_look_ = false;  // it has covered a deadline or watched in a sleep since the last leave()
  std::chrono::microseconds nap_ = first_nap;
  std::optional<own_section> section_;
};

ASYNCSTEPS_FUNCTION void pool_core::wait_until_true(participant& p, const wait_scope own, const asked_condition ready) {
  end_if_left_behind();
  const ready_actions::apart from_those_around;
  const no_credit one_by_one(&p);  // but for turns of its own
  if (p.as_worker != nullptr) p.as_worker->tasks_left = 0;
  wait_role role(*this, p, own, ready);
  drive(role);
  role.leave();
}

ASYNCSTEPS_FUNCTION guest& pool_core::take_seat() {
  guest* found = nullptr;
  guests_.any_of(0, [&found](guest& g) noexcept {
    if (g.take()) found = &g;
    return found != nullptr;
  });
  if (found != nullptr) return *found;
  const std::lock_guard lock(guests_mutex_);
  auto fresh = std::make_unique<guest>(*this, worker_crew::most_workers + guest_memory_.size());
  fresh->take_new();
  guests_.reserve_one();
  guest_memory_.push_back(std::move(fresh));
  guests_.add(*guest_memory_.back());
  return *guest_memory_.back();
}

/// Lets a stand-in work if tasks are queued and no thread is free; starts a thread only if it `may_start`. False: a
/// thread cannot be started.
ASYNCSTEPS_FUNCTION bool pool_core::call_stand_in(const participant& p, bool may_start) noexcept {
  const std::size_t most = missed();
  if (most == 0 || idle() != 0 || !has_tasks()) return true;
  try {
    stand_ins_.call(most, may_start, [this, index = p.stands_for] { run_stand_in(index); });
    return true;
  } catch (...) {
    return false;
  }
}

ASYNCSTEPS_FUNCTION void pool_core::stand_in_for_poller() noexcept {
  participant* const p = this_home;
  if (p == nullptr || p->pool.idle() != 0) return;
  pool_core& home = p->pool;
  if (atomic<std::uint32_t>* const count = home.blocked_count(*p); count != nullptr && !p->is_polling) {
    p->is_polling = true;                            // until the task ends, or waits
    count->fetch_add(1, std::memory_order_relaxed);  // relaxed: as in blocked_in_wait
  }
  static_cast<void>(home.call_stand_in(*p, true));
}

ASYNCSTEPS_FUNCTION void pool_core::make_way_for_polled(way how) noexcept {
  stand_in_for_poller();
  participant* const p = this_home;
  if (p == nullptr) return;
  if (p->is_lookout) p->is_polling = true;  // until the turn ends
  if (!p->is_polling || p->polls_in_section || (p->as_worker == nullptr && !p->is_lookout)) return;
  if (how == way::for_what_waits && !p->pool.loops_need_another()) return;
  p->polls_in_section = p->pool.enter_section(*p);
}

ASYNCSTEPS_FUNCTION void pool_core::stop_polling(participant& p) noexcept {
  p.is_polling = false;
  if (std::exchange(p.polls_in_section, false)) leave_section(p);
  if (atomic<std::uint32_t>* const count = blocked_count(p)) count->fetch_sub(1, std::memory_order_relaxed);
}

ASYNCSTEPS_FUNCTION bool pool_core::turn_at_home() noexcept {
  const inside here(this);  // the thread may help another pool
  worker* const w = own_worker();
  if (w == nullptr || current_loop != nullptr || !has_stack_room()) return false;
  if (w->in_hand != nullptr) put_down(*w);
  if (loops_may_be_due(*w)) fire_timers(*w);
  pool_loop* h = take_any_loop(*w);
  if (h == nullptr && idle() == 0) h = steal_loop(*w);
  if (h != nullptr) {
    const own_exceptions others;
    const wait_in_turn allowed;
    const ready_actions::apart from_those_around;
    run_loop(w, *h);
  }
  before_functions();
  return h != nullptr;
}

ASYNCSTEPS_FUNCTION look_answer pool_core::look_after_own(look_reason why) noexcept {
  if (left_over_of != nullptr && (why == look_reason::sleeps || why == look_reason::polls) && has_stack_room() &&
      left_over_of->run_left_over(true)) {
    return {true};  // the threads have gone, and what the caller waits for may be queued
  }
  participant* const p = this_home;
  if (p == nullptr) return {};
  if (why == look_reason::blocks) return {p->pool.enter_section(*p)};
  if (why == look_reason::goes_on) {
    p->pool.leave_section(*p);
  } else if (why == look_reason::sleeps && current_loop == nullptr) {
    stand_in_for_poller();
    const bool has_turned = p->pool.turn_at_home();
    return {has_turned, left_over_of != nullptr ? 0 : wait_role::waiting_beside(p)};
  } else {
    make_way_for_polled();
  }
  return {};
}

// --- blocking_section -----------------------------------------------------------------------------------------------

ASYNCSTEPS_FUNCTION bool pool_core::enter_section(participant& home) noexcept {
  if (std::exchange(home.polls_in_section, false)) return true;  // takes over that of a poll before
  if (home.is_in_section || !(home.is_lookout ? lookout_.begin_section() : crew_.begin_section(home.as_worker))) {
    return false;
  }
  home.is_in_section = true;
  if (home.is_lookout) call_lookout_if_needed();
  idle_.notify();  // wait_idle() does not wait for a thread that could not be started
  return true;
}

ASYNCSTEPS_FUNCTION void pool_core::leave_section(participant& home) noexcept {
  if (is_left_behind()) return;
  home.is_in_section = false;
  home.is_lookout ? lookout_.end_section() : crew_.end_section(home.as_worker);
}

// --- stand-ins ------------------------------------------------------------------------------------------------------

/// The life of a stand-in's thread: runs tasks until there are none or it is surplus, rests, and starts again when it
/// is called. `index`: the worker that it stands for.
ASYNCSTEPS_FUNCTION void pool_core::run_stand_in(std::size_t index) {
  const inside here(this);
  if (!guest_attendance::arrive(*this)) return;
  guest* place = nullptr;
  try {
    place = &take_seat();
  } catch (...) {  // without memory: a later stand-in tries again
    return guest_attendance::leave(*this);
  }
  guest_attendance attendance(*place, guest_attendance::role::stands_in, index);
  attendance.call_start_hook();
  const auto never = []() noexcept { return false; };
  for (bool is_first = true; is_first || stand_ins_.rest(stand_ins::rest_time, never); is_first = false) {
    if (!is_first) quiescence_.helper_arrived();
    const struct end_of_work {
      pool_core& pool;
      ~end_of_work() {
        pool.quiescence_.helper_left();
        pool.sleepers_.notify();  // for what is left in its deque
        pool.idle_.notify();
      }
    } at_rest{*this};
    priority_order order;
    for (taken t; take_any(place, t, order);) {
      if (!drop_instead(t)) run(place, t);
      if (stand_ins_.is_surplus(missed())) break;
    }
  }
}

}  // namespace async::inline v0_1::detail
