// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <condition_variable>  // for condition_variable
#include <limits>              // for numeric_limits
#include <mutex>               // for mutex, lock_guard, unique_lock
#include <thread>              // for yield
#include <utility>             // for exchange

#include "async/detail/queue/event_count.hpp"   // for event_count
#include "async/detail/queue/queue_result.hpp"  // for queue_result
#include "async/detail/queue/queue_waiter.hpp"  // for queue_waiter

namespace testing {

/// A thread that waits for a queue as flows and coroutines do: it is listed there, and notified.
class listed_thread : public async::detail::queue_waiter {
 public:
  using result = async::detail::queue_result;
  static constexpr unsigned endless = (std::numeric_limits<unsigned>::max)();

  listed_thread() : queue_waiter(table) {}

  /// Waits while attempt() says `blocked`; gives up after `patience` yields, also if it was chosen during the last one.
  result wait(async::detail::event_count& events, unsigned patience, auto attempt) {
    result r = attempt();
    if (r != result::blocked) return r;
    for (bool again = false;; again = true) {
      events.add(*this, again);
      if (r = attempt(); r != result::blocked) {
        if (!events.remove(*this)) pass_on(events);
        return r;
      }
      if (!is_told(patience)) {
        if (events.remove(*this)) return r;
        ++chosen_too_late;
        pass_on(events);
        return r;
      }
      ++notified;
      if (r = attempt(); r != result::blocked) return r;
      ++in_vain;
    }
  }

  std::size_t notified = 0;         // in time
  std::size_t in_vain = 0;          // of these: another thread was faster
  std::size_t chosen_too_late = 0;  // withdrew, and passed the notification on

 private:
  void pass_on(async::detail::event_count& events) {
    is_told(endless);
    events.wake(1);
  }
  bool is_told(unsigned patience) {
    std::unique_lock hold(mutex_);
    if (patience == endless) condition_.wait(hold, [this] { return told_; });
    for (; patience != 0 && !told_; --patience) {
      hold.unlock();
      std::this_thread::yield();
      hold.lock();
    }
    return patience != 0 && std::exchange(told_, false);
  }
  static void nothing(queue_waiter&) noexcept {}
  static void tell(queue_waiter& w) noexcept {
    auto& its = static_cast<listed_thread&>(w);
    const std::lock_guard hold(its.mutex_);
    its.told_ = true;
    its.condition_.notify_one();
  }
  static constexpr operations table{nothing, tell};

  std::mutex mutex_;
  std::condition_variable condition_;
  bool told_ = false;
};

}  // namespace testing
