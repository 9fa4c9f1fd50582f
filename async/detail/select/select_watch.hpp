// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"          // for atomic
#include "async/detail/base/parker.hpp"           // for parker
#include "async/detail/base/reference_count.hpp"  // for reference_count
#include "async/detail/future/result_word.hpp"    // for continuation, result_word
#include "async/detail/queue/event_count.hpp"     // for event_count
#include "async/detail/queue/queue_waiter.hpp"    // for queue_waiter

/// What wakes a thread that waits for several things.
namespace async::detail {

/// A waiting thread, with its watches. In a block, since a notification that was on its way comes when the thread has
/// gone on.
///
/// References  one of the thread, and one of each listed watch, which the notification gives back.
class select_thread {
 public:
  explicit select_thread(void (*free)(select_thread&) noexcept) noexcept : free_(free) {}
  select_thread(const select_thread&) = delete;
  select_thread& operator=(const select_thread&) = delete;

  void add_reference() noexcept { references_.add(); }
  void release() noexcept {
    if (references_.drop()) free_(*this);
  }

  detail::parker parker;

 protected:
  ~select_thread() = default;

 private:
  void (*const free_)(select_thread&) noexcept;
  reference_count references_;
};

/// Wakes the thread when a queue may have changed. All but the notification is done by the thread itself.
///
/// A queue wakes one waiter for each element, so a wake-up that comes to nothing would leave another waiter asleep
/// beside an element. A wake-up is used by an attempt that begins after it; leave() passes on all others.
class queue_watch : queue_waiter {
 public:
  explicit queue_watch(select_thread& t) noexcept : queue_waiter(how), thread_(t) {}

  /// Lists the watch unless it is. A watch that was listed before comes in front of the others.
  void list(event_count& events) noexcept {
    if (is_listed_) return;
    thread_.add_reference();
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
        thread_.release();
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
    select_thread& thread = self.thread_;
    // [U2] release, pairs with [U1]; from here on the watch may be listed again. not modelled: see [U1]
    self.has_come_.store(true, std::memory_order_release);
    thread.parker.unpark();
    thread.release();
  }
  static constexpr operations how{&reserve, &notify};

  select_thread& thread_;
  atomic<bool> has_come_{false};
  bool is_listed_ = false;
  bool was_listed_ = false;
  bool has_wake_up_ = false;  // which no attempt has used
};

/// Wakes the thread when a result is ready.
class result_watch : continuation {
 public:
  explicit result_watch(select_thread& t) noexcept : continuation(&wake), thread_(t) {}

  void list(result_word& word) noexcept {
    if (is_listed_) return;
    thread_.add_reference();
    is_listed_ = word.add(*this);
    if (!is_listed_) thread_.release();  // it is ready, as the attempt to come finds
  }
  void look() noexcept {}
  void attempted() noexcept {}
  void leave(result_word& word) noexcept {
    if (is_listed_ && word.remove(*this)) thread_.release();
  }

 private:
  static continuation* wake(continuation& c) noexcept {
    select_thread& thread = static_cast<result_watch&>(c).thread_;
    thread.parker.unpark();
    thread.release();
    return nullptr;
  }

  select_thread& thread_;
  bool is_listed_ = false;
};

}  // namespace async::detail
