// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>    // for exception_ptr
#include <future>       // for future
#include <memory>       // for destroy_at
#include <optional>     // for optional
#include <string_view>  // for string_view
#include <tuple>        // for tuple, apply
#include <utility>      // for exchange, forward, move

#include "async/blocking_pool.hpp"                 // for blocking_pool
#include "async/detail/base/chrono.hpp"            // for nanoseconds
#include "async/detail/base/invoke.hpp"            // for invoke
#include "async/detail/future/broken_promise.hpp"  // for dropped_promise
#include "async/errors.hpp"                        // for dropped_call
#include "async/event_loop.hpp"                    // for event_loop
#include "async/threadpool.hpp"                    // for threadpool
#include "steps/detail/root/destroy_root.hpp"      // for cancel_in_destructor
#include "steps/iasyncsteps.hpp"                   // for IAsyncSteps
#include "steps/interop/detail/future_wait.hpp"    // for future_wait
#include "steps/interop/detail/operation.hpp"      // for operation_awaiter, trigger

/// Awaiters for pools, loops, timers, futures and flows.
namespace steps::inline v0_1::interop::detail {

/// Hands a Call, made of `from`, to a pool. Its end may lead to that of the pool.
template <class Call, class... From>
void execute_on(async::threadpool& pool, From&&... from) {
  const async::detail::pool_core::stay until_the_end(pool.core());
  pool.core().template submit<Call>(std::forward<From>(from)...);
}
template <class Call, class... From>
void execute_on(async::blocking_pool& pool, From&&... from) {
  pool.core().template submit<Call>(std::forward<From>(from)...);  // leaves the pool before the call can end
}

template <class Pool>
class [[nodiscard]] pool_awaiter final : public operation_awaiter<pool_awaiter<Pool>, void> {
 public:
  explicit pool_awaiter(Pool& pool) noexcept : pool_(pool) {}
  void start(trigger<void> at_end) {
    auto call = [end = std::move(at_end)]() mutable { end.run([] {}); };
    execute_on<decltype(call)>(pool_, std::move(call));
  }

 private:
  Pool& pool_;
};

class [[nodiscard]] loop_awaiter final : public operation_awaiter<loop_awaiter, void> {
 public:
  explicit loop_awaiter(async::event_loop& loop) noexcept : loop_(loop) {}
  void start(trigger<void> at_end) {
    loop_.post([end = std::move(at_end)]() mutable { end.run([] {}); });
  }

 private:
  async::event_loop& loop_;
};

class [[nodiscard]] timer_awaiter final : public operation_awaiter<timer_awaiter, void, async::event_loop::handle> {
 public:
  timer_awaiter(async::event_loop& loop, std::chrono::nanoseconds delay) noexcept : loop_(loop), delay_(delay) {}
  ~timer_awaiter() { withdraw().cancel(); }
  void start(trigger<void> at_end, async::event_loop::handle& timer) {
    timer = loop_.deferred(delay_, [end = std::move(at_end)]() mutable { end.run([] {}); });
  }

 private:
  async::event_loop& loop_;
  const std::chrono::nanoseconds delay_;
};

template <class Pool, class R, class F, class... A>
class [[nodiscard]] call_awaiter final : public operation_awaiter<call_awaiter<Pool, R, F, A...>, R> {
 public:
  template <class G, class... B>
  explicit call_awaiter(Pool& pool, G&& f, B&&... arguments)
      : pool_(pool), bound_{std::forward<G>(f), std::tuple<A...>(std::forward<B>(arguments)...)} {}
  void start(trigger<R> end) { execute_on<task>(pool_, std::move(end), std::move(bound_)); }

 private:
  struct bound {
    F f;
    std::tuple<A...> arguments;
  };
  /// The pool's task.
  class task {
   public:
    task(trigger<R>&& end, bound&& call) : end_(std::move(end)), call_(std::move(call)) {}
    void operator()() {
      end_.run([this]() -> R {
        struct release {  // function and arguments have gone when the coroutine resumes
          std::optional<bound>& call;
          ~release() { call.reset(); }
        } const at_end{call_};
        return std::apply([this](A&... a) -> R { return async::detail::invoke(std::move(call_->f), std::move(a)...); },
                          call_->arguments);
      });
    }

   private:
    trigger<R> end_;
    std::optional<bound> call_;
  };

