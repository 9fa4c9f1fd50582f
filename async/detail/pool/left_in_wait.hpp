// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for int64_t

#include "async/detail/base/min_max.hpp"      // for min_of
#include "async/detail/pool/participant.hpp"  // for participant
#include "async/detail/pool/pool_core.hpp"    // for size

namespace async::inline v0_1::detail {

/// While it lives, a thread that waits runs tasks of others. What these leave in its deque is not its own task's, nor
/// is then what lies below: other threads run that. On a paused pool there are none, and the task's next wait runs all.
class left_in_wait {
 public:
  explicit left_in_wait(participant& p) noexcept : part_(p), lowest_(p.own.position()) {}
  ~left_in_wait() { note(part_, lowest_); }
  left_in_wait(const left_in_wait&) = delete;
  left_in_wait& operator=(const left_in_wait&) = delete;

  /// After the task has been taken.
  void begin_task() noexcept { lowest_ = min_of(lowest_, part_.own.position()); }

  /// The same in a call: tasks that have been run since the position was `lowest` leave what lies above.
  [[gnu::always_inline]] static void note(participant& p, std::int64_t lowest) noexcept {
    const std::int64_t end = p.own.position();
    if (end > lowest) [[unlikely]] {
      leave(p, end);
    } else if (p.made_from > end) [[unlikely]] {
      p.made_from = end;
    }
  }

 private:
  [[gnu::noinline]] static void leave(participant& p, std::int64_t end) noexcept {
    p.made_from = p.pool.size() != 0 ? end : min_of(p.made_from, end);
  }

  participant& part_;
  std::int64_t lowest_;  // what lies above is left by these tasks
};

}  // namespace async::inline v0_1::detail
