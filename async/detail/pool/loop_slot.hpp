// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"      // for atomic
#include "async/detail/base/config.hpp"       // for cache_line
#include "async/detail/pool/pool_timers.hpp"  // for alarm
#include "async/detail/pool/turn_word.hpp"    // for turn_word
#include "async/priority.hpp"                 // for priority

namespace async::inline v0_1::detail {

struct pool_loop;

/// A pool's loop as timers and queues of loops see it: its alarm, its place in the backlog, and whether it waits for a
/// turn. One cache line.
///
/// The slots of a pool's flows lie next to each other, apart from the loops. So the timers of 50,000 flows take 3 MiB,
/// which a processor keeps in its cache, and not a cache miss for each timer that is armed, moved or fired.
struct alignas(cache_line) loop_slot : pool_timers::alarm {
  pool_loop* loop = nullptr;    // set by its constructor
  loop_slot* behind = nullptr;  // the next in the backlog
  turn_word word;
  atomic<bool> is_due{false};  // its alarm has fired: the next turn looks at the clock
  // Where it is queued. Written by the thread that has the loop in a turn, read by the one that has scheduled it.
  priority level = priority::normal;
};
static_assert(sizeof(loop_slot) == cache_line);

}  // namespace async::inline v0_1::detail
