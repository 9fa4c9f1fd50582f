// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"  // for wait_clock
#include "async/detail/base/chrono.hpp"   // for microseconds, milliseconds
#include "async/detail/base/min_max.hpp"  // for min_of

namespace async::inline v0_1::detail {

/// Decides how long a worker goes on with one kind of work, tasks or turns of loops, before the other kind is next: for
/// one item; or, after a single item of the other kind that took more than 100 us, as long as that, up to 10 ms. So
/// neither kind waits for the other one many times longer than it runs itself.
///
/// It looks at the clock in each of 16 changes after a long item, and in the first two after a sleep; else after 16
/// changes or 64 tasks. One thread's.
class turn_share {
 public:
  using time_point = wait_clock::time_point;

  /// Whether the worker is to go on with the same kind.
  bool goes_on() noexcept {
    if (ends_ == time_point() || wait_clock::now() >= ends_) return false;
    has_gone_on_ = true;
    return true;
  }

  /// The other kind is next. `may_extend`: what has run last was not of that kind. `tasks`: how many this thread has
  /// run. True: it took long.
  bool change(bool may_extend, std::uint64_t tasks) noexcept {
    const bool was_single = !std::exchange(has_gone_on_, false);
    ends_ = {};
    if (close_looks_ == 0 && ++changes_ < period && tasks - tasks_ < most_tasks) return false;
    const bool is_of_one = was_single && close_looks_ != 0;
    changes_ = 0;
    tasks_ = tasks;
    const time_point now = wait_clock::now();
    const time_point since = std::exchange(since_, now);
    const bool took_long = since != time_point() && now - since >= long_item;
    if (took_long) {
      if (is_of_one && may_extend) ends_ = now + min_of(now - since, wait_clock::duration(most));
      close_looks_ = period;
    } else if (close_looks_ != 0) {
      --close_looks_;
    }
    return took_long;
  }
  /// Whether no item has taken long lately: a few may run without a change between them.
  bool are_items_short() const noexcept { return close_looks_ == 0; }
  /// One more item runs without a change. It counts as one, so that looks at the clock stay as frequent.
  void add_item() noexcept { ++changes_; }
  /// There is nothing of the kind that was to go on.
  void end() noexcept { ends_ = {}; }
  /// The worker is about to sleep.
  void rest() noexcept {
    ends_ = since_ = {};
    close_looks_ = 2;
  }

 private:
  static constexpr std::chrono::microseconds long_item{100};
  static constexpr std::chrono::milliseconds most{10};

  static constexpr unsigned period = 16;
  static constexpr std::uint64_t most_tasks = 64;

  bool has_gone_on_ = false;  // the same kind has had more than one item
  unsigned changes_ = 0;      // since the last look at the clock
  std::uint64_t tasks_ = 0;   // at the last look at the clock
  unsigned close_looks_ = 2;  // so many changes are still to look at the clock
  time_point since_{};        // the last look at the clock; the beginning of time: before a sleep
  time_point ends_{};         // until then the worker goes on with the same kind
};

}  // namespace async::inline v0_1::detail
