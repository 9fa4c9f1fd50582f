// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for uint8_t, uint32_t, uint64_t
#include <memory>       // for destroy_at
#include <mutex>        // for mutex
#include <new>          // for placement new
#include <thread>       // for thread
#include <type_traits>  // for conditional_t, decay_t, is_pointer_v, is_same_v
#include <utility>      // for exchange, forward, in_place_type

#include "async/detail/base/atomics.hpp"          // for atomic, wait_clock
#include "async/detail/base/backoff.hpp"          // for adaptive_spin
#include "async/detail/base/block_cache.hpp"      // for allocate_block
#include "async/detail/base/chrono.hpp"           // for microseconds, milliseconds
#include "async/detail/base/config.hpp"           // for ASYNCSTEPS_SHARED
#include "async/detail/base/forks.hpp"            // for forked::is_inside, end_forked_child
#include "async/detail/pool/job.hpp"              // for posted_job
#include "async/detail/pool/loop_slot.hpp"        // for loop_slot
#include "async/detail/pool/participant.hpp"      // for participant, job_deque
#include "async/detail/pool/pool_loop.hpp"        // for pool_loop
#include "async/detail/pool/priority_queues.hpp"  // for priority_order
#include "async/detail/pool/run_queue.hpp"        // for run_queue
#include "async/detail/pool/spare_loops.hpp"      // for spare_loops
#include "async/detail/pool/theft_habit.hpp"      // for theft_habit
#include "async/task.hpp"                         // for task

namespace async::inline v0_1::detail {

/// A job that holds a callable, in a recycled block.
template <class F>
struct boxed_task : posted_job {
  template <class... From>
  boxed_task(void (*run_it)(job*), From&&... from)
      : posted_job{{run_it}, &operations_of_box}, work(std::forward<From>(from)...) {}

  template <class... From>
  static boxed_task* make(void (*run_it)(job*), From&&... from) {
    void* const block = allocate_block(sizeof(boxed_task), alignof(boxed_task));
    try {
      return ::new (block) boxed_task(run_it, std::forward<From>(from)...);
    } catch (...) {
      detail::free_block(block, sizeof(boxed_task), alignof(boxed_task));
      throw;
    }
  }
  static void destroy(boxed_task* box) noexcept {
    std::destroy_at(box);
    detail::free_block(box, sizeof(boxed_task), alignof(boxed_task));
  }

  F work;

 private:
  static void discard(posted_job* j) noexcept { destroy(static_cast<boxed_task*>(j)); }
  static constexpr operations operations_of_box{&discard};
};
/// The type as which a pool holds a callable F. A pointer to a function may be null, which a task reports.
template <class F>
using held_callable =
    std::conditional_t<std::is_pointer_v<std::decay_t<F>> || std::is_member_pointer_v<std::decay_t<F>>, task,
                       std::decay_t<F>>;

/// A task of a Call that is made of `from`.
template <class Call, class... From>
task task_of(From&&... from) {
  if constexpr (std::is_same_v<Call, task>) {
    return task(std::forward<From>(from)...);
  } else {
    return task(std::in_place_type<Call>, std::forward<From>(from)...);
  }
}

/// Decides when a thread that runs tasks and loops looks at the clock: every 20 to 50 microseconds, counted in calls,
/// but at least once in 16 calls, since what runs next may take long; or at each call if what runs in between takes
/// longer. One thread's.
class clock_look {
 public:
  using time_point = wait_clock::time_point;

  /// Whether it is time to look.
  bool is_due() noexcept { return ++calls_ >= per_look_; }
  /// Makes the next call due.
  void hurry() noexcept { per_look_ = 1; }
  /// To be called with the time of a look.
  void looked(time_point now) noexcept {
    calls_ = 0;
    const auto since = now - std::exchange(last_, now);
    if (since > std::chrono::microseconds(50)) {
      per_look_ = per_look_ > 4 && since < std::chrono::milliseconds(1) ? per_look_ / 4 : 1;
    } else if (since < std::chrono::microseconds(20) && per_look_ < most) {
      per_look_ *= 2;
    }
  }

 private:
  static constexpr std::uint32_t most = 16;

  time_point last_{};
  std::uint32_t calls_ = 0;
  std::uint32_t per_look_ = 1;
};

/// A worker: its part in the pool, the loops that it is to turn, and its thread.
///
/// It outlives the thread, and gets another one when the pool grows again. So worker number `index` is always the same
/// object.
struct worker : participant {
  /// Throws std::bad_alloc.
  worker(pool_core& owner, std::size_t number, const pool_timers& timers, const loop_setting& setting)
      : participant(owner, number, this), own_loop(owner, own_slot, timers, *new lone_core(setting)) {}

  static constexpr std::uint8_t exit_request = 1;       // the crew asks the thread to end
  static constexpr std::uint8_t discard_request = 2;    // the pool discards its tasks
  static constexpr std::uint8_t priorities_in_use = 4;  // tasks of high or low priority may wait

  /// Own thread only: whether there is any request. Relaxed: a hint.
  bool has_requests() const noexcept { return requests.load(std::memory_order_relaxed) != 0; }
  /// Own thread only: whether the crew asks the thread to end.
  bool is_exit_requested() const noexcept {
    // relaxed: confirm_exit() asks again, under the mutex
    return (requests.load(std::memory_order_relaxed) & exit_request) != 0;
  }
  /// Own thread only: whether it may take another task without a look at other sources.
  bool may_go_on() const noexcept { return tasks_left != 0 && (turn + 1) % injector_share != 0; }
  /// Own thread only: takes its newest job, the usual case of tasks that post tasks. Null: there is none, or it is time
  /// to look at other sources.
  job_deque::element next_own() noexcept {
    if (!may_go_on()) return {};
    ++turn;
    return own.pop();
  }

