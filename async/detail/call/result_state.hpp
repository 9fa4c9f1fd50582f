// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for int64_t, uint32_t
#include <exception>    // for exception_ptr, current_exception, rethrow_exception
#include <type_traits>  // for is_void_v
#include <utility>      // for exchange, move

#include "async/detail/base/atomics.hpp"           // for atomic, wait_clock
#include "async/detail/base/config.hpp"            // for ASYNCSTEPS_SHARED
#include "async/detail/base/held_back.hpp"         // for nothing_held_back
#include "async/detail/base/min_max.hpp"           // for min_of
#include "async/detail/base/naps.hpp"              // for sleep_in_naps
#include "async/detail/base/platform.hpp"          // for has_stack_room
#include "async/detail/base/reference_count.hpp"   // for reference_count
#include "async/detail/base/would_deadlock.hpp"    // for throw_would_deadlock, unknown_here
#include "async/detail/call/error_of_unmade.hpp"   // for error_of_unmade
#include "async/detail/call/result_waits.hpp"      // for blocked_thread, pool_wake_up, is_in_callback
#include "async/detail/future/broken_promise.hpp"  // for broken_promise, dropped_promise
#include "async/detail/future/ready_actions.hpp"   // for actions_of_thread, call_apart
#include "async/detail/future/result_value.hpp"    // for result_value
#include "async/detail/future/result_word.hpp"     // for result_word, continuation, run_all
#include "async/detail/future/unseen_by_tsan.hpp"  // for unseen_by_tsan
#include "async/detail/pool/dropping.hpp"          // for dropping
#include "async/detail/pool/foreign_pools.hpp"     // for pools_of_others
#include "async/detail/pool/job.hpp"               // for job, posted_job
#include "async/detail/pool/left_behind.hpp"       // for is_left_behind
#include "async/detail/pool/left_in_wait.hpp"      // for left_in_wait
#include "async/detail/pool/pool_core.hpp"         // for pool_core, wait_scope
#include "async/detail/pool/pool_worker.hpp"       // for end_if_returned
#include "async/detail/scope/scope_cache.hpp"      // for begin_scope, end_scope, scope_guard
#include "async/detail/wait/visit.hpp"             // for visit
#include "async/priority.hpp"                      // for priority
#include "async/task.hpp"                          // for task

namespace async::inline v0_1::detail {

/// The shared state of an async::future and the code that makes it ready: a promise, a call in a pool, or a
/// continuation. One recycled block holds it, the call and the value.
///
/// References  one of the maker, and one of each future. The last one frees the block. A maker with a count of its own
///             has none: it learns by free() that no future is left.
/// Threads     any.
class result_state : public posted_job {
 public:
  struct operations : posted_job::operations {
    constexpr operations(bool (*make_call)(result_state&), void (*drop_call)(result_state&) noexcept,
                         void (*stop_call)(result_state&) noexcept, void (*free_state)(result_state&) noexcept,
                         result_state* (*find_source)(result_state&) noexcept = nullptr) noexcept
        : posted_job::operations{&discard_job},
          make(make_call),
          drop(drop_call),
          request_stop(stop_call),
          free(free_state),
          source(find_source) {}

    /// Makes the call and stores its value or error. False: the result comes later. Null: there is no call.
    bool (*make)(result_state&);
    void (*drop)(result_state&) noexcept;          // destroys a call that will not be made
    void (*request_stop)(result_state&) noexcept;  // null: the call takes no std::stop_token
    void (*free)(result_state&) noexcept;          // with the last reference
    /// What must be ready before the call is made, with a reference for the caller; null: the call has begun, or is
    /// dropped. Null in place of the function: the call can be made at any time.
    result_state* (*source)(result_state&) noexcept;
  };
  explicit result_state(const operations& its, pool_core* pool = nullptr, std::uint32_t references = 2) noexcept
      : posted_job{{&come}, &its}, pool_(pool), references_(references) {}
  result_state(const result_state&) = delete;
  result_state& operator=(const result_state&) = delete;

  result_word word;
  std::exception_ptr error;  // the maker's until the result is ready

