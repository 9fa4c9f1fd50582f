// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>    // for exception_ptr, current_exception, rethrow_exception
#include <type_traits>  // for is_void_v
#include <utility>      // for exchange, move

#include "async/detail/base/atomics.hpp"          // for atomic, wait_clock
#include "async/detail/base/naps.hpp"             // for sleep_in_naps
#include "async/detail/base/platform.hpp"         // for has_stack_room
#include "async/detail/base/reference_count.hpp"  // for reference_count
#include "async/detail/base/would_deadlock.hpp"   // for throw_would_deadlock
#include "async/detail/call/result_waits.hpp"     // for blocked_thread, pool_wake_up, is_in_callback
#include "async/detail/future/fulfil.hpp"         // for broken_promise
#include "async/detail/future/pending_call.hpp"   // for unseen_by_tsan
#include "async/detail/future/result_value.hpp"   // for result_value
#include "async/detail/future/result_word.hpp"    // for result_word, continuation, run_all
#include "async/detail/pool/job.hpp"              // for job
#include "async/detail/pool/pool_core.hpp"        // for pool_core, wait_scope
#include "async/detail/scope/scope_cache.hpp"     // for begin_scope, end_scope, scope_guard
#include "async/detail/wait/visit.hpp"            // for visit
#include "async/task.hpp"                         // for task

namespace async::detail {

/// The shared state of an async::future and the code that makes it ready: a promise, a call in a pool, or a
/// continuation. One recycled block holds it, the call and the value.
///
/// References  one of the maker, and one of each future. The last one frees the block.
/// Threads     any.
class result_state : public job {
 public:
  struct operations {
    /// Makes the call and stores its value or error. False: the result comes later. Null: there is no call.
    bool (*make)(result_state&);
    void (*drop)(result_state&) noexcept;          // destroys a call that will not be made
    void (*request_stop)(result_state&) noexcept;  // null: the call takes no std::stop_token
    void (*free)(result_state&) noexcept;
    bool is_continuation;  // a task that waits may make the call, which waits for what comes before it
  };
  explicit result_state(const operations& how, pool_core* pool = nullptr) noexcept
      : job{&come}, operations_(&how), pool_(pool) {}
  result_state(const result_state&) = delete;
  result_state& operator=(const result_state&) = delete;

  result_word word;
  std::exception_ptr error;  // the maker's until the result is ready

  bool is_ready() const noexcept { return word.is_ready(); }
  pool_core* pool() const noexcept { return pool_; }
  void add_reference() noexcept { references_.add(); }
  void release() noexcept {
    if (references_.is_last() || references_.drop()) operations_->free(*this);
  }

  /// Hands the call to the pool, with the maker's reference. Throws what pool_core::submit() throws: then the call was
  /// refused, and the promise is broken. The call may have been made, and the state freed, before this returns.
  void submit() { pool_->submit_job(this, queued(*this)); }

  /// The call with the maker's reference, for other threads. If the task is destroyed uncalled, the promise is broken.
  task as_task() { return task(queued(*this)); }

  /// As submit(), for an action: does not throw, and returns the actions to run if the pool refuses the call. The pool
  /// may end as soon as the call has been made.
  continuation* submit_or_break() noexcept {
    const pool_core::stay until_the_end(*pool_);
    refusal here{this, nullptr, refused_here};
    refused_here = &here;
    try {
      submit();
    } catch (...) {  // the promise is broken
    }
    refused_here = here.outer;
    return here.actions;
  }

  /// Returns when the result is ready. Throws in a callback of an event loop, if it is not.
  void wait() {
    if (is_ready()) return;
    if (is_in_callback()) {
      throw_would_deadlock("async::future: a wait in a callback of an event loop would stop the loop");
    }
    wait_anywhere();
  }
  /// The same, also in callbacks.
  void wait_anywhere() {
    if (is_ready()) return;
    pool_core* const here = this_pool;
    if (here == nullptr) {
      blocked_thread self;
      if (word.add(self)) self.wait();
    } else if (pool_ == here || (pool_ == nullptr && operations_->is_continuation)) {
      make_or_wait(*here);
    } else {
      const visit in(*here);
      sleep(*here, in.part(), wait_scope());
    }
  }
  /// Whether the result is ready. In a task, lets other threads go on while this one asks.
  bool poll() const noexcept {
    if (is_ready()) return true;
    if (this_pool != nullptr && current_loop == nullptr) this_pool->stand_in_for_poller();
    return false;
  }
  /// False: the time is up.
  bool wait_until(wait_clock::time_point deadline) {
    if (poll()) return true;
    blocked_thread self;
    if (!word.add(self) || sleep_until(self, deadline)) return true;
    if (word.remove(self)) return false;
    sleep_until(self, (wait_clock::time_point::max)());  // other actions run first
    return true;
  }

