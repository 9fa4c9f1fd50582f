// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"          // for atomic
#include "async/detail/future/result_word.hpp"    // for continuation, is_held_back, result_word
#include "async/detail/queue/event_count.hpp"     // for event_count
#include "async/detail/queue/queue_waiter.hpp"    // for queue_waiter
#include "async/detail/select/select_waiter.hpp"  // for select_waiter

/// An object that wakes a thread or a coroutine that waits for several things. The waiter itself uses all members but
/// those that notify.
namespace async::inline v0_1::detail {

/// Wakes the waiter when a queue, or an event, may have changed.
///
/// A queue wakes one waiter for each element, so a wake-up that comes to nothing would leave another waiter asleep
/// beside an element. A wake-up is used by an attempt that begins after it; leave() passes on all others.
class queue_watch : queue_waiter {
 public:
  explicit queue_watch(select_waiter& w) noexcept : queue_waiter(how), waiter_(w) {}

  /// Lists the watch unless it is. A watch that was listed before comes in front of the others.
  void list(event_count& events) noexcept {
    if (is_listed_) return;
    waiter_.add_reference();
    is_listed_ = true;
    events.add(*this, was_listed_);
    was_listed_ = true;
  }
  /// Before an attempt: looks whether the notification has come.
  void look() noexcept {
    // [U1] acquire, pairs with [U2]: the thread that notifies has left the members, and the queue has changed. not
    // modelled: the members are plain, and the model's seq_cst attempts see each change
    if (!is_listed_ || !has_come_.load(std::memory_order_acquire)) return;
    has_come_.store(false, std::memory_order_relaxed);  // relaxed: list() publishes it
    is_listed_ = false;
    has_wake_up_ = true;
  }
  /// After the attempt, unless it has thrown.
  void attempted() noexcept { has_wake_up_ = false; }

  void leave(event_count& events) noexcept {
    if (is_listed_) {
      if (events.remove(*this)) {
        waiter_.release();
      } else {
        has_wake_up_ = true;  // it has been chosen
      }
    }
    if (has_wake_up_) events.wake(1);
  }

 private:
  static void reserve(queue_waiter&) noexcept {}
  static void notify(queue_waiter& w) noexcept {
    auto& self = static_cast<queue_watch&>(w);
    select_waiter& waiter = self.waiter_;
    // [U2] release, pairs with [U1]; from here on the watch may be listed again. not modelled: see [U1]
    self.has_come_.store(true, std::memory_order_release);
    waiter.wake();
  }
  static constexpr operations how{&reserve, &notify};

  select_waiter& waiter_;
  atomic<bool> has_come_{false};
  bool is_listed_ = false;
  bool was_listed_ = false;
  bool has_wake_up_ = false;  // which no attempt has used
};

/// Wakes the waiter when a result is ready.
class result_watch : continuation {
 public:
  explicit result_watch(select_waiter& w) noexcept : continuation(&wake), waiter_(w) {}

  void list(result_word& word) noexcept {
    if (is_listed_) return;
    waiter_.add_reference();
    is_listed_ = word.add(*this);
    if (!is_listed_) waiter_.release();  // it is ready, as the attempt to come finds
  }
  void look() noexcept {}
  void attempted() noexcept {}
  void leave(result_word& word) noexcept {
    if (is_listed_ && word.remove(*this)) waiter_.release();
  }

 private:
  static continuation* wake(continuation& c) noexcept {
    select_waiter& waiter = static_cast<result_watch&>(c).waiter_;
    if (waiter.resumes() && is_held_back(c)) return nullptr;
    waiter.wake();
    return nullptr;
  }

  select_waiter& waiter_;
  bool is_listed_ = false;
};

}  // namespace async::inline v0_1::detail
