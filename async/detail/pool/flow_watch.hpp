// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"  // for atomic, wait_clock
#include "async/detail/base/chrono.hpp"   // for milliseconds
#include "async/detail/base/min_max.hpp"  // for min_of

namespace async::inline v0_1::detail {

/// Detects that a pool that stops has only flows left which go on for ever: which never wait, or call the pool again
/// and again. This is so when its workers have found no other task for 100 ms, and in turns of loops and flows' tasks
/// that took as long in all. One of these counts for at most 5 ms, since the system may have suspended the thread.
///
/// Threads     any.
class flow_watch {
 public:
  /// To be called after each turn, and each task of a flow, when there is no other task. `since`: the end of the
  /// worker's last one or, if it has slept or run another task since, the beginning of this one.
  void go_on(wait_clock::time_point& since) noexcept {
    constexpr wait_clock::duration most_of_one = std::chrono::milliseconds(5);
    const wait_clock::time_point now = wait_clock::now();
    const wait_clock::time_point begin = std::exchange(since, now);
    if (spent_.load(std::memory_order_relaxed) == 0) {  // relaxed, all: a guess
      begin_.store(begin.time_since_epoch().count(), std::memory_order_relaxed);
    }
    spent_.fetch_add(min_of(now - begin, most_of_one).count(), std::memory_order_relaxed);
  }
  /// To be called when a worker has another task.
  void end() noexcept {
    if (spent_.load(std::memory_order_relaxed) != 0) spent_.store(0, std::memory_order_relaxed);
  }
  bool are_all() const noexcept {
    constexpr wait_clock::duration enough = std::chrono::milliseconds(100);
    if (spent_.load(std::memory_order_relaxed) <= enough.count()) return false;
    const wait_clock::rep now = wait_clock::now().time_since_epoch().count();
    return now - begin_.load(std::memory_order_relaxed) > enough.count();  // several workers spend more than the time
  }

 private:
  atomic<wait_clock::rep> spent_{0};
  atomic<wait_clock::rep> begin_{0};  // of the first turn; valid unless spent_ is 0
};

}  // namespace async::inline v0_1::detail
