// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/loop/loop_host.hpp"    // for loop_host
#include "async/detail/pool/pool_timers.hpp"  // for pool_timers
#include "async/detail/pool/turn_word.hpp"    // for turn_word
#include "async/event_loop.hpp"               // for event_loop
#include "async/task.hpp"                     // for task

namespace async::detail {

class pool_core;

/// An event loop of a pool. No worker owns it: whenever it has work it is queued, and a worker that is free runs one
/// turn of it. So nothing in a loop waits for a worker that is busy elsewhere, and loops spread over the workers.
///
/// Each worker's loop() is one, and each flow on a pool has one of its own while it lives, as has each branch of
/// parallel(). A loop whose flow has ended is spare: it serves the next flow.
///
/// Threads     `word` says which thread has the loop; the members without another remark belong to that thread.
/// Lifetime    until the pool's end: messages to a flow that has gone may still arrive.
struct hosted_loop {
  /// `wake(loop)` schedules the loop.
  hosted_loop(pool_core& its_pool, const pool_timers& timers, bool of_flows, void (*wake)(hosted_loop&) noexcept)
      : pool(its_pool),
        is_for_flows(of_flows),
        loop(task([this, wake] { wake(*this); }), timers.origin()),
        host(core_of(loop)) {}

  loop_core& core() const noexcept { return host.core(); }
  static hosted_loop& of(pool_timers::alarm& a) noexcept { return static_cast<alarm_of&>(a).loop; }

  struct alarm_of : pool_timers::alarm {
    explicit alarm_of(hosted_loop& l) noexcept : loop(l) {}
    hosted_loop& loop;
  };

  pool_core& pool;
  const bool is_for_flows;  // false: a worker's
  bool is_spare = false;    // it has no flow, and is in a list of spare loops
  turn_word word;
  atomic<bool> is_due{false};         // its alarm has fired: the next turn looks at the clock
  const void* ran_on = nullptr;       // the worker of the last turn
  hosted_loop* behind = nullptr;      // the next in the backlog
  hosted_loop* next_spare = nullptr;  // the next in a list of spare loops
  hosted_loop* next_of_all = nullptr;
  alarm_of alarm{*this};
  event_loop loop;
  loop_host host;
};

}  // namespace async::detail
