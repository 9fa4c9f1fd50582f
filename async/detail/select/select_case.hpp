// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <optional>     // for optional
#include <type_traits>  // for is_base_of_v, is_invocable_v, is_lvalue_reference_v, decay_t, remove_reference_t
#include <utility>      // for exchange, forward, move, in_place_t

#include "async/detail/base/atomics.hpp"           // for wait_clock
#include "async/detail/call/future_access.hpp"     // for future_access, is_shared_future
#include "async/detail/call/result_state.hpp"      // for result_state
#include "async/detail/future/result_word.hpp"     // for result_word
#include "async/detail/queue/event_count.hpp"      // for event_count
#include "async/detail/queue/queue_access.hpp"     // for queue_access
#include "async/detail/queue/queue_result.hpp"     // for queue_result
#include "async/detail/select/select_handler.hpp"  // for handler_call, handler_calls, handles_closing
#include "async/detail/select/select_limit.hpp"    // for clock_limit, timer_limit
#include "async/detail/select/select_watch.hpp"    // for queue_watch, result_watch
#include "async/detail/select/selection.hpp"       // for case_kind

/// The cases of select(): what selection asks for, and finish(), which calls the handler of the one that has taken
/// effect. A waiter that outlives the call in which a case is made keeps it as the type `kept`, which refers to nothing
/// but the queue, or a future that has a name and cannot be copied.
namespace async::inline v0_1::detail {

/// The base of all cases, each of which is used once, in the call that it is made in.
template <case_kind Kind>
class select_case {
 public:
  static constexpr case_kind kind = Kind;
  select_case() = default;
  select_case(const select_case&) = delete;
  select_case(select_case&&) = default;
  select_case& operator=(const select_case&) = delete;
};

template <class Queue, class F, class Closed>
class [[nodiscard]] pop_case : public select_case<case_kind::source> {
 public:
  using watch = queue_watch;
  using kept = pop_case;
  using element = typename Queue::value_type;
  using calls = handler_calls<handler_call<F, element>, handler_call<Closed>>;
  static consteval bool is_plain() {
    static_assert(std::is_invocable_v<F&, element>,
                  "on_pop(queue, f) calls f(element), with an rvalue: take it by value, by && or by const &");
    static_assert(std::is_invocable_v<Closed&>, "on_pop(queue, f, closed) calls closed()");
    return std::is_invocable_v<F&, element> && std::is_invocable_v<Closed&>;
  }

  template <class G, class H>
  pop_case(Queue& q, G&& f, H&& closed)
      : queue_(q), handler_(std::forward<G>(f)), closed_handler_(std::forward<H>(closed)) {}

  queue_result attempt() {
    const queue_result result = queue_access::take(queue_, [this](auto&& e) { element_.emplace(std::move(e)); });
    is_closed_ = result == queue_result::closed;
    return is_closed_ && handles_closing<Closed> ? queue_result::done : result;
  }
  bool hint() const noexcept { return !is_closed_ && queue_access::may_take(queue_); }
  event_count* source() noexcept { return &queue_access::items(queue_); }
  template <class Call>
  void finish(Call call) {
    if (element_) {
      call(handler_, std::move(*element_));
    } else {
      call(closed_handler_);
    }
  }

 private:
  Queue& queue_;
  std::optional<element> element_;
  F handler_;
  Closed closed_handler_;
  bool is_closed_ = false;  // and drained
};

/// Item: a reference in the call that it is made in, a value where it is kept.
template <class Queue, class Item, class F, class Closed>
class [[nodiscard]] push_case : public select_case<case_kind::source> {
 public:
  using watch = queue_watch;
  using kept = push_case<Queue, std::decay_t<Item>, F, Closed>;
  using calls = handler_calls<handler_call<F>, handler_call<Closed>>;
  static consteval bool is_plain() {
    static_assert(std::is_invocable_v<F&>, "on_push(queue, item, f) calls f()");
    static_assert(std::is_invocable_v<Closed&>, "on_push(queue, item, f, closed) calls closed()");
    return std::is_invocable_v<F&> && std::is_invocable_v<Closed&>;
  }

