// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>    // for current_exception
#include <future>       // for future, promise
#include <type_traits>  // for decay_t, is_invocable_v
#include <utility>      // for forward, move

#include "async/detail/future/future_watch.hpp"  // for shared_state_of
#include "async/detail/future/pending_call.hpp"  // for make_promise, refuse, abandon
#include "async/detail/pool/pool_core.hpp"       // for pool_core
#include "async/threadpool.hpp"                  // for threadpool
#include "steps/detail/root/pooled_flow.hpp"     // for pooled_flow
#include "steps/detail/wait/future.hpp"          // for flow_promise
#include "steps/iasyncsteps.hpp"                 // for IAsyncSteps

namespace steps {

namespace detail {

/// The task that makes a flow of one step, and starts it on the worker that takes the task.
template <class T, class F>
class spawn_task {
 public:
  template <class G>
  explicit spawn_task(async::detail::pool_core& pool, std::promise<T>&& p, G&& body)
      : pool_(pool), promise_(std::move(p)), body_(std::forward<G>(body)) {}
  spawn_task(spawn_task&&) = default;
  spawn_task& operator=(spawn_task&&) = delete;
  ~spawn_task() {
    if (async::detail::shared_state_of(promise_) != nullptr) async::detail::abandon(std::move(promise_));
  }

  void operator()() {
    auto place = pool_.place_for_flow();
    flow* const f = make(place.core());
    if (f == nullptr) return;
    if (place.here) {
      place.visit([f] { start_here(*f); });
    } else if (!place.core().push(*f)) {
      begin(*f, async::detail::delivery::dropped);
    }
  }

 private:
  flow* make(async::detail::loop_core& core) noexcept {
    flow_promise<T>* end = nullptr;
    flow* f = nullptr;
    try {
      end = flow_promise<T>::make(std::move(promise_));
      f = pooled_flow::make(&core);
      append_step<function_step<IAsyncSteps, F, no_handler>>(f->root, record_flag::is_step, std::move(body_),
                                                             no_handler());
    } catch (...) {
      if (f != nullptr) pooled_flow::release(*f);
      async::detail::refuse(end != nullptr ? end->into_promise() : std::move(promise_), std::current_exception());
      return nullptr;
    }
    f->promise = end;
    f->pool = &pool_;
    f->detach();
    f->cur = &f->root;
    f->active.set_unseen();  // published with the message, if there is one
    return f;
  }

  async::detail::pool_core& pool_;
  std::promise<T> promise_;
  F body_;
};

}  // namespace detail

/// Hands a flow to a pool, which owns it from then on. body(IAsyncSteps&) is its first step, and adds the others. The
/// last result, or the error, goes to the future.
///
///   std::future<int> answer = steps::post<int>(pool, [](steps::IAsyncSteps& asi) { asi.success(42); });
///
/// Use it for logic that needs no owner: requests, jobs. Do not use it where the flow may have to be cancelled from
/// outside (AsyncSteps), nor for a plain function (threadpool::post).
///
/// Order       flows start in the order of the pool's tasks. From then on as an AsyncSteps on the pool: any worker that
///             is free goes on with the flow, one thread at a time.
/// Threads     any, also the pool's own tasks and flows.
/// Exceptions  std::bad_alloc; what copying the body throws; what the pool's queue throws: stopped, queue_full. No flow
///             is made then. The future throws an error of the flow: Error, or the exception that caused it.
/// Shutdown    a pool that stops and has run out of tasks cancels the flows that have not ended: broken promise.
/// Memory      recycled blocks: two for the future when it is posted, one for the flow and one for its end when it
///             starts.
template <class T = void, class F>
std::future<T> post(async::threadpool& pool, F&& body) {
  static_assert(std::is_invocable_v<std::decay_t<F>&, IAsyncSteps&>,
                "the body of a flow is called as body(IAsyncSteps&)");
  static_assert(detail::is_future_type<T>);
  auto promise = async::detail::make_promise<T>();
  std::future<T> result = promise.get_future();
  pool.core().submit(detail::spawn_task<T, std::decay_t<F>>(pool.core(), std::move(promise), std::forward<F>(body)));
  return result;
}

}  // namespace steps
