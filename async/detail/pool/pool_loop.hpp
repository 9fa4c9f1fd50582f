// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for byte, ptrdiff_t
#include <cstdint>  // for uint32_t
#include <memory>   // for destroy_at

#include "async/detail/base/atomics.hpp"       // for atomic
#include "async/detail/base/config.hpp"        // for cache_line
#include "async/detail/base/platform.hpp"      // for prefetch_for_write
#include "async/detail/loop/loop_core.hpp"     // for loop_core
#include "async/detail/loop/loop_driver.hpp"   // for loop_driver
#include "async/detail/loop/loop_setting.hpp"  // for loop_setting
#include "async/detail/pool/loop_slot.hpp"     // for loop_slot
#include "async/detail/pool/pool_timers.hpp"   // for pool_timers
#include "async/event_loop.hpp"                // for event_loop

namespace async::inline v0_1::detail {

class pool_core;

/// Memory for a core outside of the loop, and its setting: threads from outside may have references to the core.
struct lone_core : loop_setting {
  explicit lone_core(const loop_setting& its) noexcept : loop_setting(its) {
    destroy = [](loop_core& of) noexcept {
      auto& home = static_cast<lone_core&>(of.setting());
      std::destroy_at(&of);
      delete &home;
    };
  }
  alignas(loop_core) std::byte memory[sizeof(loop_core)];
};

/// An event loop of a pool. No worker owns it: whenever it has work it is queued, and a worker that is free runs one
/// turn of it. So nothing in a loop waits for a worker that is busy elsewhere, and loops spread over the workers.
///
/// Each worker's loop() is one, and each flow on a pool has one of its own while it lives, as has each branch of
/// parallel(). A loop whose flow has ended is spare: it serves the next flow.
///
/// Threads     `slot.word` says which thread has the loop; the members without another remark belong to that thread.
/// Lifetime    until the pool's end: messages to a flow that has gone may still arrive.
struct alignas(cache_line) pool_loop : event_loop {
  /// `memory`: for the core, which `setting.destroy` will free.
  pool_loop(pool_core& its_pool, loop_slot& its_slot, const pool_timers& timers, bool of_flows, loop_setting& setting,
            void* memory) noexcept
      : event_loop(setting, memory, timers.origin()),
        pool(its_pool),
        slot(its_slot),
        is_for_flows(of_flows),
        driver(core_of(*this)) {
    slot.loop = this;
  }
  /// A worker's.
  pool_loop(pool_core& its_pool, loop_slot& its_slot, const pool_timers& timers, lone_core& home) noexcept
      : pool_loop(its_pool, its_slot, timers, false, home, home.memory) {}
  static pool_loop& of(loop_core& core) noexcept { return static_cast<pool_loop&>(core.loop()); }

  loop_core& core() const noexcept { return driver.core(); }

  /// By the thread that has the loop, at the end of a turn.
  void set_last_run(const void* flow) noexcept { last_run_.store(flow, std::memory_order_relaxed); }
  /// Asks for the memory of what the next turn runs: the newest message, and the flow that has run last, whose steps
  /// and timer lie behind it. By any thread.
  void prefetch_work() const noexcept {
    core().prefetch_message();
    constexpr int lines = 7;
    const auto* const flow = static_cast<const char*>(last_run_.load(std::memory_order_relaxed));
    if (flow == nullptr) return;
    for (int line = 0; line != lines; ++line) prefetch_for_write(flow + line * static_cast<std::ptrdiff_t>(cache_line));
  }

  pool_core& pool;
  loop_slot& slot;
  const bool is_for_flows;          // false: a worker's
  bool is_spare = false;            // it has no flow, and is in a list of spare loops
  std::uint32_t ran_on = 0;         // the worker of the last turn, by its number plus one; 0: none
  pool_loop* next_spare = nullptr;  // the next in a list of spare loops
  pool_loop* next_of_all = nullptr;
  loop_driver driver;

 private:
  // relaxed, always: only prefetched
  atomic<const void*> last_run_{nullptr};
};

}  // namespace async::inline v0_1::detail