  /// Own thread only: whether its next loop comes from the backlog, which has some: in every 61st turn; and when 50 us
  /// have passed since, but not twice in a row. What other threads call waits there, and a turn may take long.
  bool is_backlog_next() noexcept {
    const bool is_its_share = loop_turn % injector_share == 0;
    if (!is_its_share && !backlog_looks.is_due()) return false;
    const auto now = wait_clock::now();
    backlog_looks.looked(now);
    if (!is_its_share && (now - backlog_since < std::chrono::microseconds(50) || loop_turn - backlog_turn < 2)) {
      return false;
    }
    backlog_since = now;
    backlog_turn = loop_turn;
    return true;
  }

  std::uint32_t tasks_left = 0;          // own thread only: tasks that it may run before it looks at loops
  std::uint32_t loop_turn = 0;           // own thread only: counts takes of loops
  atomic<bool> trim_requested{false};    // set by any thread; the own thread trims its deque and clears it
  atomic<std::uint8_t> requests{0};      // written under the crew's mutex, read by the own thread
  wait_clock::time_point flows_since{};  // own thread only: see flow_watch
  atomic<bool> is_in_task{false};        // written by the own thread
  atomic<bool> runs_for_flow{false};     // likewise, while the pool stops: the task is a flow's
  adaptive_spin searches;                // own thread only
  theft_habit thefts;                    // own thread only
  priority_order order;                  // own thread only
  loop_slot own_slot;                    // of own_loop
  pool_loop own_loop;                    // what pool.loop(index) names; any worker runs it
  run_queue<loop_slot> ready;            // loops that have work; others take from it, too
  spare_loops spares;                    // own thread only
  pool_loop* in_hand = nullptr;          // own thread only: a spare loop that it has, for the flows that it starts next
  clock_look looks;                      // own thread only: when to compare the pool's timers with the clock
  clock_look backlog_looks;              // own thread only: when to compare `backlog_since` with the clock
  wait_clock::time_point backlog_since{};  // own thread only: when the backlog came first
  std::uint32_t backlog_turn = 0;          // own thread only: `loop_turn` then
  std::uint64_t fired_until = 0;           // own thread only: end of `ready` when it last left timers that were due
  atomic<std::uint64_t> turns{0};          // of loops; written by the own thread
  atomic<std::uint64_t> moves{0};          // likewise: of loops whose last turn another worker ran
  atomic<std::uint64_t> turns_at_look{0};  // `turns` when a worker last looked whether this one is stuck
  static constexpr std::uint64_t had_no_loops = ~std::uint64_t{0};
  atomic<std::uint64_t> turns_at_lookout{had_no_loops};  // `turns` when a lookout last looked
  std::uint64_t turns_seen = 0;                          // own thread only: turns of all workers at its last sleep
  bool watches = false;                                  // own thread only: see loop_watch
  pool_timers::time_point covers = pool_timers::never;   // own thread only: it sleeps no longer than that
  bool has_thread = false;  // guarded by the crew's mutex: there is a thread that has not confirmed its exit
  bool is_wanted = false;   // guarded by the crew's mutex: the thread is not asked to end
  bool blocks = false;      // guarded by the crew's mutex: the thread is in a blocking_section
  std::thread thread;       // guarded by the crew's mutex: the latest thread
  std::thread before;       // the thread before that: the latest one takes it when it begins, and joins it at its end
  std::mutex occupied;      // the thread that works has it, from before its start hook until after its stop hook; then
                            // a thread may have it that trims its deque
};

/// The worker whose thread this is; null: none.
ASYNCSTEPS_SHARED inline constinit thread_local worker* this_worker = nullptr;

/// The pool whose task this thread runs; null: none. Differs from this_worker's pool while a worker helps another pool.
ASYNCSTEPS_SHARED inline constinit thread_local pool_core* this_pool = nullptr;

/// To be called where a function of a task has returned, which may have called fork(): in the child this does not
/// return. The threads that wait for the task are gone, and new threads use their stacks. `this_pool` is null again in
/// a function that was called before the fork; not in tasks of a new pool that the same thread runs inside it.
[[gnu::always_inline]] inline void end_if_returned() noexcept {
  // relaxed: written while the child has one thread
  if (forked::is_inside.load(std::memory_order_relaxed)) [[unlikely]] {
    if (forked::is_this_thread && this_pool == nullptr) end_forked_child();
  }
}

/// The pool whose left-over tasks this thread runs after the pool's threads have ended; null: none.
ASYNCSTEPS_SHARED inline constinit thread_local pool_core* left_over_of = nullptr;

/// A pool around what this thread does, where neither its home nor its seats tell: between begin() and end().
class pool_around {
 public:
  void begin(std::uint64_t number) noexcept {
    number_ = number;
    outer_ = std::exchange(innermost_, this);
  }
  void end() noexcept { innermost_ = outer_; }
  static bool is_any(std::uint64_t number) noexcept {
    const pool_around* one = innermost_;
    while (one != nullptr && one->number_ != number) one = one->outer_;
    return one != nullptr;
  }

 private:
  ASYNCSTEPS_SHARED static inline constinit thread_local pool_around* innermost_ = nullptr;

  std::uint64_t number_;
  pool_around* outer_;
};
class scoped_pool_around : public pool_around {
 public:
  explicit scoped_pool_around(std::uint64_t number) noexcept { begin(number); }
  ~scoped_pool_around() { end(); }
  scoped_pool_around(const scoped_pool_around&) = delete;
  scoped_pool_around& operator=(const scoped_pool_around&) = delete;
};

}  // namespace async::inline v0_1::detail