  bool is_ready() const noexcept { return word.is_ready(); }
  /// is_ready() of a thread that is about to wait: runs the actions that it has put off.
  bool is_ready_at_wait() const noexcept { return is_ready() || (actions_of_thread.before_wait() && is_ready()); }
  pool_core* pool() const noexcept { return pool_; }
  /// In a child of fork(): the parent makes the call.
  bool is_left_behind() const noexcept { return detail::is_left_behind(pool_); }
  void add_reference() noexcept { references_.add(); }
  void release() noexcept {
    if (references_.is_last() || references_.drop()) of_call().free(*this);
  }

  /// Hands the call to the pool, with the maker's reference. Throws what pool_core::submit() throws: then the call was
  /// refused, and the promise is broken. The call may have been made, and the state freed, before this returns.
  void submit() { pool_->submit_job(this, queued(*this)); }
  void submit_with(priority wanted) { wanted == priority::normal ? submit() : pool_->submit_with(wanted, as_task()); }

  /// The call with the maker's reference, for other threads. If the task is destroyed uncalled, the promise is broken.
  task as_task() { return task(queued(*this)); }

  /// As submit(), for an action: does not throw, and returns the actions to run if the pool refuses the call. The pool
  /// may end as soon as the call has been made. has_come() is called when the pool's end waits for this thread.
  template <class Come>
  continuation* submit_or_break(Come has_come) noexcept {
    const pool_core::stay until_the_end(*pool_);
    has_come();
    return break_if_refused([this] { submit(); });
  }
  /// Calls submit(), which destroys the task if it refuses the call, and may throw then. Returns the actions to run.
  template <class Submit>
  continuation* break_if_refused(Submit submit) noexcept {
    refusal here{this, false, refused_here};
    refused_here = &here;
    std::exception_ptr why;
    try {
      submit();
      if (here.is_refused) why = dropped_promise(dropped_call::reason::stopped);
    } catch (const stopped&) {
      why = dropped_promise(dropped_call::reason::stopped);
    } catch (const queue_full&) {
      why = dropped_promise(dropped_call::reason::queue_full);
    } catch (...) {
      why = broken_promise();
    }
    refused_here = here.outer;
    if (!here.is_refused) return nullptr;
    {
      const nothing_held_back in_destructors;
      of_call().drop(*this);
    }
    continuation* const actions = fail(std::move(why));
    release();
    return actions;
  }

  /// Returns when the result is ready. Throws in a callback of an event loop, if it is not, and in a task of the pool
  /// of which only another module knows.
  void wait() {
    if (!is_ready()) wait_outside_callbacks();
  }
  /// The same, also in callbacks. Throws stopped_by_fork in a child of fork(), where the parent makes the call.
  void wait_anywhere();
  /// Whether the result is ready. In a task, lets other threads go on while this one asks.
  bool poll() const noexcept;
  /// False: the time is up.
  bool wait_until(wait_clock::time_point deadline);

  /// Drops a call that has not begun: true. Else requests it to stop, if it can be requested.
  bool cancel() noexcept;

  /// The scope of the tasks that the call makes; null: it does not run.
  const task_scope* scope() const noexcept {
    return scope_.load(std::memory_order_acquire);  // [K8] acquire, pairs with [K9]; not modelled: as [C5]
  }

  /// The caller has taken the result, and has stored an error or a value. Returns the actions to run.
  continuation* publish() noexcept { return word.publish(); }
  /// The same for an error.
  continuation* fail(std::exception_ptr&& with) noexcept {
    error = std::move(with);
    return word.publish();
  }

  /// The caller has taken it: makes the call, which does not belong to the groups of the current task. Returns the
  /// actions to run.
  continuation* make_now() noexcept {
    const scope_setting outside_groups(nullptr);
    return of_call().make(*this) ? word.publish() : nullptr;
  }

 protected:
  ~result_state() {
#if ASYNCSTEPS_TSAN
    const unseen_by_tsan quiet;
    error = nullptr;
#endif
  }

 private:
  const operations& of_call() const noexcept { return static_cast<const operations&>(*how); }

  /// A submit_or_break() of this thread. Its actions are run by the caller, so that a chain of refused calls needs no
  /// recursion.
  struct refusal {
    const result_state* state;
    bool is_refused;  // the caller has taken the result, and has the maker's reference
    refusal* outer;
  };
  ASYNCSTEPS_SHARED static inline constinit thread_local refusal* refused_here = nullptr;