  /// Drops a call that has not begun: true. Else requests it to stop, if it can be requested.
  bool cancel() noexcept {
    if (operations_->drop == nullptr) return false;
    if (word.take()) {
      abandon();
      return true;
    }
    if (operations_->request_stop != nullptr) operations_->request_stop(*this);
    return false;
  }

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

  /// The caller has taken it: makes the call. Returns the actions to run.
  continuation* make_now() noexcept { return operations_->make(*this) ? word.publish() : nullptr; }

 protected:
  ~result_state() {
#if ASYNC_TSAN
    const unseen_by_tsan quiet;
    error = nullptr;
#endif
  }

 private:
  /// A submit_or_break() of this thread. Its actions are run by the caller, so that a chain of refused calls needs no
  /// recursion.
  struct refusal {
    const result_state* state;
    continuation* actions;
    refusal* outer;
  };
  static inline constinit thread_local refusal* refused_here = nullptr;

  /// In the pool's queue: refused if it is destroyed there.
  class queued {
   public:
    explicit queued(result_state& s) noexcept : state_(&s) {}
    queued(queued&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    queued& operator=(queued&&) = delete;
    ~queued() {
      if (state_ == nullptr) return;
      if (state_->word.take()) {
        if (refused_here != nullptr && refused_here->state == state_) {
          refused_here->actions = state_->broken();
        } else {
          state_->abandon();
        }
      }
      state_->release();
    }
    void let_go() noexcept { state_ = nullptr; }
    void operator()() { come(std::exchange(state_, nullptr)); }

   private:
    result_state* state_;
  };

  static void come(job* base) {
    const struct reference {
      result_state& state;
      ~reference() { state.release(); }
    } here{*static_cast<result_state*>(base)};
    if (here.state.word.take()) here.state.run();
  }

  /// Makes the call as a task of the pool.
  void run() {
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
    at_end.is_complete = operations_->make(*this);
  }

  [[gnu::noinline]] void abandon() noexcept { run_all(broken()); }
  /// The caller has taken it: drops the call. Returns the actions to run.
  continuation* broken() noexcept {
    operations_->drop(*this);
    return fail(broken_promise());
  }

  /// In a task: makes the call if no thread has taken it. Else waits, and meanwhile runs tasks that the call makes.
  void make_or_wait(pool_core& pool) {
    const visit here(pool);
    participant& part = here.part();
    if ((has_stack_room() || pool.size() == 0) && word.take()) {
      const work_in_wait others;
      const wait_in_turn allowed;
      pool.run_here(&part, [this] { run(); });
      if (part.own.pop_this(this)) release();  // else a thread will find it in a queue
      if (is_ready()) return;                  // else its call has returned a future
    }
    sleep(pool, part, wait_scope(*this));
  }
  /// False: the time is up. A thread of a pool lets the pool's other tasks and loops go on meanwhile.
  static bool sleep_until(blocked_thread& self, wait_clock::time_point deadline) noexcept {
    return sleep_in_naps(&deadline,
                         [&self](const wait_clock::time_point* until) noexcept { return self.wait_until(*until); });
  }
  void sleep(pool_core& pool, participant& part, wait_scope own) {
    const pool_wake_up alarm(pool, word);
    pool.wait_until(part, own, [&alarm]() noexcept { return alarm.is_due(); });
  }

  const operations* const operations_;
  pool_core* const pool_;  // where the call is made; null: by any thread
  reference_count references_{2};
  atomic<task_scope*> scope_{nullptr};
};

/// With room for the value.
template <class T>
class result : public result_state {
 public:
  using result_state::result_state;

  result_value<T> value;

  /// The caller has taken it: calls f(), which stores the value. What it throws becomes the error; then false.
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
};

}  // namespace async::detail
