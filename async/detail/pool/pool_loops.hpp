// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>    // for size_t
#include <cstdint>    // for int64_t, uint32_t, uint64_t
#include <exception>  // for current_exception
#include <utility>    // for exchange

#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_FUNCTION
#include "async/detail/base/min_max.hpp"        // for max_of, min_of
#include "async/detail/base/platform.hpp"       // for prefetch_for_write
#include "async/detail/pool/pool_core.hpp"      // for pool_core, worker, pool_loop
#include "async/detail/pool/pool_life.hpp"      // for run_all
#include "async/detail/pool/pool_queues.hpp"    // for loop_waits, enqueue_with_priority
#include "async/detail/trace/trace_points.hpp"  // for ASYNCSTEPS_TRACE_INSTANT
#include "async/priority.hpp"                   // for priority

/// The event loops of a pool: their turns, queues and timers.
///
/// A loop that gets work is queued once, see turn_word, by the thread that brings it: in the worker's own run_queue,
/// else in the backlog. A worker takes loops from its run_queue and, now and then, from the backlog first; and it
/// steals half of another one's run_queue when it has nothing else, or when that one is stuck. So what a worker wakes
/// runs next on the same worker, unless that is busy.
///
/// A worker that has more than one loop waiting wakes another worker; for a single one, see loop_watch. A worker that
/// goes to sleep while others turn loops watches.
namespace async::inline v0_1::detail {

// --- queues -------------------------------------------------------------------------------------------------------

/// By loop_setting::wake.
ASYNCSTEPS_FUNCTION void pool_core::schedule(loop_core& loop) noexcept {
  pool_loop& h = pool_loop::of(loop);
  if (h.slot.word.schedule()) h.pool.enqueue(h.slot);
}

ASYNCSTEPS_FUNCTION loop_setting pool_core::setting_of_loops() const noexcept {
  return {.wake = &schedule, .current = registered_.current_loop, .left_behind = &is_left_behind_};
}

/// Queues a loop that this thread has scheduled.
ASYNCSTEPS_FUNCTION void pool_core::enqueue(loop_slot& s) noexcept {
  if (!lookout_.is_in_use()) [[unlikely]]
    begin_use_of_loops();
  if (s.level != priority::normal) [[unlikely]]
    return enqueue_with_priority(s);
  worker* const w = own_worker();
  if (w == nullptr) {
    if (is_left_behind()) return;  // its flows and callbacks go on in the parent only
    backlog_.push(s);
    post_lookout();  // in case its thread could not be started earlier
  } else {
    if (!w->ready.push(s)) [[unlikely]] {
      loop_slot* first = nullptr;
      loop_slot* last = nullptr;
      std::size_t count = 0;
      w->ready.spill([&](loop_slot& older) noexcept {
        (last != nullptr ? last->behind : first) = &older;
        last = &older;
        ++count;
      });
      if (count != 0) backlog_.push_all(first, last, count);
      if (!w->ready.push(s)) backlog_.push(s);
    }
    if (w->ready.size() == 1 && watch_.is_on()) return;
  }
  sleepers_.notify(&loop_waits);
}

/// Asks for the memory of the loops that this worker turns next: with many flows, little of it is in the cache.
ASYNCSTEPS_FUNCTION void pool_core::fetch_ahead(worker& w) noexcept {
  if (w.ready.empty()) return;
  if (const loop_slot* const s = w.ready.look(4)) prefetch_for_write(s);
  if (const loop_slot* const s = w.ready.look(3)) prefetch_for_write(s->loop);
  if (const loop_slot* const s = w.ready.look(2)) s->loop->core().prefetch();
  if (const loop_slot* const s = w.ready.look(1)) s->loop->prefetch_work();
}

/// Takes a loop that waits for this worker, or for any. Null: there is none.
ASYNCSTEPS_FUNCTION pool_loop* pool_core::take_loop(worker& w) noexcept {
  ++w.loop_turn;
  const bool backlog_first = !backlog_.empty() && w.is_backlog_next();
  loop_slot* next = backlog_first ? nullptr : w.ready.take();
  if (next == nullptr) next = take_from_backlog(w);
  if (next == nullptr && backlog_first) next = w.ready.take();
  if (next == nullptr) return nullptr;
  fetch_ahead(w);
  return next->loop;
}
/// Takes a share of the backlog, as much as there is room for: returns the oldest loop, and queues the others here.
ASYNCSTEPS_FUNCTION loop_slot* pool_core::take_from_backlog(worker& w) noexcept {
  constexpr std::size_t capacity = run_queue<loop_slot>::capacity;
  const std::size_t share = backlog_.size() / max_of(quiescence_.threads(), std::size_t{1}) + 1;
  const std::size_t room = capacity - std::size_t{w.ready.size()} + 1;
  loop_slot* const oldest = backlog_.take(min_of(min_of(share, capacity / 2), room));
  if (oldest == nullptr) return nullptr;
  for (loop_slot* rest = std::exchange(oldest->behind, nullptr); rest != nullptr;) {
    [[maybe_unused]] const bool is_in = w.ready.push(*std::exchange(rest, rest->behind));
    ASYNCSTEPS_ASSERT(is_in);
  }
  if (!w.ready.empty()) sleepers_.notify(&loop_waits);
  return oldest;
}

/// Whether a worker that waits in a task has a loop to turn.
ASYNCSTEPS_FUNCTION bool pool_core::has_loops_for(const worker& w) const noexcept {
  return has_loops_at_hand(w) || priorities_.has_loops() || (idle() == 0 && has_loops());
}

/// By a worker with nothing to do: takes half of another worker's loops. Null: there is none, or the other worker turns
/// it at once.
ASYNCSTEPS_FUNCTION pool_loop* pool_core::steal_loop(worker& w) noexcept {
  brief_look look;
  return steal_loop_from(w, [&look](const worker& victim) noexcept { return look.is_left(victim.ready); });
}

/// By a worker that has work: takes half of the loops of a worker that has turned none since the last such look, and so
/// is inside a function that takes long; or of one that has far more than this one. Null: there is none.
ASYNCSTEPS_FUNCTION pool_loop* pool_core::relieve_another(worker& w) noexcept {
  const std::uint32_t far_more = 2 * w.ready.size() + 4;
  return steal_loop_from(w, [far_more](worker& victim) noexcept {
    if (victim.ready.empty()) return false;
    const std::uint64_t turns = victim.turns.load(std::memory_order_relaxed);  // relaxed, all: figures
    const bool is_stuck = victim.turns_at_look.load(std::memory_order_relaxed) == turns;
    victim.turns_at_look.store(turns, std::memory_order_relaxed);
    return is_stuck || victim.ready.size() > far_more;
  });
}

template <class Wanted>
pool_loop* pool_core::steal_loop_from(worker& w, Wanted is_wanted) noexcept {
  loop_slot* stolen = nullptr;
  crew_.any_of(w.next_random(), [&w, &stolen, &is_wanted](worker& victim) noexcept {
    if (&victim == &w || !is_wanted(victim)) return false;
    stolen = w.ready.steal_half(victim.ready);
    return stolen != nullptr;
  });
  if (stolen == nullptr) return nullptr;
  participant::count(w.steals);
  ASYNCSTEPS_TRACE_INSTANT(steal, "steal", trace_id(stolen->loop));
  if (!w.ready.empty()) sleepers_.notify(&loop_waits);
  return stolen->loop;
}

// --- loops for flows ----------------------------------------------------------------------------------------------

/// A spare loop, which this thread has as in a turn. Null: there is no memory.
ASYNCSTEPS_FUNCTION pool_loop* pool_core::take_spare(worker* w) noexcept {
  pool_loop* h = nullptr;
  for (int tries = 8; tries != 0; --tries) {
    h = w != nullptr ? w->spares.take() : nullptr;
    if (h == nullptr) h = flow_loops_.take();
    // The thread that ends the loops is in them while their words rest.
    if (h == nullptr && !shutdown_.is_closing() && flow_loops_.is_review_due()) {
      review_loops();
      h = flow_loops_.take();
    }
    if (h == nullptr) break;
    if (h->slot.word.try_begin()) {
      h->is_spare = false;
      return h;
    }
    flow_loops_.give(*h);  // a message to its last flow has come late
  }
  if (!lookout_.is_in_use()) begin_use_of_loops();
  h = flow_loops_.make(*this, timers_, setting_of_loops(), loops_unhandled_);
  return h != nullptr && h->slot.word.try_begin() ? h : nullptr;
}

/// Makes the loops spare whose tenants have gone since their last turns.
ASYNCSTEPS_FUNCTION void pool_core::review_loops() noexcept {
  std::size_t in_use = 0;
  flow_loops_.for_each([this, &in_use](pool_loop& h) {
    // A thread that ends a flow is in loops whose words rest.
    if (h.core().has_tenant() || h.core().is_entered_here() || !h.slot.word.try_begin()) {
      ++in_use;
      return;
    }
    bool is_left = false;
    if (!h.is_spare) {
      const loop_driver::turn here(h.driver);
      is_left = h.driver.vacate(loops_unhandled_);
    }
    if (is_left) {
      make_spare(nullptr, h);
    } else if (!h.is_spare) {
      ++in_use;
    }
    end_possession(h, false);
  });
  flow_loops_.reviewed(in_use);
}

/// The loop has no flow any more. By the thread that has it.
ASYNCSTEPS_FUNCTION void pool_core::make_spare(worker* w, pool_loop& h) noexcept {
  h.is_spare = true;
  h.slot.level = priority::normal;
  if (w == nullptr || !w->spares.give(h)) flow_loops_.give(h);
}

// --- turns --------------------------------------------------------------------------------------------------------

/// While it lives, the calling thread is in a turn of a loop, whose word it has moved to `running`. At the end the loop
/// rests, with its alarm set, or is queued again.
class pool_core::loop_turn {
 public:
  loop_turn(pool_core& pool, worker* w, pool_loop& h) : has_{pool, w, h}, in_(h.driver), at_end_{has_, in_} {
    if (w == nullptr) return;
    participant::count(w->turns);
    const auto me = static_cast<std::uint32_t>(w->index + 1);
    if (const std::uint32_t before = std::exchange(h.ran_on, me); before != me && before != 0) {
      participant::count(w->moves);
      ASYNCSTEPS_TRACE_INSTANT(steal, "move", trace_id(&h));
    }
  }
  loop_turn(const loop_turn&) = delete;
  loop_turn& operator=(const loop_turn&) = delete;

