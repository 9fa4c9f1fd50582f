// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for ptrdiff_t
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"      // for atomic
#include "async/detail/base/config.hpp"       // for cache_line
#include "async/detail/base/platform.hpp"     // for prefetch_for_write
#include "async/detail/loop/loop_host.hpp"    // for loop_host
#include "async/detail/loop/loop_wake.hpp"    // for loop_wake
#include "async/detail/pool/loop_slot.hpp"    // for loop_slot
#include "async/detail/pool/pool_timers.hpp"  // for pool_timers
#include "async/event_loop.hpp"               // for event_loop

namespace async::inline v0_1::detail {

class pool_core;

/// An event loop of a pool. No worker owns it: whenever it has work it is queued, and a worker that is free runs one
/// turn of it. So nothing in a loop waits for a worker that is busy elsewhere, and loops spread over the workers.
///
/// Each worker's loop() is one, and each flow on a pool has one of its own while it lives, as has each branch of
/// parallel(). A loop whose flow has ended is spare: it serves the next flow.
///
/// Threads     `slot.word` says which thread has the loop; the members without another remark belong to that thread.
/// Lifetime    until the pool's end: messages to a flow that has gone may still arrive.
struct alignas(cache_line) hosted_loop {
  /// `wake(address of this)` schedules the loop.
  hosted_loop(pool_core& its_pool, loop_slot& its_slot, const pool_timers& timers, bool of_flows,
              loop_wake::function wake)
      : pool(its_pool),
        slot(its_slot),
        is_for_flows(of_flows),
        loop(loop_wake(wake, this), timers.origin()),
        host(core_of(loop)) {
    slot.loop = this;
  }

  loop_core& core() const noexcept { return host.core(); }

  /// By the thread that has the loop, at the end of a turn.
  void set_first_timer(const void* t) noexcept { first_timer_.store(t, std::memory_order_relaxed); }
  /// Asks for the memory of a flow that waits for a timer: the timer lies in the flow's arena, behind the flow. By any
  /// thread.
  void prefetch_flow() const noexcept {
    constexpr int lines_before = 4;
    const auto* const timer = static_cast<const char*>(first_timer_.load(std::memory_order_relaxed));
    if (timer == nullptr) return;
    for (int line = -lines_before; line != 2; ++line)
      prefetch_for_write(timer + line * static_cast<std::ptrdiff_t>(cache_line));
  }

  pool_core& pool;
  loop_slot& slot;
  const bool is_for_flows;            // false: a worker's
  bool is_spare = false;              // it has no flow, and is in a list of spare loops
  std::uint32_t ran_on = 0;           // the worker of the last turn, by its number plus one; 0: none
  hosted_loop* next_spare = nullptr;  // the next in a list of spare loops
  hosted_loop* next_of_all = nullptr;
  event_loop loop;
  loop_host host;

 private:
  // relaxed, always: only prefetched
  atomic<const void*> first_timer_{nullptr};
};

}  // namespace async::inline v0_1::detail