  /// In the pool's queue: refused if it is destroyed there.
  class queued {
   public:
    explicit queued(result_state& s) noexcept : state_(&s) {}
    queued(queued&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    queued& operator=(queued&&) = delete;
    ~queued() {
      if (state_ != nullptr) [[unlikely]]
        refuse();
    }
    void dismiss() noexcept { state_ = nullptr; }
    void operator()() { come(std::exchange(state_, nullptr)); }

   private:
    void refuse() noexcept;

    result_state* state_;
  };

  static void discard_job(posted_job* base) noexcept { static_cast<result_state*>(base)->give_up(); }
  /// The call is destroyed unmade, with the maker's reference.
  void give_up() noexcept;

  static void come(job* base);

  /// Makes the call as a task of the pool.
  void run();

  /// The caller has taken it: drops the call.
  void abandon(std::exception_ptr why) noexcept;

  void wait_outside_callbacks();
  /// In a task: makes the call if no thread has taken it, or drops it if the pool discards its tasks. Else waits until
  /// this result is ready, or `other` is, and meanwhile runs tasks that the call makes.
  void make_or_wait(pool_core& pool, result_state& other);
  void drop_in_wait() noexcept;
  class chain;
  /// In a task, for a continuation: as make_or_wait() for what must be ready before, one after the other.
  void wait_for_sources(pool_core& pool);
  /// False: the time is up. A thread of a pool lets the pool's other tasks and loops go on meanwhile.
  static bool sleep_until(blocked_thread& self, wait_clock::time_point deadline) noexcept;
  /// A continuation without a pool, whose source is ready: for the threads of `pool`, since this one's stack is full.
  void let_others_make(pool_core& pool) noexcept;
  void sleep(pool_core& pool, participant& part, wait_scope own);
  /// Until this result is ready, or `other` is.
  void sleep_for_one_of(pool_core& pool, participant& part, result_state& other, wait_scope own);

  /// Throws where the thread runs a task of the call's pool, of which only the module knows that has made the pool.
  void refuse_if_unknown_here() const;

  pool_core* const pool_;  // where the call is made; null: by any thread
  atomic<task_scope*> scope_{nullptr};
  reference_count references_;  // last: a small value lies behind it, in the same cache line
};

/// With room for the value.
template <class T>
class result : public result_state {
 public:
  using result_state::result_state;

  result_value<T> value;

  /// The caller has taken it: calls f(), which stores the value. False: f() has thrown, which becomes the error.
  template <class F>
  bool guard(F&& f) {
    std::exception_ptr thrown;
    try {
      f();
      return true;
    } catch (...) {
      thrown = std::current_exception();
      if (thrown == nullptr) {  // pthread_exit()
        error = broken_promise();
        throw;
      }
    }
    error = std::move(thrown);  // after the catch block, which holds a reference of its own
    return false;
  }
  /// The same: stores what f() returns.
  template <class F>
  void keep(F&& f) {
    guard([this, &f] {
      if constexpr (std::is_void_v<T>) {
        static_cast<void>(f());
        value.set();
      } else {
        value.set(f());
      }
    });
  }

  /// Moves the value out, or throws the error. For the only future of the result.
  T take() {
    if (error != nullptr) std::rethrow_exception(error);
    return value.take();
  }
  /// The value, for one of several futures.
  decltype(auto) get() const {
    if (error != nullptr) std::rethrow_exception(error);
    return value.get();
  }

