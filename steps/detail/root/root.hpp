// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>    // for uint32_t
#include <exception>  // for exception_ptr
#include <utility>    // for exchange, move

#include "async/detail/base/backoff.hpp"             // for backoff
#include "async/detail/base/config.hpp"              // for ASYNCSTEPS_SHARED
#include "async/detail/base/forks.hpp"               // for forks
#include "async/detail/loop/loop_entry.hpp"          // for loop_entry
#include "async/detail/pool/dropping.hpp"            // for dropping
#include "async/detail/pool/flow_place.hpp"          // for place_for_flow
#include "async/detail/pool/left_behind.hpp"         // for is_left_behind
#include "async/detail/trace/trace_points.hpp"       // for ASYNCSTEPS_TRACE_INSTANT
#include "async/detail/wait/pool_functions.hpp"      // for pool_core
#include "async/errors.hpp"                          // for stopped, stopped_by_fork
#include "async/priority.hpp"                        // for priority
#include "steps/detail/root/end_message.hpp"         // for deliver_urgent_messages
#include "steps/detail/root/flow_control_block.hpp"  // for on_loop_of, start_of
#include "steps/detail/root/remains.hpp"             // for begin_anew

/// Root flows: execute, cancel, the end of the execution, and unhandled errors.
namespace steps::inline v0_1::detail {

using async::detail::loop_entry;

/// Hands the error of a root flow to the hook of its State. False: it has none.
bool tell_hook(flow& f);

/// Ends a root flow's execution that has failed or has a promise.
void end_root_rare(flow& f, bool failed);

/// Ends a root flow's execution. An error goes to the promise, else to the hook of State, else to the loop's.
inline void end_root(flow& f) {
  const bool failed = f.is_failing();
  if (!failed && f.promise == nullptr) [[likely]]
    return end_execution(f);
  end_root_rare(f, failed);
}

/// Ends an execution for lack of memory for a place in the ready queue.
void begin_without_memory(flow& f);

/// A flow whose steps this thread is destroying before the start. The destructors of captured objects may destroy it.
struct unstarted_end {
  const flow* what;
  const unstarted_end* outer;  // its steps' destructors have led to this one
};
ASYNCSTEPS_SHARED inline constinit thread_local const unstarted_end* unstarted_ends = nullptr;

/// Ends the execution of a flow that belongs to the caller and has not started.
void end_unstarted(flow& f) noexcept;
inline bool is_ending_here(const flow& f) noexcept {
  const unstarted_end* end = unstarted_ends;
  while (end != nullptr && end->what != &f) end = end->outer;
  return end != nullptr;
}

/// The message of an execute() on another thread has arrived at the loop.
void begin(async::detail::message& m, async::detail::delivery how);

/// Starts an execution in a turn of the flow's loop, and runs the flow's first turn at once.
void start_here(flow& f);

/// The task that starts a flow on a pool. The worker that runs it binds the flow to a loop for good.
class start_task {
 public:
  explicit start_task(flow& f) : pool_(*f.pool), control_(&share_control_block(f)), level_(f.level) {
    control_->start.prepare();
  }
  start_task(start_task&& other) noexcept
      : pool_(other.pool_),
        control_(std::exchange(other.control_, nullptr)),
        number_(other.number_),
        level_(other.level_) {}
  start_task& operator=(start_task&&) = delete;
  ~start_task() {
    if (control_ != nullptr && async::detail::dropping::is_of(&pool_)) async::detail::dropping::note(cancel());
    drop_reference();
  }

  /// Other threads see the flow execute.
  void queue() noexcept { number_ = control_->start.queue(); }
  void operator()() {
    auto place = pool_.place_for_flow();
    if (level_ != async::priority::normal) [[unlikely]]
      place.rank(level_);
    async::detail::loop_core& core = place.core();
    if (place.here) {
      place.visit([this, &core] {  // before the flow can be reached there
        if (flow* const f = take(core)) {
          bind();
          start_here(*f);
        }
      });
    } else if (flow* const f = take(core)) {
      const bool sent = place.send(*f);
      bind();
      if (!sent) begin(*f, async::detail::delivery::dropped);
    }
  }

