// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <functional>   // for invoke
#include <optional>     // for optional
#include <type_traits>  // for is_base_of_v
#include <utility>      // for forward, move, in_place_t

#include "async/detail/base/atomics.hpp"         // for wait_clock
#include "async/detail/call/future_access.hpp"   // for future_access
#include "async/detail/future/result_word.hpp"   // for result_word
#include "async/detail/queue/event_count.hpp"    // for event_count
#include "async/detail/queue/queue_access.hpp"   // for queue_access
#include "async/detail/queue/queue_result.hpp"   // for queue_result
#include "async/detail/queue/queue_wait.hpp"     // for queue_deadline
#include "async/detail/select/select_watch.hpp"  // for queue_watch, result_watch
#include "async/detail/select/selection.hpp"     // for case_kind

/// The cases of select(): what selection asks for, and finish(), which calls the handler of the one that has taken
/// effect.
namespace async::detail {

/// The handler that is used where none is given.
struct no_handler {
  template <class... A>
  void operator()(A&&...) const noexcept {}
};
/// In place of a handler for a closed queue: the case is passed over.
struct passed_over {
  void operator()() const noexcept {}
};
template <class F>
inline constexpr bool handles_closing = true;
template <>
inline constexpr bool handles_closing<passed_over> = false;

/// The base of all cases, each of which is used once, in the call that it is made in.
template <case_kind Kind>
class select_case {
 public:
  static constexpr case_kind kind = Kind;
  select_case() = default;
  select_case(const select_case&) = delete;
  select_case& operator=(const select_case&) = delete;
};

template <class Queue, class F, class Closed>
class [[nodiscard]] pop_case : public select_case<case_kind::source> {
 public:
  using watch = queue_watch;

  template <class G, class H>
  pop_case(Queue& q, G&& f, H&& closed)
      : queue_(q), handler_(std::forward<G>(f)), closed_handler_(std::forward<H>(closed)) {}

  queue_result attempt() {
    const queue_result result =
        queue_access::take(queue_, [this](auto&& element) { element_.emplace(std::move(element)); });
    return result == queue_result::closed && handles_closing<Closed> ? queue_result::done : result;
  }
  bool hint() const noexcept { return queue_access::may_take(queue_); }
  event_count* source() noexcept { return &queue_access::items(queue_); }
  void finish() {
    if (element_) {
      std::invoke(handler_, std::move(*element_));
    } else {
      std::invoke(closed_handler_);
    }
  }

 private:
  Queue& queue_;
  std::optional<typename Queue::value_type> element_;
  F handler_;
  Closed closed_handler_;
};

template <class Queue, class Item, class F, class Closed>
class [[nodiscard]] push_case : public select_case<case_kind::source> {
 public:
  using watch = queue_watch;

  template <class G, class H>
  push_case(Queue& q, Item&& item, G&& f, H&& closed)
      : queue_(q),
        item_(std::forward<Item>(item)),
        handler_(std::forward<G>(f)),
        closed_handler_(std::forward<H>(closed)) {}

  queue_result attempt() {
    const queue_result result = queue_access::put(queue_, std::forward<Item>(item_));
    is_closed_ = result == queue_result::closed;
    return is_closed_ && handles_closing<Closed> ? queue_result::done : result;
  }
  bool hint() const noexcept { return queue_access::may_put(queue_); }
  event_count* source() noexcept { return &queue_access::room(queue_); }
  void finish() {
    if (is_closed_) {
      std::invoke(closed_handler_);
    } else {
      std::invoke(handler_);
    }
  }

 private:
  Queue& queue_;
  Item&& item_;
  F handler_;
  Closed closed_handler_;
  bool is_closed_ = false;
};

template <class Future, class F>
class [[nodiscard]] ready_case : public select_case<case_kind::source> {
 public:
  using watch = result_watch;

  template <class G>
  ready_case(Future& future, G&& f) : future_(future), handler_(std::forward<G>(f)) {}

  queue_result attempt() const noexcept {
    if (!future_.valid()) return queue_result::closed;
    return future_.is_ready() ? queue_result::done : queue_result::blocked;
  }
  bool hint() const noexcept { return future_.is_ready(); }
  result_word* source() const noexcept { return future_.valid() ? &future_access::state(future_)->word : nullptr; }
  void finish() { std::invoke(handler_, future_); }

 private:
  Future& future_;
  F handler_;
};

template <class F>
class [[nodiscard]] limit_case : public select_case<case_kind::limit> {
 public:
  template <class G>
  limit_case(queue_deadline until, G&& f) : until_(until), handler_(std::forward<G>(f)) {}

  queue_result attempt() const noexcept { return hint() ? queue_result::done : queue_result::blocked; }
  bool hint() const noexcept { return until_.has_passed(); }
  const wait_clock::time_point* time() const noexcept { return until_.time(); }
  void finish() { std::invoke(handler_); }

 private:
  const queue_deadline until_;
  F handler_;
};

template <class F>
class [[nodiscard]] otherwise_case : public select_case<case_kind::otherwise> {
 public:
  template <class G>
  explicit otherwise_case(std::in_place_t, G&& f) : handler_(std::forward<G>(f)) {}

  queue_result attempt() const noexcept { return queue_result::blocked; }
  bool hint() const noexcept { return true; }
  void finish() { std::invoke(handler_); }

 private:
  F handler_;
};

template <class T>
concept is_select_case = requires {
  T::kind;
  requires std::is_base_of_v<select_case<T::kind>, T>;
};

}  // namespace async::detail