  Pool& pool_;
  bound bound_;
};

template <class T>
class [[nodiscard]] future_awaiter final
    : public operation_awaiter<future_awaiter<T>, T, typename future_wait<T>::handle> {
 public:
  future_awaiter(async::event_loop& loop, std::future<T>&& future) noexcept : loop_(loop), future_(std::move(future)) {}
  ~future_awaiter() { this->withdraw().cancel(); }
  void start(trigger<T> end, typename future_wait<T>::handle& wait) {
    if (!future_.valid()) throw std::future_error(std::future_errc::no_state);
    future_wait<T>::begin(async::detail::core_of(loop_), std::move(future_), std::move(end), wait);
  }

 private:
  async::event_loop& loop_;
  std::future<T> future_;
};

/// The end of a root flow that a coroutine has started.
template <class T>
class flow_end final : public steps::detail::promise_base {
 public:
  static flow_end& make(trigger<T> end) {
    return *::new (async::detail::allocate_block(sizeof(flow_end))) flow_end(std::move(end));
  }
  void end(steps::detail::flow& f, bool failed) override {
    using wanted = steps::detail::pack<outcome_t<T>>;
    [[maybe_unused]] std::optional<outcome_t<T>> value;
    steps::detail::guarded(f, [&] {
      if (failed) return;
      if constexpr (!std::is_void_v<T>) {
        if (steps::detail::has_results(f, wanted::tag)) {
          value.emplace(std::get<0>(steps::detail::take_results<wanted>(f)));
        } else {
          steps::detail::set_mismatch(f, wanted::tag, "execute() in a coroutine");
        }
      }
    });
    std::exception_ptr error;
    if (f.is_failing()) {
      error = steps::detail::exception_of(f);
    } else if (!std::is_void_v<T> && !value.has_value()) {  // its constructor has thrown, and a destructor cancelled
      error = async::detail::dropped_promise(async::dropped_call::reason::cancelled);
    }
    end_.resume_on(*f.core);
    end_execution(f);
    if (error != nullptr) {
      end_.finish(std::move(error));
    } else {
      end_.run([&]() -> T {
        if constexpr (!std::is_void_v<T>) return std::move(*value);
      });
    }
    destroy();
  }
  void cancelled() noexcept override {
    if (async::detail::current_loop != nullptr) end_.resume_on(*async::detail::current_loop);
    if (end_.is_wanted()) {
      end_.finish(why_ != nullptr ? std::move(why_)
                                  : async::detail::dropped_promise(async::dropped_call::reason::cancelled));
    }
    destroy();
  }
  void set_reason(std::exception_ptr why) noexcept override { why_ = std::move(why); }
  void destroy() noexcept {
    std::destroy_at(this);
    async::detail::free_block(this, sizeof(flow_end));
  }

 private:
  explicit flow_end(trigger<T> end) noexcept : end_(std::move(end)) {}

  trigger<T> end_;
  std::exception_ptr why_;
};

template <class T>
class [[nodiscard]] flow_awaiter final : public operation_awaiter<flow_awaiter<T>, T> {
 public:
  explicit flow_awaiter(IAsyncSteps& root) noexcept : root_(root) {}
  ~flow_awaiter() {
    if (!this->waits()) return;
    this->withdraw();
    steps::detail::cancel_in_destructor(*root_.flow_);
  }
  void resume_on(async::detail::loop_ref& loop) const noexcept {
    // Not inside the flow's end. A flow of a pool gets its loop later.
    if (root_.flow_->core != nullptr) loop = async::detail::loop_ref(*root_.flow_->core);
  }
  void start(trigger<T> end) {
    steps::detail::flow& f = *root_.flow_;
    constexpr std::string_view mistake = "execute() in a coroutine takes the root of a flow that does not execute";
    if (!steps::detail::is_root_call(root_, mistake)) throw Error(errors::InternalError, mistake);
    if (f.is_known_to_execute()) throw Error(errors::InternalError, mistake);
    if (!steps::detail::begin_anew(f)) throw Error(errors::InternalError, steps::detail::used_by_remains);
    const steps::detail::state_access::last_exception last(f.state);  // which may have the flow
    std::optional<async::detail::pool_core::stay> until_the_end;  // the coroutine may resume before execute() returns
    if (f.pool != nullptr) until_the_end.emplace(*f.pool);
    flow_end<T>& promise = flow_end<T>::make(std::move(end));
    f.promise = &promise;
    try {
      steps::detail::execute(f);
    } catch (...) {
      if (std::exchange(f.promise, nullptr) != nullptr) promise.cancelled();  // else a cancel() has done so
      throw;
    }
  }

 private:
  IAsyncSteps& root_;
};

}  // namespace steps::inline v0_1::interop::detail
