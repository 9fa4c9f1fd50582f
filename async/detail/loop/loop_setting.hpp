// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for atomic
#include "async/time_source.hpp"          // for time_source

namespace async::inline v0_1::detail {

class loop_core;

/// What a loop knows of those who made it and run it. A loop with a thread has its own; the loops of a pool's flows
/// share some, since there are many of them.
///
/// Threads     written before another thread reaches the loop, then read by any; those with a thread, also in a child
///             of fork(), where there is one thread.
/// Lifetime    until `destroy` has been called for the last loop.
struct loop_setting {
  using view = const loop_core* (*)() noexcept;

  void (*wake)(loop_core& of) = nullptr;              // called by any thread when the loop has got work; null: none
  view current = nullptr;                             // the loop that the calling thread is in, see loop_core::view
  void (*closed)(loop_core& of) noexcept = nullptr;   // called at the end of close(); null: none
  void (*destroy)(loop_core& of) noexcept = nullptr;  // called for the last reference
  const time_source* source = nullptr;                // null: the steady clock
  const atomic<bool>* left_behind = nullptr;          // null: never; see loop_core::is_left_behind()
};

}  // namespace async::inline v0_1::detail
