// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <type_traits>  // for remove_cvref_t
#include <utility>      // for forward

#include "async/detail/queue/event_count.hpp"   // for event_count
#include "async/detail/queue/queue_result.hpp"  // for queue_result

namespace async::inline v0_1::detail {

/// The parts of a queue, and of a bounded_queue, that flows and coroutines wait by.
struct queue_access {
  /// Changes when an element comes, or at close().
  template <class Queue>
  static event_count& items(Queue& q) noexcept {
    return q.core_.items();
  }
  /// For a bounded_queue: changes when there is room for an element, or at close().
  template <class Queue>
  static event_count& room(Queue& q) noexcept {
    return q.core_.room();
  }
  /// Hands the oldest element to `receive`, as an rvalue or an lvalue. Does not wait, and does not pause where it finds
  /// nothing: its thread has other work.
  template <class Queue, class Receive>
  static queue_result take(Queue& q, Receive receive) {
    return q.core_.template take<false>(receive);
  }
  /// Whether take() would find nothing, where that costs less than take(): for a second look after one that has found
  /// nothing.
  template <class Queue>
  static bool is_blocked([[maybe_unused]] Queue& q) noexcept {
    if constexpr (is_bounded<Queue>) {
      return false;
    } else {
      return q.core_.is_blocked();
    }
  }
  /// Makes an element of `args`, which are untouched unless it succeeds. Does not wait.
  template <class Queue, class... Args>
  static queue_result put(Queue& q, Args&&... args) {
    return q.try_put(std::forward<Args>(args)...);
  }

  /// Cheap hints for a thread that is about to sleep: whether take(), or put(), is worthwhile.
  template <class Queue>
  static bool may_take(const Queue& q) noexcept {
    return q.core_.may_take();
  }
  template <class Queue>
  static bool may_put(const Queue& q) noexcept {
    return q.core_.may_put();
  }

  template <class Queue>
  static constexpr bool is_queue = requires(Queue& q) { q.core_.items(); };
  template <class Queue>
  static constexpr bool is_bounded = requires(Queue& q) { q.core_.room(); };
};

/// A queue or a bounded_queue.
template <class Queue>
concept any_queue = queue_access::is_queue<std::remove_cvref_t<Queue>>;

}  // namespace async::inline v0_1::detail
