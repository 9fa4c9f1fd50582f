// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>    // for exception_ptr, rethrow_exception
#include <memory>       // for addressof, destroy_at
#include <mutex>        // for lock_guard
#include <type_traits>  // for decay_t, is_invocable_v
#include <utility>      // for exchange, forward, move

#include "async/detail/base/spin_lock.hpp"      // for spin_lock
#include "async/detail/call/call_result.hpp"    // for make_state, submitted, handed_in, free_state
#include "async/detail/call/future_access.hpp"  // for future_access
#include "async/detail/loop/loop_core.hpp"      // for loop_core, message
#include "async/detail/pool/pool_core.hpp"      // for pool_core
#include "async/event_loop.hpp"                 // for event_loop
#include "async/future.hpp"                     // for future
#include "async/priority.hpp"                   // for priority
#include "async/threadpool.hpp"                 // for threadpool
#include "steps/detail/instantiations.hpp"      // exports group_step
#include "steps/detail/root/pooled_flow.hpp"    // for pooled_flow
#include "steps/detail/root/root.hpp"           // for begin, end_unstarted, start_here, tell_hook
#include "steps/detail/wait/flow_result.hpp"    // for flow_result
#include "steps/iasyncsteps.hpp"                // for IAsyncSteps

namespace steps::inline v0_1 {

namespace detail {

template <class F>
struct check_body {
  static constexpr bool ok = std::is_invocable_v<F&, IAsyncSteps&>;
  static_assert(ok, "the body of a flow is called as body(IAsyncSteps&)");
  static_assert(returns_nothing<F, IAsyncSteps&>(),
                "the body of a flow returns void: asi.success(...) passes the result, a T if the call is post<T>(); a "
                "coroutine is made a body by co()");
};
/// True, or a compile-time message, for the body of post().
template <class F>
inline constexpr bool is_body = check_body<F>::ok;

/// What becomes of the error of an owned_flow: only its future tells, or, for a flow without one, the hooks for
/// unhandled errors.
enum class owned_as : unsigned char { promised, detached };

/// A flow of one step that waits for the thread that makes and starts it; then its result.
template <class T, class F, owned_as Kind>
class owned_flow : public flow_result<T>, async::detail::message {
 protected:
  using result_state = async::detail::result_state;
  using delivery = async::detail::delivery;

 public:
  template <class G>
  explicit owned_flow(const result_state::operations& its, async::detail::pool_core* pool, G&& body)
      : flow_result<T>(its, pool), message(&cancel_arrived), body_(std::forward<G>(body)) {}

  void end(flow& f, bool failed) override {
    leave();
    if constexpr (Kind == owned_as::detached) {
      if (failed) return fail(f);
    }
    flow_result<T>::end(f, failed);
  }
  void cancelled() noexcept override {
    leave();
    flow_result<T>::cancelled();
  }

 protected:
  ~owned_flow() { drop_body(); }

  /// Null: there is an error.
  flow* make_flow(async::detail::loop_core& core) noexcept {
    flow* f = nullptr;
    const bool is_made = this->guard([&] {
      f = this->pool() != nullptr ? pooled_flow::make_for_pool(core) : pooled_flow::make(&core);
      append_step<function_step<IAsyncSteps, F, no_handler>>(f->root, record_flag::is_step, std::move(body_),
                                                             no_handler());
    });
    drop_body();
    if (!is_made) {
      if (f != nullptr) f->ops().release(*f);
      return nullptr;
    }
    this->add_reference();
    f->promise = this;
    f->pool = this->pool();
    f->detach();
    f->cur = &f->root;
    f->active.set_unseen();  // published with the message, if there is one
    return f;
  }

  static void drop(result_state& s) noexcept { static_cast<owned_flow&>(s).drop_body(); }

  /// From here on the flow can be cancelled. False: it has been.
  bool enter(flow& f) noexcept {
    flow_ = &f;
    const std::lock_guard here(lock_);
    if (is_cancelled_) return false;
    core_ = f.core;
    return true;
  }
  /// cancel() of the future: sends this object to the flow's loop, once.
  static void request_stop(result_state& s) noexcept {
    auto& self = static_cast<owned_flow&>(s);
    const std::lock_guard here(self.lock_);
    if (std::exchange(self.is_cancelled_, true) || self.core_ == nullptr) return;
    self.add_reference();
    if (!self.core_->push(self)) self.release();  // the loop cancels its flows; the future has a reference
  }

 private:
  void drop_body() noexcept {
    if (std::exchange(has_body_, false)) std::destroy_at(std::addressof(body_));
  }
  /// Ends a detached flow that has failed. This thread is in a turn of its loop, which stays.
  void fail(flow& f) {
    if (tell_hook(f)) return flow_result<T>::end(f, true);
    const std::exception_ptr why = exception_of(f);
    async::detail::pool_core* const pool = this->pool();
    async::detail::loop_core& core = *f.core;
    flow_result<T>::end(f, true);  // this may be gone
    pool != nullptr ? pool->unhandled(why) : core.unhandled(why);
  }
  /// The flow ends. Its loop may go when this has returned.
  void leave() noexcept {
    flow_ = nullptr;
    const std::lock_guard here(lock_);
    core_ = nullptr;
  }
  static void cancel_arrived(async::detail::message& m, delivery kind) {
    auto& self = static_cast<owned_flow&>(m);
    if (kind == delivery::on_loop && self.flow_ != nullptr) cancel_on_loop(*self.flow_);
    self.release();
  }

