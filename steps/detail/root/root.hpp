// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>    // for uint32_t, uintptr_t
#include <exception>  // for exception_ptr
#include <memory>     // for destroy_at

#include "async/detail/base/atomics.hpp"             // for yield_thread
#include "async/detail/loop/loop_entry.hpp"          // for loop_entry
#include "async/detail/pool/pool_core.hpp"           // for pool_core
#include "async/detail/trace/trace_points.hpp"       // for ASYNC_TRACE_INSTANT
#include "steps/detail/root/end_message.hpp"         // for attend_own_loops
#include "steps/detail/root/flow_control_block.hpp"  // for on_loop_of, drop_control_block

/// Root flows: execute, cancel, destroy, and the errors that nobody has handled.
namespace steps::detail {

using async::detail::loop_entry;

/// True when something outside of its block belongs to the flow. Asked by who has it.
inline bool has_more(const flow& f) noexcept {
  const auto word = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  return (word(f.scopes) | word(f.chunks) | word(f.state) | word(f.control_block.get_own())) != 0;
}
[[gnu::noinline]] inline void drop_more(flow& f) noexcept {
  if (f.scopes != nullptr || f.chunks != nullptr) clear_remains(f);
  destroy_state(f);
  drop_control_block(f);
}

/// The flow's end as an object; its memory stays.
inline void destroy_flow(flow& f) noexcept {
  if (has_more(f)) [[unlikely]]
    drop_more(f);
  std::destroy_at(&f);
}

/// The end of a root flow's execution by an error, or with a promise.
[[gnu::noinline]] inline void end_root_otherwise(flow& f, bool failed) {
  if (promise_base* const promise = std::exchange(f.promise, nullptr)) return promise->end(f, failed);
  if (f.state != nullptr) {
    if (const auto& hook = state_access::unhandled(*f.state)) {
      try {
        hook(f.pending.code);
      } catch (...) {
        report_exception(f, false);
      }
      return settle(f);
    }
  }
  const std::exception_ptr error = exception_of(f);
  async::detail::loop_core& core = *f.core;
  settle(f);
  core.unhandled(error);
}

/// The end of a root flow's execution. An error goes to the promise, else to the state's hook, else to the loop's.
inline void end_root(flow& f) {
  const bool failed = f.signal() == signal::error;
  if (!failed && f.promise == nullptr) [[likely]]
    return settle(f);
  end_root_otherwise(f, failed);
}

/// There is no memory for a place in the ready queue.
[[gnu::noinline]] inline void begin_without_memory(flow& f) {
  ASYNC_TRACE_INSTANT(flow_start, "flow", async::detail::trace_id(&f));
  set_error(f, errors::InternalError, "out of memory");
  drop_built(f);
  f.has_place = false;
  f.at = phase::running;
  f.ops->end(f);
}

/// A flow whose steps this thread drops before the start. The destructors of what they have captured may destroy it.
struct unstarted_drop {
  const flow* what;
  const unstarted_drop* outer;  // the destructor of a step of that one has led here
};
inline constinit thread_local const unstarted_drop* unstarted_drops = nullptr;

/// The end of a flow that is the caller's and has not started.
inline void drop_unstarted(flow& f) noexcept {
  const unstarted_drop here{&f, unstarted_drops};
  unstarted_drops = &here;
  drop_built(f);
  unstarted_drops = here.outer;
  settle(f);
}
inline bool is_dropped_here(const flow& f) noexcept {
  const unstarted_drop* drop = unstarted_drops;
  while (drop != nullptr && drop->what != &f) drop = drop->outer;
  return drop != nullptr;
}

/// execute() of another thread arrives at the loop.
inline void begin(async::detail::message& m, async::detail::delivery how) {
  flow& f = static_cast<flow&>(m);
  if (how == async::detail::delivery::on_loop && f.signal() != signal::cancel) {
    try {
      return start(f);
    } catch (...) {
      return begin_without_memory(f);
    }
  }
  drop_unstarted(f);
}

/// Starts an execution in a turn of the flow's loop, and takes the flow's first turn at once.
inline void start_here(flow& f) {
  std::uint32_t why;
  try {
    why = prepare(f);
  } catch (...) {
    return begin_without_memory(f);
  }
  if (why == signal::none) return;
  f.signal(why);
  f.at = phase::queued;
  resume(f);
}

/// The task that starts a flow on a pool: whichever worker takes it binds the flow to its loop, for good.
class start_task {
 public:
  explicit start_task(flow& f) : pool_(*f.pool), remote_(&reach(f)) { remote_->start.prepare(); }
  start_task(start_task&& other) noexcept
      : pool_(other.pool_), remote_(std::exchange(other.remote_, nullptr)), number_(other.number_) {}
  start_task& operator=(start_task&&) = delete;
  ~start_task() { let_go(); }

