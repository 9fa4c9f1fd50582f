// SPDX-License-Identifier: BSL-1.0
// floor: 17
#pragma once
#include <exception>    // for current_exception
#include <future>       // for future
#include <type_traits>  // for decay_t, is_invocable_v
#include <utility>      // for exchange, forward, move

#include "async/detail/loop_host.hpp"    // for loop_host
#include "async/detail/pool_core.hpp"    // for pool_core
#include "async/threadpool.hpp"          // for threadpool
#include "steps/detail/future.hpp"       // for flow_promise
#include "steps/detail/pooled_flow.hpp"  // for pooled_flow
#include "steps/iasyncsteps.hpp"         // for IAsyncSteps

namespace steps {

namespace detail {

/// The task that makes a flow of one step, and starts it on the worker that has taken it.
template <class T, class F>
class spawn_task {
 public:
  template <class G>
  explicit spawn_task(async::detail::pool_core& pool, flow_promise<T>& p, G&& body)
      : pool_(pool), promise_(&p), body_(std::forward<G>(body)) {}
  spawn_task(spawn_task&& other) noexcept(std::is_nothrow_move_constructible_v<F>)
      : pool_(other.pool_), promise_(other.promise_), body_(std::move(other.body_)) {
    other.promise_ = nullptr;
  }
  spawn_task& operator=(spawn_task&&) = delete;
  ~spawn_task() {
    if (promise_ != nullptr) promise_->drop();
  }

  void operator()() {
    const auto place = pool_.place_for_flow();
    flow* const f = make(place.loop.core());
    if (f == nullptr) return;
    if (place.here) {
      place.loop.visit([f] { start_here(*f); });
    } else if (!place.loop.core().push(*f)) {
      begin(*f, async::detail::delivery::dropped);
    }
  }

 private:
  flow* make(async::detail::loop_core& core) noexcept {
    flow* f = nullptr;
    try {
      f = pooled_flow::make(&core);
      append_step<function_step<IAsyncSteps, F, no_handler>>(f->root, record_flag::is_step, std::move(body_),
                                                             no_handler());
    } catch (...) {
      if (f != nullptr) pooled_flow::release(*f);
      std::exchange(promise_, nullptr)->refuse(std::current_exception());
      return nullptr;
    }
    f->pool = &pool_;
    f->promise = std::exchange(promise_, nullptr);
    f->doomed = true;
    f->cur = &f->root;
    f->active.show_unseen();  // published with the message, if there is one
    return f;
  }

  async::detail::pool_core& pool_;
  flow_promise<T>* promise_;
  F body_;
};

}  // namespace detail

/// Hands a flow to a pool, which owns it from then on: body(IAsyncSteps&) is its first step, adds the others, and the
/// last result, or the error, goes to the future.
///
///   std::future<int> answer = steps::post<int>(pool, [](steps::IAsyncSteps& asi) { asi.success(42); });
///
/// Use it for business logic that nobody needs to hold: requests, jobs. Do not use it where the flow may have to be
/// cancelled from outside (AsyncSteps), nor for a plain function (threadpool::post).
///
/// Order       as tasks of the pool: the flow starts on whichever worker takes it, and stays on that worker's loop.
/// Threads     any, also the pool's own tasks and flows.
/// Exceptions  std::bad_alloc; what copying the body throws; what the pool's queue throws: stopped, queue_full. No flow
///             is made then. An error of the flow: Error, or the exception that it came from, by the future.
/// Shutdown    a flow that has not ended when the pool has run out of tasks and stops is cancelled: broken promise.
/// Memory      recycled blocks: one for the flow, two for the promise.
template <class T = void, class F>
std::future<T> post(async::threadpool& pool, F&& body) {
  static_assert(std::is_invocable_v<std::decay_t<F>&, IAsyncSteps&>,
                "the body of a flow is called as body(IAsyncSteps&)");
  static_assert(detail::is_future_type<T>);
  auto* const promise = detail::flow_promise<T>::make();
  std::future<T> result;
  try {
    result = promise->get_future();
  } catch (...) {
    promise->drop();
    throw;
  }
  pool.core().submit(detail::spawn_task<T, std::decay_t<F>>(pool.core(), *promise, std::forward<F>(body)));
  return result;
}

}  // namespace steps