  union {
    F body_;  // until the flow is made
  };
  bool has_body_ = true;
  async::detail::spin_lock lock_;
  bool is_cancelled_ = false;                 // guarded by the lock, as is core_
  flow* flow_ = nullptr;                      // of the thread that starts the flow, then of its loop's
  async::detail::loop_core* core_ = nullptr;  // null: the flow has not started, or has ended
};

/// The priority of a posted flow; one that is known at compile time takes no space.
struct ranked {
  async::priority value;
};
struct unranked {
  static constexpr async::priority value = async::priority::normal;
};

/// Waits in a pool's queue.
template <class T, class F, class Level = unranked, owned_as Kind = owned_as::promised>
class posted_flow final : public owned_flow<T, F, Kind> {
  using base = owned_flow<T, F, Kind>;
  using typename base::delivery;
  using typename base::result_state;

 public:
  template <class G>
  explicit posted_flow(async::detail::pool_core& pool, G&& body, Level level = {})
      : base(how, &pool, std::forward<G>(body)), level_(level) {}

 private:
  static bool make(result_state& s) {
    auto& self = static_cast<posted_flow&>(s);
    auto place = self.pool()->place_for_flow();
    flow* const f = self.make_flow(place.core());
    if (f == nullptr) {
      if constexpr (Kind == owned_as::detached) self.pool()->unhandled(self.error);
      return true;
    }
    if (self.level_.value != async::priority::normal) place.rank(f->level = self.level_.value);
    if (!self.enter(*f)) {
      end_unstarted(*f);
    } else if (place.here) {
      place.visit([f] { start_here(*f); });
    } else if (!place.send(*f)) {
      begin(*f, delivery::dropped);
    }
    return false;
  }

  static constexpr typename result_state::operations how{&make, &base::drop, &base::request_stop,
                                                         &async::detail::free_state<posted_flow>};

  [[no_unique_address]] const Level level_;
};

/// Waits in a loop's inbox, as a callback.
template <class T, class F, owned_as Kind = owned_as::promised>
class flow_for_loop final : public owned_flow<T, F, Kind> {
  using base = owned_flow<T, F, Kind>;
  using typename base::delivery;
  using typename base::result_state;

 public:
  template <class G>
  explicit flow_for_loop(async::detail::loop_core& loop, G&& body)
      : base(how, nullptr, std::forward<G>(body)), loop_(loop) {}

 private:
  /// In a turn of the loop.
  static bool make(result_state& s) {
    auto& self = static_cast<flow_for_loop&>(s);
    flow* const f = self.make_flow(self.loop_);
    if (f == nullptr) {
      if constexpr (Kind == owned_as::detached) std::rethrow_exception(self.error);  // of a callback
      return true;
    }
    self.enter(*f) ? begin(*f, delivery::on_loop) : end_unstarted(*f);
    return false;
  }

  static constexpr typename result_state::operations how{&make, &base::drop, &base::request_stop,
                                                         &async::detail::free_state<flow_for_loop>};

