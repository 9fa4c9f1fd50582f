// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>    // for coroutine_handle
#include <cstddef>      // for size_t
#include <exception>    // for rethrow_exception
#include <tuple>        // for tuple
#include <type_traits>  // for conditional_t
#include <utility>      // for exchange, move

#include "async/detail/base/resumptions.hpp"         // for resumption, resumptions
#include "async/detail/future/broken_promise.hpp"    // for broken_promise
#include "async/detail/pool/pool_worker.hpp"         // for this_pool
#include "async/detail/queue/resume_scope.hpp"       // for resume_scope
#include "async/detail/select/select_coroutine.hpp"  // for select_coroutine, select_wait
#include "async/detail/select/select_handler.hpp"    // for thread_call
#include "async/detail/select/select_limit.hpp"      // for timer_limit
#include "async/detail/select/selection.hpp"         // for case_kind, shortest_limit
#include "async/event_loop.hpp"                      // for event_loop
#include "async/threadpool.hpp"                      // for threadpool

namespace async::inline v0_1::detail {

/// The timer of a waiting coroutine, in an event loop.
class select_alarm {
 public:
  select_alarm() = default;
  select_alarm(const select_alarm&) = delete;
  select_alarm& operator=(const select_alarm&) = delete;

  /// Throws std::bad_alloc.
  void start(event_loop& loop, select_coroutine& waiter, timer_limit& limit) {
    limit_ = &limit;
    handle_ = loop.deferred(limit.length(), bell(waiter));
  }
  void cancel() noexcept { handle_.cancel(); }
  template <class Cases>
  void rung(select_coroutine::alarm why, Cases&) {
    if (why == select_coroutine::alarm::lost) std::rethrow_exception(broken_promise());
    limit_->pass();
  }

 private:
  /// Rings when it is called. If it is destroyed before, nobody waits any more, or the loop has gone.
  class bell {
   public:
    explicit bell(select_coroutine& w) noexcept : waiter_(&w) { w.add_reference(); }
    bell(bell&& other) noexcept : waiter_(std::exchange(other.waiter_, nullptr)) {}
    bell& operator=(bell&&) = delete;
    ~bell() { ring(select_coroutine::alarm::lost); }
    void operator()() noexcept { ring(select_coroutine::alarm::up); }

   private:
    void ring(select_coroutine::alarm why) noexcept {
      if (waiter_ != nullptr) std::exchange(waiter_, nullptr)->ring(why);
    }
    select_coroutine* waiter_;
  };

  event_loop::handle handle_;
  timer_limit* limit_ = nullptr;
};
/// For cases without a limit.
struct no_alarm {
  void cancel() noexcept {}
  template <class Cases>
  void rung(select_coroutine::alarm, Cases&) noexcept {}
};

/// The loop for the timer of a coroutine that is no step. Not one of another pool than the shared one: such a coroutine
/// resumes on any thread, and may outlive the pool of that thread.
inline event_loop& loop_of_limits() {
  event_loop* const current = event_loop::current();
  return current != nullptr && this_pool == nullptr ? *current : threadpool::shared().core().first_loop();
}

/// A coroutine that resumes on the thread that wakes it.
class resuming_coroutine : public select_coroutine, resumption {
 public:
  resuming_coroutine(action to_free, coroutine_wait& w) noexcept
      : select_coroutine(&woken, to_free, w), resumption(&resume) {
    this->resumes_ = true;
  }

 private:
  static void woken(select_waiter& w) noexcept {
    auto& self = static_cast<resuming_coroutine&>(w);
    if (!self.state.notify()) return self.release();
    const resume_scope at_the_end;
    resumptions.push(self);
  }
  static void resume(resumption& r) noexcept {
    auto& self = static_cast<resuming_coroutine&>(r);
    if (!self.state.claim()) return self.release();
    coroutine_wait& mine = self.wait;
    const bool goes_on = mine.look_again();
    self.release();
    if (goes_on) mine.coroutine().resume();
  }
};

template <class... Cases>
inline constexpr bool has_limit = ((Cases::kind == case_kind::limit) || ...);

/// Waits for the first of several cases on behalf of a coroutine of any type.
template <class... Cases>
class select_awaiter : public select_wait<std::conditional_t<has_limit<Cases...>, select_alarm, no_alarm>, Cases...> {
  using base = select_wait<std::conditional_t<has_limit<Cases...>, select_alarm, no_alarm>, Cases...>;

 public:
  using base::base;

  bool await_ready() { return this->try_all(); }
  bool await_suspend(std::coroutine_handle<> suspending) {
    start_alarm(this->template make_waiter<resuming_coroutine>(), &loop_of_limits);
    return this->begin(suspending);
  }
  std::size_t await_resume() {
    if (std::exception_ptr error = this->take_error()) std::rethrow_exception(std::move(error));
    this->all().finish(this->found(), thread_call());
    return this->found();
  }

 protected:
  /// Throws std::bad_alloc, and what loop() throws.
  template <class Loop>
  void start_alarm([[maybe_unused]] select_coroutine& waiter, [[maybe_unused]] Loop loop) {
    if constexpr (has_limit<Cases...>) {
      timer_limit* const limit = shortest_limit<timer_limit>(this->cases());
      if (limit != nullptr) this->timer().start(loop(), waiter, *limit);
    }
  }
};

/// The type of a case that a coroutine waits for: its time counts from the wait on.
template <class Case, case_kind = Case::kind>
struct awaited_case {
  using type = Case;
};
template <class Case>
struct awaited_case<Case, case_kind::limit> {
  using type = typename Case::kept;
};

/// The result of selection(), to be awaited once.
template <class... Cases>
class [[nodiscard]] select_awaitable {
 public:
  static constexpr bool is_select_awaitable = true;
  template <template <class...> class Awaiter>
  using awaiter = Awaiter<Cases...>;

  template <class... C>
  explicit select_awaitable(std::in_place_t, C&&... cases) : cases_(std::forward<C>(cases)...) {}
  select_awaiter<Cases...> operator co_await() && { return select_awaiter<Cases...>(std::move(cases_)); }
  /// For coroutines that wait in their own way.
  std::tuple<Cases...>&& take_cases() && noexcept { return std::move(cases_); }

 private:
  std::tuple<Cases...> cases_;
};

}  // namespace async::inline v0_1::detail