  template <class Index, class G, class H>
  push_case(Queue& q, Index&& item, G&& f, H&& closed)
      : queue_(q),
        item_(std::forward<Index>(item)),
        handler_(std::forward<G>(f)),
        closed_handler_(std::forward<H>(closed)) {}
  /// Keeps the item of another case.
  template <class Index>
    requires(!std::is_same_v<Index, Item>)
  explicit push_case(push_case<Queue, Index, F, Closed>&& c)
      : push_case(c.queue_, static_cast<Index&&>(c.item_), std::move(c.handler_), std::move(c.closed_handler_)) {}

  /// The same with an item that is kept elsewhere.
  template <class Index>
  push_case(push_case<Queue, Index, F, Closed>&& c, std::remove_reference_t<Item>& item)
      : push_case(c.queue_, static_cast<Item&&>(item), std::move(c.handler_), std::move(c.closed_handler_)) {}

  Item&& item() noexcept { return static_cast<Item&&>(item_); }
  queue_result attempt() {
    const queue_result result = queue_access::put(queue_, static_cast<Item&&>(item_));
    is_closed_ = result == queue_result::closed;
    return is_closed_ && handles_closing<Closed> ? queue_result::done : result;
  }
  bool hint() const noexcept { return !is_closed_ && queue_access::may_put(queue_); }
  event_count* source() noexcept { return &queue_access::room(queue_); }
  template <class Call>
  void finish(Call call) {
    if (is_closed_) {
      call(closed_handler_);
    } else {
      call(handler_);
    }
  }

 private:
  template <class, class, class, class>
  friend class push_case;

  Queue& queue_;
  Item item_;
  F handler_;
  Closed closed_handler_;
  bool is_closed_ = false;
};

/// Future: a reference to the caller's, or the case's own.
template <class Future, class F>
class [[nodiscard]] ready_case : public select_case<case_kind::source> {
 public:
  using watch = result_watch;
  using future_type = std::remove_reference_t<Future>;
  using kept = std::conditional_t<is_shared_future<std::remove_const_t<future_type>>,
                                  ready_case<std::remove_const_t<future_type>, F>, ready_case>;
  using calls = handler_calls<handler_call<F, future_type&>>;
  static consteval bool is_plain() {
    constexpr bool is_named = std::is_lvalue_reference_v<Future>;
    static_assert(is_named, "on_ready(future, f) leaves the future to the caller: name it");
    static_assert(std::is_invocable_v<F&, future_type&>,
                  "on_ready(future, f) calls f(future), with an lvalue: take it by reference");
    return is_named && std::is_invocable_v<F&, future_type&>;
  }

  template <class T, class G>
  ready_case(T&& future, G&& f) : future_(std::forward<T>(future)), handler_(std::forward<G>(f)) {}
  /// Keeps a copy of the future of another case.
  template <class T>
    requires(!std::is_same_v<T, Future>)
  explicit ready_case(ready_case<T, F>&& c) : ready_case(c.future_, std::move(c.handler_)) {}

  queue_result attempt() const noexcept {
    if (!future_.valid()) return queue_result::closed;
    return future_.is_ready() ? queue_result::done : queue_result::blocked;
  }
  bool hint() const noexcept { return future_.is_ready(); }
  result_state* state() const noexcept { return future_.valid() ? future_access::state(future_) : nullptr; }
  result_word* source() const noexcept { return future_.valid() ? &state()->word : nullptr; }
  template <class Call>
  void finish(Call call) {
    call(handler_, static_cast<future_type&>(future_));
  }
  /// Nobody waits for the future any more. One that nobody else has is cancelled.
  void abandon() noexcept {
    if constexpr (!std::is_reference_v<Future> && is_unique_future<Future>) {
      if (future_.valid() && !future_.is_ready()) static_cast<void>(future_.cancel());
    }
  }