  async::detail::loop_core& loop_;
};

/// Makes a flow and hands it in, as post() and execute(). Returns its result, with a reference for the caller.
template <class T, owned_as Kind, class F>
auto* hand_in(async::threadpool& pool, F&& body) {
  static_assert(is_body<std::decay_t<F>>);
  using state = posted_flow<T, std::decay_t<F>, unranked, Kind>;
  return async::detail::submitted(async::detail::make_state<state>(pool.core(), std::forward<F>(body)));
}
template <class T, owned_as Kind, class F>
async::detail::result<T>* hand_in(async::threadpool& pool, async::priority wanted, F&& body) {
  static_assert(is_body<std::decay_t<F>>);
  if (wanted == async::priority::normal) return hand_in<T, Kind>(pool, std::forward<F>(body));
  using state = posted_flow<T, std::decay_t<F>, ranked, Kind>;
  auto* const made = async::detail::make_state<state>(pool.core(), std::forward<F>(body), ranked{wanted});
  return async::detail::submitted(made, wanted);
}
template <class T, owned_as Kind, class F>
auto* hand_in(async::event_loop& loop, F&& body) {
  static_assert(is_body<std::decay_t<F>>);
  using state = flow_for_loop<T, std::decay_t<F>, Kind>;
  auto* const made = async::detail::make_state<state>(async::detail::core_of(loop), std::forward<F>(body));
  return async::detail::handed_in(made, [&loop](async::detail::result_state& s) { loop.post(s.as_task()); });
}

}  // namespace detail

/// Hands a flow to a pool, which owns it from then on. body(IAsyncSteps&) is its first step, and adds the others. The
/// last result, or the error, goes to the future.
///
///   async::future<int> answer = steps::post<int>(pool, [](steps::IAsyncSteps& asi) { asi.success(42); });
///
/// Use it for logic that needs no owner: requests, jobs. Do not use it for a flow that is executed again (AsyncSteps),
/// nor for a plain function (threadpool::post).
///
/// Order       flows start in the order of the pool's tasks. From then on as an AsyncSteps on the pool: any worker that
///             is free goes on with the flow, one thread at a time.
/// Threads     any, also the pool's own tasks and flows.
/// Exceptions  std::bad_alloc; what copying the body throws; what the pool's queue throws: stopped, queue_full. No flow
///             is made then. The future throws an error of the flow: Error, or the exception that caused it; when
///             nobody holds the future, the error is dropped, see execute().
/// Cancel      cancel() of the future drops a flow that has not started, and returns true. The body is destroyed and
///             never called, so what must happen in any case belongs to a captured object, not into onEnd(). One that
///             has started is cancelled as by AsyncSteps::cancel(): a request to its loop. The future is a broken
///             promise then, async::dropped_call (cancelled).
/// Shutdown    a pool that stops and has run out of tasks cancels the flows that have not ended: async::dropped_call
///             (stopped), another broken promise.
/// Memory      recycled blocks: one for the body and the future, and one for the flow when it starts.
template <class T = void, class F>
async::future<T> post(async::threadpool& pool, F&& body) {
  static_assert(detail::is_future_type<T>);
  using detail::owned_as;
  return async::detail::future_access::make<T>(detail::hand_in<T, owned_as::promised>(pool, std::forward<F>(body)));
}

/// The same with a priority: the flow starts, goes on after each wait or relinquish(), and runs its branches before or
/// after other tasks and flows of the pool, as async::priority says. Calls by await(pool, f) are of normal priority.
template <class T = void, class F>
async::future<T> post(async::threadpool& pool, async::priority wanted, F&& body) {
  static_assert(detail::is_future_type<T>);
  using detail::owned_as;
  return async::detail::future_access::make<T>(
      detail::hand_in<T, owned_as::promised>(pool, wanted, std::forward<F>(body)));
}

/// A flow without an owner on one event loop, an AsyncTool or pool.loop(i) among them, where it stays. Its first step
/// runs in a turn of the loop, never inside this call.
///
///   async::future<int> answer = steps::post<int>(loop, [](steps::IAsyncSteps& asi) { asi.success(42); });
///
/// Use it for flows that share data with the loop's callbacks without a lock. Do not use it to spread work over cores
/// (a pool), nor wait for the future in a callback or step of this loop: get() throws there.
///
/// Order       flows start in the order in which one thread has posted them, among its other posts to the loop.
/// Threads     any, as event_loop::post().
/// Exceptions  std::bad_alloc; what copying the body throws. No flow is made then. The future throws an error of the
///             flow: Error, or the exception that caused it; when nobody holds the future, the error is dropped.
/// Cancel      as on a pool. The body of a flow that has not started is destroyed by the thread that cancels it.
/// Lifetime    the loop's destructor cancels the flows that have not ended, with their cancel handlers, and drops those
///             that have not started: a plain broken promise, or `stopped` on a loop of a pool. The future may outlive
///             the loop.
/// Memory      recycled blocks: one for the body and the future, one for the way to the loop, and one for the flow when
///             it starts.
template <class T = void, class F>
async::future<T> post(async::event_loop& loop, F&& body) {
  static_assert(detail::is_future_type<T>);
  using detail::owned_as;
  return async::detail::future_access::make<T>(detail::hand_in<T, owned_as::promised>(loop, std::forward<F>(body)));
}

/// Hands a flow without a future to a pool, which owns it from then on: as post(), for a flow that nobody waits for.
///
///   steps::execute(pool, [](steps::IAsyncSteps& asi) { … });
///
/// Use it where a lost error would be a mistake: one that no handler has recovered from goes to the hook of
/// state().set_unhandled_error(), else to the pool's on_unhandled, which ends the program unless it is set. Do not use
/// it where somebody wants to know the end, or to cancel the flow (post()).
///
/// Order, Threads, Memory  as post().
/// Exceptions  as post(), without those of the flow.
/// Shutdown    a pool that stops and has run out of tasks cancels the flow. That is no error.
template <class F>
void execute(async::threadpool& pool, F&& body) {
  detail::hand_in<void, detail::owned_as::detached>(pool, std::forward<F>(body))->release();
}

/// The same with a priority, see post().
template <class F>
void execute(async::threadpool& pool, async::priority wanted, F&& body) {
  detail::hand_in<void, detail::owned_as::detached>(pool, wanted, std::forward<F>(body))->release();
}

/// The same on one event loop, see post(): an error goes to the loop's on_unhandled(). The loop's destructor cancels
/// the flow.
template <class F>
void execute(async::event_loop& loop, F&& body) {
  detail::hand_in<void, detail::owned_as::detached>(loop, std::forward<F>(body))->release();
}

}  // namespace steps::inline v0_1