 private:
  /// The pool drops the task: cancels the flow. False: another thread has.
  bool cancel() noexcept {
    if (!control_->start.take(number_)) return false;
    flow& f = *control_->target();
    control_->start.cancel();  // first, since destructors of steps may cancel the flow, too
    note_loop_end(f);
    end_unstarted(f);
    return true;
  }
  flow* take(async::detail::loop_core& core) noexcept {
    if (!control_->start.take(number_)) return nullptr;
    flow* const f = control_->target();
    f->core = control_->home = &core;
    core.add_tenant();
    return f;
  }
  void bind() noexcept {
    control_->start.bind();
    drop_reference();
  }
  void drop_reference() noexcept {
    if (flow_control_block* const r = std::exchange(control_, nullptr)) release_control_block(*r);
  }

  async::detail::pool_core& pool_;
  flow_control_block* control_;
  std::uint32_t number_ = 0;
  const async::priority level_;
};

/// For the flow's owner, when another thread cancels the flow before its start: waits until that has happened.
inline void wait_for_cancel(const flow& f) noexcept {
  for (async::detail::backoff pause; f.is_known_to_execute(); pause.wait()) deliver_urgent_messages();
}

void queue_start(flow& f);

/// In a child of fork(): the flow's pool, or the thread of its loop, is the parent's. A pool is not asked, nor anything
/// elsewhere: they may just end the flow, and go. The loop of a flow on a pool is not asked: a worker may just give it
/// one.
inline bool is_left_behind(const flow& f) noexcept {
  if (f.pool != nullptr) return async::detail::is_left_behind(f.pool);
  return async::detail::forks.value.is_child() && f.core != nullptr && f.core->is_left_behind();
}

/// The same for a flow that is about to go, perhaps after its loop: then the loop is asked only if the flow executes,
/// or a message to it is on its way.
inline bool is_kept_by_parent(flow& f) noexcept {
  return (f.is_known_to_execute() || !is_unreached(f)) && is_left_behind(f);
}

/// Hands the flow to its loop or pool. Throws std::bad_alloc, exceptions of the pool's queue, and Error when the loop
/// has gone; the flow is idle then, with its steps as they were.
void execute_rare(flow& f);

/// The same. The code here is the fast path: on the owner of the loop, for a flow without history.
void execute(flow& f);

/// flow_ops::report().
void report_to_pool(flow& f, const std::exception_ptr& error) noexcept;

/// Cancels a flow on its loop's thread. The flow has been cancelled when this returns.
void cancel_on_loop(flow& f) noexcept;

/// Cancels a flow that waits in a pool's queue for its start, in the execution that the thread has seen. False: it is
/// bound to a loop.
bool cancel_in_pool_queue(flow& f, std::uint32_t seen) noexcept;

/// Cancels a flow, from any thread. From another than the loop's it is a request, and throws std::bad_alloc. An
/// execution that begins later is not cancelled.
void cancel(flow& f);

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION bool tell_hook(flow& f) {
  if (f.state == nullptr) return false;
  const auto& hook = state_access::unhandled(*f.state);
  if (!hook) return false;
  try {
    hook(f.pending.code);
  } catch (...) {
    report_exception(f, false);
  }
  return true;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void end_root_rare(flow& f, bool failed) {
  if (promise_base* const promise = std::exchange(f.promise, nullptr)) return promise->end(f, failed);
  if (tell_hook(f)) return end_execution(f);
  const std::exception_ptr error = exception_of(f);
  async::detail::loop_core& core = *f.core;
  end_execution(f);
  core.unhandled(error);
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void begin_without_memory(flow& f) {
  ASYNCSTEPS_TRACE_INSTANT(flow_start, "flow", async::detail::trace_id(&f));
  set_error(f, errors::InternalError, "out of memory");
  destroy_built_steps(f);
  f.fail_start();
  f.ops().end(f);
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void execute_rare(flow& f) {
  if (is_left_behind(f)) throw async::stopped_by_fork();
  if (f.is_known_to_execute()) return misuse_anywhere(f, "execute() of a flow that executes");
  if (!begin_anew(f)) return;
  const state_access::last_exception last(f.state);
  if (f.state != nullptr) state_access::reset(*f.state, f.is_failing());
  f.cur = &f.root;
  if (f.core == nullptr) return queue_start(f);
  f.active.set(f.take_wait_number());
  try {
    if (const loop_entry here(*f.core, loop_entry::who::owner); here) return start(f);
    if (f.core->push(f)) return;
    if (f.pool != nullptr) throw async::stopped();
    throw Error(errors::InternalError, "the flow's event loop has gone");
  } catch (...) {
    f.active.clear_unseen();  // nobody else has seen it
    throw;
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void execute(flow& f) {
  if (!f.is_known_to_execute() && !f.has_remains() && f.state == nullptr && f.core != nullptr && f.has_no_verdict())
      [[likely]] {
    const async::detail::owner_entry here(*f.core);
    if (here && f.core->ready().try_reserve()) [[likely]] {
      f.active.set(f.wait_number());  // of the wait that its first turn ends, or a cancel before that
      return start_with_place(f);
    }
  }
  execute_rare(f);
}

ASYNCSTEPS_FUNCTION void end_unstarted(flow& f) noexcept {
  const unstarted_end here{&f, unstarted_ends};
  unstarted_ends = &here;
  destroy_built_steps(f);
  unstarted_ends = here.outer;
  end_execution(f);
}

ASYNCSTEPS_FUNCTION void begin(async::detail::message& m, async::detail::delivery how) {
  flow& f = static_cast<flow&>(m);
  if (how == async::detail::delivery::on_loop && !f.is_cancelled()) {
    try {
      return start(f);
    } catch (...) {
      return begin_without_memory(f);
    }
  }
  if (!f.is_cancelled()) note_loop_end(f);
  end_unstarted(f);
}

ASYNCSTEPS_FUNCTION void start_here(flow& f) {
  verdict why;
  try {
    why = prepare(f);
  } catch (...) {
    return begin_without_memory(f);
  }
  if (why == verdict::none) return;
  f.start(why);
  resume(f);
}

ASYNCSTEPS_FUNCTION void queue_start(flow& f) {
  start_task task(f);  // before others can look for its word
  f.active.set(f.take_wait_number());
  task.queue();
  try {
    if (f.level == async::priority::normal) [[likely]] {
      f.pool->submit<start_task>(std::move(task));
    } else {
      f.pool->submit_with(f.level, async::task(std::move(task)));
    }
  } catch (...) {
    start_state& word = *start_of(f);
    if (word.hold() == start_state::held::yes) {
      word.cancel();
      f.active.clear_unseen();  // nobody else has it
    } else {
      wait_for_cancel(f);
    }
    throw;
  }
}

ASYNCSTEPS_FUNCTION void report_to_pool(flow& f, const std::exception_ptr& error) noexcept { f.pool->unhandled(error); }

ASYNCSTEPS_FUNCTION void cancel_on_loop(flow& f) noexcept {
  if (!f.is_known_to_execute()) return;  // it may not have been handed to the loop yet
  if (f.is_running()) return cancel_in_turn(f);
  if (!f.is_idle()) return cancel_outside_turn(f);
  f.cancel_start();  // begin() is still to come
}

ASYNCSTEPS_FUNCTION bool cancel_in_pool_queue(flow& f, std::uint32_t seen) noexcept {
  start_state* const word = start_of(f);
  const start_state::held start = word != nullptr ? word->hold() : start_state::held::bound;
  if (start == start_state::held::bound) return false;
  if (start == start_state::held::yes) {
    if (!f.is_execution(seen)) {
      word->put_back();
    } else {
      word->cancel();  // first, since destructors of steps may cancel the flow, too
      end_unstarted(f);
    }
  }
  return true;
}

ASYNCSTEPS_FUNCTION void cancel(flow& f) {
  const std::uint32_t seen = f.seen_execution();
  if (seen == 0 || cancel_in_pool_queue(f, seen)) return;
  const auto act = [seen](flow& target) {
    if (target.is_execution(seen)) cancel_on_loop(target);
  };
  if (const loop_entry here(*f.core, loop_entry::who::owner); here) return act(f);
  on_loop_of(f, act);
}
#endif

}  // namespace steps::inline v0_1::detail
