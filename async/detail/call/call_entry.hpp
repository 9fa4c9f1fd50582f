// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>    // for int64_t
#include <exception>  // for exception_ptr
#include <new>        // for bad_alloc
#include <utility>    // for exchange

#include "async/detail/base/naps.hpp"              // for wait_without_memory
#include "async/detail/call/call_stage.hpp"        // for call_stage
#include "async/detail/future/broken_promise.hpp"  // for broken_promise
#include "async/detail/future/ready_actions.hpp"   // for call_apart
#include "async/detail/pool/dropping.hpp"          // for dropping
#include "async/detail/pool/job.hpp"               // for job, posted_job
#include "async/detail/pool/left_behind.hpp"       // for is_left_behind
#include "async/detail/pool/left_in_wait.hpp"      // for left_in_wait
#include "async/detail/pool/pool_core.hpp"         // for pool_core, wait_scope
#include "async/detail/pool/wait_in_turn.hpp"      // for wait_in_turn
#include "async/detail/scope/scope_cache.hpp"      // for begin_scope, end_scope, scope_guard
#include "async/detail/wait/pool_functions.hpp"    // for wait_until
#include "async/detail/wait/pool_watch.hpp"        // for pool_watch
#include "async/detail/wait/visit.hpp"             // for visit

namespace async::inline v0_1::detail {

/// A call with a future, as the pool sees it. It waits in a queue or deque until a thread of the pool makes it, or a
/// task that waits for its result. The first thread to take it makes it, once.
///
/// It lies in front of the future's shared state, in the same block. The block is freed when the shared state is gone
/// and the pool has removed the entry from its queue.
///
/// Threads     any.
class call_entry : public posted_job {
 public:
  struct operations : posted_job::operations {
    constexpr operations(void (*make_call)(call_entry&),
                         void (*refuse_call)(call_entry&, std::exception_ptr) noexcept) noexcept
        : posted_job::operations{&discard_job}, make(make_call), refuse(refuse_call) {}

    void (*make)(call_entry&);                                 // makes the call, then the future ready
    void (*refuse)(call_entry&, std::exception_ptr) noexcept;  // makes the future ready with an error
  };
  /// `free`: frees the block that the entry lies in.
  explicit call_entry(void (*free)(call_entry&) noexcept) noexcept : posted_job{{&come}, nullptr}, free_(free) {}
  call_entry(const call_entry&) = delete;
  call_entry& operator=(const call_entry&) = delete;

  /// Hands it in, with a reference for the pool. Throws what pool_core::submit() throws: then the call was refused, and
  /// the future is broken.
  void submit(pool_core& pool, const operations& its) {
    hand_in(&pool, its);
    pool.submit_job(this, queued(*this));
  }

  /// The same for a call of another maker, who calls run() once. `pool` null: none.
  void hand_in(pool_core* pool, const operations& its) noexcept {
    pool_ = pool;
    how = &its;
    stage_.hand_in();
  }

  void* state = nullptr;  // the future's shared state, of the type that the operations know

  bool is_done() const noexcept { return stage_.is_done(); }

  /// In a child of fork(): the parent makes the call, and no thread of the child ever makes the future ready.
  bool is_left_behind() const noexcept { return detail::is_left_behind(pool_); }

  /// True when the calling thread runs a task of the pool: then it helps instead of blocking.
  bool is_inside() const noexcept { return pool_ != nullptr && pool_->is_inside(); }

