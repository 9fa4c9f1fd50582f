// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>    // for coroutine_handle
#include <exception>    // for current_exception, exception_ptr, rethrow_exception
#include <optional>     // for optional
#include <tuple>        // for apply, tuple
#include <type_traits>  // for decay_t, is_nothrow_move_constructible_v
#include <utility>      // for forward, move

#include "async/detail/queue/event_count.hpp"       // for event_count
#include "async/detail/queue/queue_access.hpp"      // for queue_access
#include "async/detail/queue/queue_result.hpp"      // for queue_result
#include "async/detail/queue/queue_wait_block.hpp"  // for queue_wait, resuming_block

namespace async::inline v0_1::detail {

/// The operation of co_await on a queue: takes an element.
template <class Queue>
class pop_call {
 public:
  using result = std::optional<typename Queue::value_type>;
  explicit pop_call(Queue& q) noexcept : queue_(&q) {}
  /// Before the wait.
  pop_call(pop_call&& other) noexcept : queue_(other.queue_) {}
  pop_call& operator=(pop_call&&) = delete;

  event_count& events() const noexcept { return queue_access::items(*queue_); }
  queue_result attempt() {
    return queue_access::take(*queue_, [this](auto&& element) { value_.emplace(std::move(element)); });
  }
  result take_result(bool) noexcept(std::is_nothrow_move_constructible_v<result>) { return std::move(value_); }

 private:
  Queue* queue_;
  result value_;
};

/// The same for co_await push(): adds an element. The arguments wait in it.
template <class Queue, class... A>
class push_call {
 public:
  using result = bool;
  template <class... B>
  explicit push_call(Queue& q, B&&... args) : queue_(&q), args_(std::forward<B>(args)...) {}

  event_count& events() const noexcept {
    if constexpr (queue_access::is_bounded<Queue>) {
      return queue_access::room(*queue_);
    } else {
      return queue_access::items(*queue_);  // never waits
    }
  }
  queue_result attempt() {
    return std::apply([this](A&... args) { return queue_access::put(*queue_, std::move(args)...); }, args_);
  }
  bool take_result(bool is_done) const noexcept { return is_done; }

 private:
  Queue* queue_;
  std::tuple<A...> args_;
};

/// Waits for a queue on behalf of a coroutine of any type.
template <class Call>
class queue_awaiter : public queue_wait {
 public:
  explicit queue_awaiter(Call&& c) : queue_wait(c.events(), &try_call), call_(std::move(c)) {}

  bool await_ready() { return set(call_.attempt()); }
  bool await_suspend(std::coroutine_handle<> suspending) { return begin(resuming_block::make(*this), suspending); }
  typename Call::result await_resume() {
    if (error_ != nullptr) std::rethrow_exception(std::move(error_));
    return call_.take_result(is_done_);
  }

 private:
  bool set(queue_result r) noexcept {
    is_done_ = r == queue_result::done;
    return r != queue_result::blocked;
  }
  static queue_result try_call(queue_wait& w) noexcept {
    auto& self = static_cast<queue_awaiter&>(w);
    try {
      const queue_result r = self.call_.attempt();
      self.set(r);
      return r;
    } catch (...) {
      self.error_ = std::current_exception();
      return queue_result::closed;
    }
  }

  Call call_;
  std::exception_ptr error_;
  bool is_done_ = false;
};

/// The result of pop() and push(), to be awaited once.
template <class Call>
class [[nodiscard]] queue_awaitable {
 public:
  static constexpr bool is_queue_awaitable = true;
  using call = Call;

  explicit queue_awaitable(Call&& c) : call_(std::move(c)) {}
  queue_awaiter<Call> operator co_await() && { return queue_awaiter<Call>(std::move(call_)); }
  /// For coroutines that wait in their own way.
  Call&& take_call() && noexcept { return std::move(call_); }

 private:
  Call call_;
};

template <class Queue>
auto make_pop(Queue& q) noexcept {
  return queue_awaitable<pop_call<Queue>>(pop_call<Queue>(q));
}
template <class Queue, class... Args>
auto make_push(Queue& q, Args&&... args) {
  using call = push_call<Queue, std::decay_t<Args>...>;
  return queue_awaitable<call>(call(q, std::forward<Args>(args)...));
}

}  // namespace async::inline v0_1::detail