  void run() {
    // relaxed: the word has published it
    const bool look = has_.loop.slot.is_due.load(std::memory_order_relaxed);
    if (look) has_.loop.slot.is_due.store(false, std::memory_order_relaxed);
    in_.run(look);
  }

 private:
  struct possession {
    pool_core& pool;
    worker* w;
    pool_loop& loop;
    bool has_work = false;
    ~possession() { pool.end_possession(loop, has_work); }
  };
  struct end_of_turn {
    possession& has;
    loop_driver::turn& in;
    ~end_of_turn() { has.has_work = has.pool.settle(has.w, has.loop, in); }
  };

  possession has_;
  loop_driver::turn in_;
  end_of_turn at_end_;
};

/// At the end of a turn: whether the loop has work left. If it has none, sets its alarm, or makes it spare.
ASYNCSTEPS_FUNCTION bool pool_core::settle(worker* w, pool_loop& h, loop_driver::turn& in) noexcept {
  end_if_left_behind();
  if (in.has_work()) return true;
  const pool_timers::time_point deadline = in.next_deadline();
  h.set_last_run(in.last_run());
  if (deadline < h.slot.at()) {
    timers_.arm(h.slot, deadline);
  } else if (deadline == pool_timers::never && h.is_for_flows && !h.is_spare && h.driver.vacate(loops_unhandled_)) {
    if (h.slot.at() != pool_timers::never) timers_.disarm(h.slot);
    make_spare(w, h);
  }
  return false;
}
/// Lets the loop rest, or queues it. By the thread that has it.
ASYNCSTEPS_FUNCTION void pool_core::end_possession(pool_loop& h, bool has_work) noexcept {
  if (!has_work && h.slot.word.end()) return;
  h.slot.word.requeue();
  enqueue(h.slot);
}

/// Runs a turn of a loop from a queue.
ASYNCSTEPS_FUNCTION void pool_core::run_loop(worker* w, pool_loop& h) noexcept {
  h.slot.word.begin();
  const std::int64_t before = w != nullptr ? w->own.position() : 0;
  const std::int64_t made_from = w != nullptr ? std::exchange(w->made_from, before) : 0;
  task_scope* const tag = shutdown_.is_closing() ? &posted_by_flow : &posted_task;
  task_scope* const outer_tag = w != nullptr ? std::exchange(w->post_tag, tag) : nullptr;
  try {
    const scope_guard none(nullptr);  // callbacks belong to no task
    loop_turn here(*this, w, h);
    here.run();
  } catch (...) {
    unhandled(std::current_exception());
    end_if_left_behind();
  }
  if (w != nullptr) {
    w->post_tag = outer_tag;
    // Jobs posted by callbacks lie above those of the current task, and are not its own.
    w->made_from = w->own.position() > before ? w->own.position() : min_of(made_from, w->own.position());
    if (w->is_polling) [[unlikely]]
      stop_polling(*w);  // a task that naps around the turn begins again
  }
  sleepers_.notify_event();  // a flow's future may be what a task waits for
}

/// Gives up the loop in hand, before the worker sleeps or ends, or when a late message has come.
ASYNCSTEPS_FUNCTION void pool_core::put_down(worker& w) noexcept {
  pool_loop* const h = std::exchange(w.in_hand, nullptr);
  if (h == nullptr) return;
  h->driver.unbias();
  make_spare(&w, *h);
  end_possession(*h, false);
}

// --- timers and sleep ---------------------------------------------------------------------------------------------

/// Schedules the loops whose timers are due, when it is time to look: as many as there is room for in `ready`, since
/// more would push older loops into the backlog, behind later ones. If there may be more, the worker first runs most of
/// those. Meanwhile timers wait in the order of their deadlines, for this worker or another. They wait for no others
/// where loops have priorities: one of high priority may be among them.
ASYNCSTEPS_FUNCTION void pool_core::fire_timers(worker& w) noexcept {
  const pool_timers::time_point first = timers_.next();
  if (first == pool_timers::never || !w.looks.is_due()) return;
  constexpr std::size_t few = 16;  // are not worth the lock
  const std::uint64_t left = w.ready.count_before(w.fired_until);
  const std::size_t room = run_queue<loop_slot>::capacity - std::size_t{w.ready.size()};
  const bool must_wait = left >= pool_timers::batch || (left != 0 && room < few);
  if (must_wait && priorities_.find() == nullptr) return;
  const std::size_t most = room < few ? pool_timers::batch : min_of(room, pool_timers::batch);
  const wait_clock::time_point now = wait_clock::now();
  w.looks.looked(now);
  if (now < first) return;
  end_if_left_behind();
  if (!fire_timers_now(now, most, &w)) return;
  w.fired_until = w.ready.end();
  w.looks.hurry();
}
/// The same as is_time_for_loops() while timers are armed.
[[gnu::noinline]] ASYNCSTEPS_FUNCTION bool pool_core::is_time_for_timers(worker& w) noexcept {
  if (w.looks.is_due()) return true;
  before_functions();
  return false;
}
/// Schedules up to `most` loops whose timers are due. `by`: the calling worker, or null. True: there may be more.
ASYNCSTEPS_FUNCTION bool pool_core::fire_timers_now(wait_clock::time_point now, std::size_t most,
                                                    const void* by) noexcept {
  return timers_.fire(now, most, by, [this](pool_timers::alarm& a) noexcept {
    auto& s = static_cast<loop_slot&>(a);
    s.is_due.store(true, std::memory_order_relaxed);  // relaxed: published by the word
    if (s.word.schedule()) enqueue(s);
  });
}

/// By a worker that is about to announce its sleep: it watches if others turn loops. From here on they wake nobody for
/// a single loop: else the last look would find such a loop, call the sleep off, and find the loop gone.
ASYNCSTEPS_FUNCTION void pool_core::begin_watch(worker& w) noexcept {
  if (!are_others_awake(1)) return;
  const std::uint64_t turns = crew_.turns();
  if (std::exchange(w.turns_seen, turns) != turns) w.watches = watch_.begin();
}

/// By a worker that has announced its sleep and found no work: brings `deadline` forward to the time at which it has to
/// look at timers and other workers' loops.
ASYNCSTEPS_FUNCTION void pool_core::limit_sleep(worker& w, wait_clock::time_point& deadline) noexcept {
  if (timers_.last_fired_by() == &w) timers_.forget_last();
  w.covers = timers_.cover(timers_.last_fired_by() != nullptr && are_others_awake(0));
  deadline = min_of(deadline, w.covers);
  if (w.watches) deadline = min_of(deadline, wait_clock::now() + loop_watch::interval);
}

/// By a worker that has been asleep, or that does not sleep after all. True: others may have relied on it. Then it
/// looks at loops and timers, or calls pass_on().
ASYNCSTEPS_FUNCTION bool pool_core::woke(worker& w) noexcept {
  const bool covered = w.covers != pool_timers::never;
  const bool watched = std::exchange(w.watches, false);
  timers_.uncover(std::exchange(w.covers, pool_timers::never));
  if (watched) watch_.end();
  w.looks.hurry();
  return covered || watched;
}

/// By a worker that runs functions instead of looking at loops and timers: another one does.
ASYNCSTEPS_FUNCTION void pool_core::pass_on() noexcept {
  if (has_loops() || timers_.is_uncovered()) sleepers_.notify(&loop_waits);
}

// --- the end ------------------------------------------------------------------------------------------------------

/// When all threads have ended: cancels the flows of all loops, runs the tasks that this posts, and closes
/// the loops.
ASYNCSTEPS_FUNCTION void pool_core::end_loops() noexcept {
  const auto each = [this](auto f) {
    crew_.for_each([&f](worker& w) { f(w.own_loop); });
    flow_loops_.for_each(f);
  };
  const auto close = [](pool_loop& h) {
    if (h.core().closing()) return;
    loop_driver::turn in(h.driver);
    in.begin_close();
  };
  each(close);
  end_if_left_behind();
  for (bool again = true; again;) {
    again = run_all();
    each([&again, close](pool_loop& h) {
      close(h);
      loop_driver::turn in(h.driver);
      again = in.drain() || again;
    });
    end_if_left_behind();
  }
  each([this](pool_loop& h) {
    loop_driver::turn in(h.driver);
    const std::size_t cancelled = in.take_cancelled_flows();
    if (shutdown_.discards()) count_dropped(cancelled);
  });
  flow_loops_.close();
  each([](pool_loop& h) { h.core().close(); });
  static_cast<void>(run_all());
}

}  // namespace async::inline v0_1::detail
