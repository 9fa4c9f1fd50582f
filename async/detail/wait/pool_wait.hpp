// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for min
#include <cstddef>    // for size_t
#include <cstdint>    // for int64_t
#include <limits>     // for numeric_limits
#include <utility>    // for exchange
#include <vector>     // for vector

#include "async/detail/base/backoff.hpp"    // for backoff
#include "async/detail/pool/pool_core.hpp"  // for pool_core

/// Waiting for tasks of a pool.
///
/// It runs only tasks that it may wait for: those of the group, loop or call that it waits for, and those which these
/// have made. So the depth of its stack is that of the tree of tasks, and never follows their number; and a lock that
/// it holds while it waits is never asked for by a task that has nothing to do with the wait.
///
/// It cannot deadlock the pool by sleeping. When tasks are queued, no worker is free to take them, and workers sleep in
/// waits, threads stand in for these, as many as there are workers asleep, see stand_ins. So do they for a thread whose
/// stack has little room left, see has_stack_room(): it runs nothing any more.
namespace async::detail {

/// The newest own job that fits, else the oldest of another thread, else one that lies below others in the own deque.
inline job_deque::element pool_core::take_within(participant& p, const wait_scope& own) noexcept {
  if (own.is_of_current_task()) {
    return p.own.position() > p.made_from ? p.own.pop_if(&posted_task) : job_deque::element{};
  }
  const auto fits = [&own](const task_scope* of_job) noexcept { return own.allows(of_job); };
  const auto element_fits = [&own](const job_deque::element& e) noexcept { return own.allows(e.tag); };
  std::int64_t newer = 0;
  if (p.own.find(1, element_fits, newer)) {
    if (const job_deque::element e = p.own.pop()) return e;
  }
  if (const job_deque::element e = steal(&p, fits)) return e;
  if (const job_deque::element e = take_below(p, element_fits)) return e;
  return size() == 0 ? unearth(p, fits) : job_deque::element{};
}

/// The newest job in the thread's own deque that fits; what lies above it stays there.
template <class Fits>
job_deque::element pool_core::take_below(participant& p, Fits fits) noexcept {
  std::int64_t newer = 0;
  if (!p.own.find((std::numeric_limits<std::int64_t>::max)(), fits, newer)) return {};
  std::vector<job_deque::element> above;
  try {
    above.reserve(static_cast<std::size_t>(newer));
  } catch (...) {
    return {};  // until there is memory, it stays where it is
  }
  while (above.size() != static_cast<std::size_t>(newer)) {
    const job_deque::element e = p.own.pop();
    if (!e) break;
    above.push_back(e);
  }
  job_deque::element found = above.size() == static_cast<std::size_t>(newer) ? p.own.pop() : job_deque::element{};
  if (found && !fits(found)) {  // thieves were faster
    p.own.push(found.item, found.tag);
    found = {};
  }
  for (; !above.empty(); above.pop_back()) p.own.push(above.back().item, above.back().tag);  // there is room
  sleepers_.notify();
  return found;
}

[[gnu::noinline]] inline bool pool_core::take_back(participant& p, job_deque::element other, const job* wanted) {
  p.own.push(other.item, other.tag);  // there is room
  return static_cast<bool>(take_below(p, [wanted](const job_deque::element& e) noexcept { return e.item == wanted; }));
}

/// For a paused pool, where no worker takes older jobs away: the oldest fitting job of another thread. Moves older jobs
/// of that thread to the own deque.
template <class Fits>
job_deque::element pool_core::unearth(participant& p, Fits fits) noexcept {
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
      p.made_from = p.own.position();  // nothing that the current task has made
      found = {};
    }
    return static_cast<bool>(found);
  });
  return found;
}

/// Whether take_within() may find something.
inline bool pool_core::has_within(const participant& p, const wait_scope& own) const noexcept {
  if (own.is_of_current_task()) {
    std::int64_t newer = 0;
    return p.own.position() > p.made_from &&
           p.own.find(1, [](const job_deque::element& e) noexcept { return e.tag == &posted_task; }, newer);
  }
  const auto fits = [&own](const task_scope* of_job) noexcept { return own.allows(of_job); };
  std::int64_t newer = 0;
  return any_part(0, [&fits](const participant& other) noexcept { return other.own.oldest_fits(fits); }) ||
         p.own.find(8, [&own](const job_deque::element& e) noexcept { return own.allows(e.tag); }, newer);
}

/// While it lives, a thread of the pool sleeps in a wait, from its first sleep() until awake(), and is missed.
class pool_core::sleep_in_task {
 public:
  explicit sleep_in_task(const participant* home) noexcept
      : count_(home == nullptr || home->is_polling ? nullptr : home->pool.blocked_count(*home)) {}  // polls: it is
  ~sleep_in_task() { awake(); }
  sleep_in_task(const sleep_in_task&) = delete;
  sleep_in_task& operator=(const sleep_in_task&) = delete;