 private:
  template <class, class>
  friend class ready_case;

  Future future_;
  F handler_;
};

/// Call: what waits for an event, for one wait.
template <class Event, class Call, class F>
class [[nodiscard]] set_case : public select_case<case_kind::source> {
 public:
  using watch = queue_watch;
  using kept = set_case;
  using calls = handler_calls<handler_call<F>>;
  static consteval bool is_plain() {
    static_assert(std::is_invocable_v<F&>, "on_set(event, f) calls f()");
    return std::is_invocable_v<F&>;
  }

  template <class G>
  set_case(Event& event, G&& f) : event_(event), call_(event), handler_(std::forward<G>(f)) {}

  queue_result attempt() noexcept {
    if (!std::exchange(has_begun_, true)) call_ = Call(event_);  // the wait begins here, not where the case is made
    return call_.attempt();
  }
  bool hint() const noexcept { return event_.is_set(); }
  event_count* source() noexcept { return &call_.events(); }
  template <class HandlerCall>
  void finish(HandlerCall call) {
    call(handler_);
  }

 private:
  Event& event_;
  Call call_;
  bool has_begun_ = false;
  F handler_;
};

template <class F, class Limit = clock_limit>
class [[nodiscard]] limit_case : public select_case<case_kind::limit> {
 public:
  using kept = limit_case<F, timer_limit>;
  using calls = handler_calls<handler_call<F>>;
  static consteval bool is_plain() {
    static_assert(std::is_invocable_v<F&>, "after(limit, f) calls f()");
    return std::is_invocable_v<F&>;
  }

  template <class G>
  limit_case(const clock_limit& limit, G&& f) : limit_(limit), handler_(std::forward<G>(f)) {}
  /// Keeps the limit of another case.
  template <class L>
    requires(!std::is_same_v<L, Limit>)
  explicit limit_case(limit_case<F, L>&& c) : limit_case(c.limit_, std::move(c.handler_)) {}

  queue_result attempt() const noexcept { return hint() ? queue_result::done : queue_result::blocked; }
  bool hint() const noexcept { return limit_.has_passed(); }
  const wait_clock::time_point* time() const noexcept { return limit_.time(); }
  Limit& limit() noexcept { return limit_; }
  template <class Call>
  void finish(Call call) {
    call(handler_);
  }

 private:
  template <class, class>
  friend class limit_case;

  Limit limit_;
  F handler_;
};

template <class F>
class [[nodiscard]] otherwise_case : public select_case<case_kind::otherwise> {
 public:
  using kept = otherwise_case;
  using calls = handler_calls<handler_call<F>>;
  static consteval bool is_plain() {
    static_assert(std::is_invocable_v<F&>, "otherwise(f) calls f()");
    return std::is_invocable_v<F&>;
  }

  template <class G>
  explicit otherwise_case(std::in_place_t, G&& f) : handler_(std::forward<G>(f)) {}

  queue_result attempt() const noexcept { return queue_result::blocked; }
  bool hint() const noexcept { return true; }
  template <class Call>
  void finish(Call call) {
    call(handler_);
  }

 private:
  F handler_;
};

template <class T>
concept is_select_case = requires {
  T::kind;
  requires std::is_base_of_v<select_case<T::kind>, T>;
};

/// True, or a compile-time message, for cases whose handlers a thread can call.
template <class... Cases>
inline constexpr bool are_plain = (Cases::is_plain() && ...);
/// The same; false without a message for arguments that are no cases.
template <class... Cases>
consteval bool are_plain_cases() {
  if constexpr (sizeof...(Cases) != 0 && (is_select_case<Cases> && ...)) {
    return are_plain<Cases...>;
  } else {
    return false;
  }
}

}  // namespace async::inline v0_1::detail