  /// Inside a task of the pool: makes the call if no thread has taken it. Else waits until it is done, and meanwhile
  /// runs the tasks that it creates.
  void wait_inside() {
    if (is_done()) return;
    try {
      const visit here(*pool_);
      return make_or_wait(here.part());
    } catch (const std::bad_alloc&) {  // no memory for this thread's place in the pool
    }
    if (stage_.take()) return make_here(nullptr);
    wait_without_memory([this] { return is_done(); });
  }
  /// In a task of another pool: waits until ready() as that pool's threads wait. `future_state`: see shared_state_of().
  /// Without memory for that it looks now and then: the future's destructor may be waiting.
  template <class Ready>
  static void wait_elsewhere(const void* future_state, Ready ready) {
    pool_core& pool = *this_pool;
    try {
      const visit here(pool);
      const pool_watch watcher(pool, here.part(), future_state);
      pool.wait_until(here.part(), wait_scope::with_wake_up(), ready);
    } catch (const std::bad_alloc&) {
      wait_without_memory(ready);
    }
  }
  /// In a task of any pool.
  static bool is_in_task() noexcept { return this_pool != nullptr; }

  /// A task of any pool polls, or sleeps up to a limit without naps: makes sure that its pool can go on meanwhile.
  void poll_inside() const noexcept {
    if (!stage_.is_done()) pool_core::make_way_for_polled(pool_core::way::for_all);
  }

  /// Drops a reference. The last one frees the block.
  void release() noexcept {
    if (stage_.release()) free_(*this);
  }

 private:
  /// In the pool's queue: refused if it is destroyed there.
  class queued {
   public:
    explicit queued(call_entry& e) noexcept : entry_(&e) {}
    queued(queued&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
    queued& operator=(queued&&) = delete;
    ~queued() {
      if (entry_ != nullptr) entry_->give_up();
    }
    void dismiss() noexcept { entry_ = nullptr; }
    void operator()() {
      job* const j = std::exchange(entry_, nullptr);
      j->run(j);
    }

   private:
    call_entry* entry_;
  };

  const operations& of_call() const noexcept { return static_cast<const operations&>(*how); }

  static void discard_job(posted_job* base) noexcept { static_cast<call_entry*>(base)->give_up(); }
  /// The call is destroyed unmade, with the pool's reference.
  void give_up() noexcept {
    const bool is_live = stage_.take();
    if (is_live) abandon();
    release();
    dropping::note(is_live);
  }

  static void come(job* base) {
    const struct reference {
      call_entry* entry;
      ~reference() { entry->release(); }
    } here{static_cast<call_entry*>(base)};
    if (here.entry->stage_.take()) here.entry->make();
  }

  [[gnu::always_inline]] void make_or_wait(participant& part) {
    pool_core& pool = *pool_;
    if ((has_stack_room() || pool.size() == 0) && stage_.take()) {
      const std::int64_t before = part.own.position();
      make_here(&part);
      if (part.own.pop_this(this)) release();  // else a thread will find it in a queue
      left_in_wait::note(part, before);
    } else {
      pool.wait_until(part, wait_scope(stage_), [this] { return is_done(); });
    }
  }
  /// The caller has taken it: makes the call, or drops it if the pool discards its tasks.
  [[gnu::always_inline]] void make_here(participant* part) {
    const own_exceptions others;
    const wait_in_turn allowed;
    if (pool_->discards_in_waits()) [[unlikely]]
      return drop_here();
    pool_->run_here(part, [this] { call_apart([this] { make(); }); });
  }
  [[gnu::noinline, gnu::cold]] void drop_here() noexcept {
    const scope_setting outside_groups(nullptr);
    call_apart([this] { abandon(); });
    pool_->note_skipped();
  }
  void make() {
    const struct end {
      call_entry& entry;
      ~end() {
        if (task_scope* const s = entry.stage_.end()) end_scope(*s);
        entry.stage_.finish();
      }
    } at_end{*this};
    try {
      stage_.begin(begin_scope(nullptr));
    } catch (...) {  // then waiting threads do not help
    }
    const scope_guard inside(stage_.scope());
    of_call().make(*this);
  }
  void abandon() noexcept {
    of_call().refuse(*this, broken_promise());
    pool_core& pool = *pool_;
    stage_.finish();
    pool.notify_waiters();
  }

  call_stage<task_scope> stage_;
  pool_core* pool_ = nullptr;  // null: not handed in
  void (*const free_)(call_entry&) noexcept;
};

}  // namespace async::inline v0_1::detail