  void sleep() noexcept {
    if (count_ == nullptr || std::exchange(sleeps_, true)) return;
    count_->fetch_add(1, std::memory_order_relaxed);  // relaxed, both: a guess for those who look
  }
  void awake() noexcept {
    if (std::exchange(sleeps_, false)) count_->fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  atomic<std::uint32_t>* const count_;  // null: the pool does not miss this thread
  bool sleeps_ = false;
};

template <class Ready>
void pool_core::wait_until(participant& p, const wait_scope own, const Ready ready) {
  worker* const w = p.as_worker;
  participant* const home = this_home;  // where this thread is missed; null: in no pool
  const struct condition {
    const wait_scope& own;
    const Ready& ready;
  } what{own, ready};
  driven_loops* const loops = w != nullptr && current_loop == nullptr ? &w->loops : nullptr;
  const bool is_alone = left_over_of == this;  // the pool's threads have gone: nobody else runs anything
  sleep_in_task state(home);
  const work_in_wait others;
  unsigned tasks_left = 0;  // before the next look at the loops
  auto nap = first_nap;
  while (!ready()) {
    if (loops != nullptr && tasks_left == 0) {
      bool searching = false;
      if (mind(*w, searching)) {
        if (loops->were_active()) nap = first_nap;  // else the turn has only ended a sleep
        if (ready()) break;
      }
      tasks_left = loops->tasks_per_look();
    }
    const bool may_run = has_stack_room() || size() == 0;  // in a paused pool nobody else would
    if (const job_deque::element e = may_run ? take_within(p, own) : job_deque::element{}) {
      if (!own.is_of_current_task() && !own.allows(e.tag)) {  // what was waited for has just ended: another's
        try {
          fork(p, e.item, e.tag);
        } catch (...) {  // without memory
          run_job(&p, e);
        }
        continue;
      }
      state.awake();
      run_job(&p, e);
      nap = first_nap;
      if (tasks_left != 0) --tasks_left;
      continue;
    }
    if (taken t; is_alone && take(&p, t)) {
      run(&p, t);
      continue;
    }
    tasks_left = 0;
    backoff pause;
    bool again = false;
    while (!again && !pause.exhausted(8)) {
      pause.wait();
      again = ready() || (may_run && has_within(p, own)) || (loops != nullptr && loops->has_work());
    }
    if (again) continue;
    state.sleep();
    if (home != nullptr) static_cast<void>(home->pool.stand_in_for(*home, false));
    p.parking_slot.condition = &what;
    p.parking_slot.may_run = [](const void* c, const void* work) noexcept {
      return static_cast<const condition*>(c)->own.allows(static_cast<const task_scope*>(work));
    };
    p.parking_slot.is_ready = [](const void* c) noexcept { return static_cast<const condition*>(c)->ready(); };
    sleepers_.announce(p.parking_slot, false);
    auto deadline = wait_clock::now() + nap;
    if (ready() || (may_run && has_within(p, own)) || (loops != nullptr && !may_sleep(*w, deadline))) {
      sleepers_.cancel(p.parking_slot);
    } else {
      sleepers_.park_until(p.parking_slot, deadline);
    }
    p.parking_slot.is_ready = nullptr;
    if (nap >= stand_in_nap && home != nullptr && !ready() && !home->pool.stand_in_for(*home, true) && may_run) {
      taken t;  // not even a thread can be had: the one case in which a wait runs what is not its own
      if (has_work() && idle() == 0 && all_are_blocked() && take(&p, t)) run(&p, t);
    }
    nap = (std::min)(2 * nap, last_nap);
  }
}

/// Has a thread run tasks, if there are some which nobody is free for; a new one only if it `may_start`. False: a
/// thread cannot be had.
inline bool pool_core::stand_in_for(const participant& p, bool may_start) noexcept {
  const std::size_t most = missed();
  if (most == 0 || idle() != 0 || !has_work()) return true;
  try {
    stand_ins_.call(most, may_start, [this, index = p.stands_for] { live_as_stand_in(index); });
    return true;
  } catch (...) {
    return false;
  }
}

inline void pool_core::stand_in_for_poller() noexcept {
  participant* const p = this_home;
  if (p == nullptr || &p->pool != this || idle() != 0) return;
  if (!std::exchange(p->is_polling, true)) {  // until its task ends
    // relaxed: as with those who sleep
    if (atomic<std::uint32_t>* const count = blocked_count(*p)) count->fetch_add(1, std::memory_order_relaxed);
  }
  static_cast<void>(stand_in_for(*p, true));
}

/// Runs tasks until there are none, or nobody is missed, and again when it is called. `index`: of the worker that it
/// stands for.
inline void pool_core::live_as_stand_in(std::size_t index) {
  const inside here(this);
  guest* place = nullptr;
  try {
    place = &take_seat();
  } catch (...) {  // the next one will do
    return;
  }
  place->stands_for = index;
  place->is_stand_in = true;
  this_seat = {number(), place, 1};
  this_home = place;
  const struct end {
    pool_core& pool;
    guest* place;
    std::size_t index;
    ~end() {
      pool.hooks_.stopping(index);
      this_seat = {};
      this_home = nullptr;
      place->is_stand_in = false;
      place->leave();
    }
  } at_end{*this, place, index};
  quiescence_.helper_arrived();
  hooks_.started(index);
  for (bool is_first = true; is_first || stand_ins_.rest(); is_first = false) {
    if (!is_first) quiescence_.helper_arrived();
    const struct end_of_work {
      pool_core& pool;
      ~end_of_work() {
        pool.quiescence_.helper_left();
        pool.sleepers_.notify();  // for what is left in its deque
        pool.idle_.notify();
      }
    } at_rest{*this};
    for (taken t; take(place, t);) {
      run(place, t);
      if (stand_ins_.is_surplus(missed())) break;
    }
  }
}

}  // namespace async::detail