  /// The flow is seen to execute.
  void queue() noexcept { number_ = remote_->start.queue(); }
  void operator()() {
    const auto place = pool_.place_for_flow();
    async::detail::loop_core& core = place.loop.core();
    if (place.here) {
      place.loop.visit([this, &core] {  // before the flow can be reached there
        if (flow* const f = take(core)) {
          bind();
          start_here(*f);
        }
      });
    } else if (flow* const f = take(core)) {
      const bool sent = core.push(*f);
      bind();
      if (!sent) begin(*f, async::detail::delivery::dropped);
    }
  }

 private:
  flow* take(async::detail::loop_core& core) noexcept {
    if (!remote_->start.take(number_)) return nullptr;
    flow* const f = remote_->target;
    f->core = &core;
    return f;
  }
  void bind() noexcept {
    remote_->start.bind();
    let_go();
  }
  void let_go() noexcept {
    if (flow_control_block* const r = std::exchange(remote_, nullptr)) release_control_block(*r);
  }

  async::detail::pool_core& pool_;
  flow_control_block* remote_;
  std::uint32_t number_ = 0;
};

/// For the flow's owner, when another thread cancels it before its start: waits until that has been done.
inline void wait_for_cancel(const flow& f) noexcept {
  while (f.is_known_to_execute()) {
    attend_own_loops();
    async::detail::yield_thread();
  }
}

inline void queue_start(flow& f) {
  start_task task(f);  // before others can look for its word
  f.active.set();
  task.queue();
  try {
    f.pool->submit(std::move(task));
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

/// Gives the flow to its loop or pool. Throws std::bad_alloc, what the pool's queue throws, and Error when the loop has
/// gone; the flow is idle then, its steps are as they were.
[[gnu::noinline]] inline void execute_anyway(flow& f) {
  if (f.is_known_to_execute()) return misuse_anywhere(f, "execute() of a flow that executes");
  if (!begin_anew(f)) return;
  if (f.state != nullptr) state_access::reset(*f.state, f.signal() == signal::error);
  f.cur = &f.root;
  if (f.core == nullptr) return queue_start(f);
  f.active.set();
  try {
    if (const loop_entry here(*f.core, loop_entry::who::owner); here) return start(f);
    if (f.core->push(f)) return;
    throw Error(errors::InternalError, "the flow's event loop has gone");
  } catch (...) {
    f.active.clear_unseen();  // nobody else has seen it
    throw;
  }
}

/// The same; what is here is for the owner of the loop, and a flow without history.
[[gnu::noinline]] inline void execute(flow& f) {
  if (!f.is_known_to_execute() && !f.ended && f.state == nullptr && f.core != nullptr && f.signal() == signal::none)
      [[likely]] {
    const async::detail::owner_entry here(*f.core);
    if (here && f.core->ready().try_reserve()) [[likely]] {
      f.active.set();
      return start_with_place(f);
    }
  }
  execute_anyway(f);
}

/// Cancels a flow on its loop's thread; when it has returned it has happened.
inline void cancel_here(flow& f) noexcept {
  if (!f.is_known_to_execute()) return;  // which may not have been given to the loop yet
  if (f.at == phase::running) return cancel_running(f);
  if (f.at != phase::idle) return cancel_now(f);
  f.signal(signal::cancel);  // begin() is still to come
}

/// Cancels a flow that waits in a pool's queue. False: it is bound to a loop.
inline bool cancel_unstarted(flow& f) noexcept {
  start_state* const word = start_of(f);
  const start_state::held start = word != nullptr ? word->hold() : start_state::held::bound;
  if (start == start_state::held::bound) return false;
  if (start == start_state::held::yes) {
    word->cancel();  // first: destructors of steps are users' functions, and may cancel it, too
    drop_unstarted(f);
  }
  return true;
}

/// Cancels a flow, from any thread; from another than the loop's it is a request. Throws std::bad_alloc there.
inline void cancel(flow& f) {
  if (!f.is_known_to_execute()) return;
  if (cancel_unstarted(f)) return;
  if (const loop_entry here(*f.core, loop_entry::who::owner); here) return cancel_here(f);
  on_loop_of(f, [](flow& target) { cancel_here(target); });
}

}  // namespace steps::detail