 protected:
  ~result() = default;
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION void result_state::wait_outside_callbacks() {
  if (is_in_callback()) {
    throw_would_deadlock("async::future: a wait in a callback of an event loop would stop the loop");
  }
  if (pool_ != nullptr && this_pool == nullptr) refuse_if_unknown_here();
  wait_anywhere();
}

ASYNCSTEPS_FUNCTION void result_state::refuse_if_unknown_here() const {
  if (pools_of_others.value.is_inside(pool_)) throw_would_deadlock(unknown_here);
}

ASYNCSTEPS_FUNCTION void result_state::wait_anywhere() {
  if (is_ready_at_wait()) return;
  if (is_left_behind()) [[unlikely]]
    throw stopped_by_fork();
  pool_core* const here = this_pool;
  if (here == nullptr) {
    blocked_thread self;
    if (word.add(self)) self.wait();
  } else if (of_call().source != nullptr && (pool_ == here || pool_ == nullptr)) {
    wait_for_sources(*here);
  } else if (pool_ == here) {
    make_or_wait(*here, *this);
  } else {
    const visit in(*here);
    sleep(*here, in.part(), wait_scope::with_wake_up());
  }
}

ASYNCSTEPS_FUNCTION bool result_state::poll() const noexcept {
  if (is_ready_at_wait()) return true;
  pool_core::make_way_for_polled();
  return false;
}

ASYNCSTEPS_FUNCTION bool result_state::wait_until(wait_clock::time_point deadline) {
  if (poll()) return true;
  blocked_thread self;
  if (!word.add(self) || sleep_until(self, deadline)) return true;
  if (word.remove(self)) return false;
  sleep_until(self, (wait_clock::time_point::max)());  // other actions run first
  return true;
}

ASYNCSTEPS_FUNCTION bool result_state::cancel() noexcept {
  if (of_call().drop == nullptr) return false;
  add_reference();  // what it drops, or requests to stop, may own the caller's future
  const struct end {
    result_state& state;
    ~end() { state.release(); }
  } at_end{*this};
  if (word.take()) {
    abandon(dropped_promise(dropped_call::reason::cancelled));
    return true;
  }
  if (of_call().request_stop != nullptr) of_call().request_stop(*this);
  return false;
}

[[gnu::noinline, gnu::cold]] ASYNCSTEPS_FUNCTION void result_state::queued::refuse() noexcept {
  if (refused_here == nullptr || refused_here->state != state_) {
    state_->give_up();
  } else if (state_->word.take()) {
    refused_here->is_refused = true;
  } else {
    state_->release();
    dropping::note(false);
  }
}

ASYNCSTEPS_FUNCTION void result_state::give_up() noexcept {
  const bool is_live = word.take();
  if (is_live) abandon(error_of_unmade());
  release();
  dropping::note(is_live);
}

ASYNCSTEPS_FUNCTION void result_state::come(job* base) {
  const struct reference {
    result_state& state;
    ~reference() { state.release(); }
  } here{*static_cast<result_state*>(base)};
  if (here.state.word.take()) here.state.run();
}

ASYNCSTEPS_FUNCTION void result_state::run() {
  struct end {
    result_state& state;
    bool is_complete = true;  // also if pthread_exit() ends the thread
    ~end() {
      if (task_scope* const s = state.scope_.load(std::memory_order_relaxed)) {  // relaxed: own
        // relaxed: a task of the construct that uses the scope next brings this with it
        state.scope_.store(nullptr, std::memory_order_relaxed);
        end_scope(*s);
      }
      if (is_complete) run_all(state.word.publish());
    }
  } at_end{*this};
  task_scope* own = nullptr;
  try {
    own = &begin_scope(nullptr);
    scope_.store(own, std::memory_order_release);  // [K9] release, pairs with [K8]; not modelled: as [C4]
  } catch (...) {                                  // then waiting threads do not help
  }
  const scope_guard inside(own);
  at_end.is_complete = of_call().make(*this);
  end_if_returned();
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void result_state::abandon(std::exception_ptr why) noexcept {
  of_call().drop(*this);
  run_all(fail(std::move(why)));
}

/// The results of a chain of continuations that are not ready: the first ones in time; all of them, unless memory is
/// refused. The one on top does not wait for another.
class result_state::chain {
 public:
  explicit chain(result_state& last) noexcept {
    last.add_reference();
    for (result_state* next = &last; next != nullptr; next = unready_source(*next)) push(*next);
  }
  ~chain() {
    while (count_ != 0) pop();
    delete[] many_;
  }
  chain(const chain&) = delete;
  chain& operator=(const chain&) = delete;

  /// Drops what is ready, and what came before it. Looks at as many as a long chain allows: a later one that is ready
  /// has been cancelled.
  void pop_ready() noexcept {
    std::size_t ready = min_of(count_, few);  // how many to drop
    while (ready != 0 && !from_top(ready - 1)->is_ready()) --ready;
    for (; ready != 0; --ready) pop();
  }
  result_state* top() const noexcept { return count_ == 0 ? nullptr : from_top(0); }

 private:
  static result_state* unready_source(result_state& of) noexcept {
    result_state* const source = of.of_call().source != nullptr ? of.of_call().source(of) : nullptr;
    if (source == nullptr || !source->is_ready()) return source;
    source->release();
    return nullptr;
  }
  result_state*& from_top(std::size_t n) const noexcept { return ring_[(end_ - 1 - n) % capacity_]; }

  void push(result_state& next) noexcept {
    if (count_ == capacity_) grow();
    ++end_;
    if (count_ == capacity_) {
      from_top(0)->release();
    } else {
      ++count_;
    }
    from_top(0) = &next;
  }
  void grow() noexcept {
    result_state** more = nullptr;
    try {
      more = new result_state*[2 * capacity_];
    } catch (...) {
      return;  // the last one in time makes room
    }
    for (std::size_t n = count_; n != 0; --n) more[count_ - n] = from_top(n - 1);
    delete[] std::exchange(many_, more);
    ring_ = more;
    capacity_ *= 2;
    end_ = count_;
  }
  void pop() noexcept {
    result_state* const out = top();
    --end_;
    --count_;
    out->release();
  }

  static constexpr std::size_t few = 64;

  result_state* few_[few];
  result_state** many_ = nullptr;  // owned
  result_state** ring_ = few_;
  std::size_t capacity_ = few;
  std::size_t count_ = 0;
  std::size_t end_ = 0;
};

ASYNCSTEPS_FUNCTION void result_state::wait_for_sources(pool_core& pool) {
  while (!is_ready()) {
    chain unready(*this);
    for (result_state* next = unready.top(); next != nullptr && !is_ready(); next = unready.top()) {
      if (next->is_left_behind()) throw stopped_by_fork();
      next->make_or_wait(pool, *this);
      unready.pop_ready();
    }
  }
}

ASYNCSTEPS_FUNCTION void result_state::make_or_wait(pool_core& pool, result_state& other) {
  const visit here(pool);
  participant& part = here.part();
  const bool may_make = pool_ == &pool || (pool_ == nullptr && of_call().source != nullptr);
  if (may_make && (has_stack_room() || pool.size() == 0) && word.take()) {
    const own_exceptions others;
    const wait_in_turn allowed;
    const std::int64_t before = part.own.position();
    if (pool_ != nullptr && pool.discards_in_waits()) [[unlikely]] {
      drop_in_wait();
    } else {
      pool.run_here(&part, [this] { call_apart([this] { run(); }); });
    }
    if (part.own.pop_this(this)) release();  // else a thread will find it in a queue
    left_in_wait::note(part, before);
    if (is_ready()) return;  // else its call has returned a future
  }
  if (may_make && pool_ == nullptr && !has_stack_room()) let_others_make(pool);
  sleep_for_one_of(pool, part, other, may_make ? wait_scope(*this) : wait_scope::with_wake_up());
}

[[gnu::noinline, gnu::cold]] ASYNCSTEPS_FUNCTION void result_state::drop_in_wait() noexcept {
  const scope_setting outside_groups(nullptr);
  call_apart([this] { abandon(dropped_promise(dropped_call::reason::stopped)); });
  pool_->note_skipped();
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void result_state::let_others_make(pool_core& pool) noexcept {
  add_reference();
  try {
    pool.submit_job(this, queued(*this));
  } catch (...) {  // no memory: the promise is broken
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void result_state::sleep_for_one_of(pool_core& pool, participant& part,
                                                                          result_state& other, wait_scope own) {
  if (&other == this) return sleep(pool, part, own);
  pool_wake_up<pool_core, participant> alarm(pool, part, word), other_alarm(pool, part, other.word);
  pool.wait_until(part, own, [&]() noexcept { return alarm.is_due() || other_alarm.is_due(); });
  for (auto* each : {&alarm, &other_alarm}) {  // actions before it may need the pool, and this thread
    if (!each->leave()) pool.wait_until(part, own, [each]() noexcept { return each->is_due(); });
  }
}

ASYNCSTEPS_FUNCTION bool result_state::sleep_until(blocked_thread& self, wait_clock::time_point deadline) noexcept {
  return sleep_in_naps(&deadline,
                       [&self](const wait_clock::time_point* until) noexcept { return self.wait_until(*until); });
}

ASYNCSTEPS_FUNCTION void result_state::sleep(pool_core& pool, participant& part, wait_scope own) {
  const pool_wake_up<pool_core, participant> alarm(pool, part, word);
  pool.wait_until(part, own, [&alarm]() noexcept { return alarm.is_due(); });
}
#endif

}  // namespace async::inline v0_1::detail
