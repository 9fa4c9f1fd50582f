// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"     // for ASYNCSTEPS_SHARED
#include "async/detail/loop/loop_core.hpp"  // for loop_core, current_loop

namespace async::inline v0_1::detail {

/// The event loop in whose turn the calling thread waits, and runs tasks meanwhile; null: none.
ASYNCSTEPS_SHARED inline constinit thread_local const loop_core* loop_of_wait = nullptr;

/// True in a callback of an event loop, such as a step of a flow: a wait would stop the loop. False in tasks that a
/// callback runs: in a wait, by fork and join, or because the pool's queue is full.
inline bool is_in_callback() noexcept { return current_loop != nullptr && current_loop != loop_of_wait; }

/// While it lives, the calling thread runs tasks inside a wait, or its part of a loop or group. If that is in the turn
/// of an event loop, these tasks may wait, too, as they may on other threads: the event loop stands still already.
class wait_in_turn {
 public:
  wait_in_turn() noexcept : before_(std::exchange(loop_of_wait, current_loop)) {}
  ~wait_in_turn() { loop_of_wait = before_; }
  wait_in_turn(const wait_in_turn&) = delete;
  wait_in_turn& operator=(const wait_in_turn&) = delete;

 private:
  const loop_core* const before_;
};

}  // namespace async::inline v0_1::detail
