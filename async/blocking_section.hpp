// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/own_section.hpp"  // for own_section

namespace async::inline v0_1 {

/// While it lives, the calling task is about to block, and its threadpool has another worker in its place.
///
///   pool.post([] {
///     const async::blocking_section here;
///     return read_all(stdin);  // the pool's other tasks and flows go on
///   });
///
/// Use it in a task, or in a step of a flow, for a call that blocks now and then, and that nothing else can turn into
/// a wait: a system call, a driver, a lock that is held for long, a barrier or promise of other tasks. Do not use it
/// for calls that block each time (blocking_pool, whose threads are kept), for less than 0.1 ms (starting a thread,
/// until it runs its first task, takes about as long), nor around waits of this library, for which pools have
/// stand-ins.
///
/// Threads     any. It has an effect on threads that a pool has started, and for that pool, also while they help
///             another one. Elsewhere, in the pool's hooks, and inside another section of the same thread it does
///             nothing. Ends on the thread that made it, in reverse order, as a variable of a function does.
/// Workers     as many tasks as before run beside those in sections. When a section ends, there is one worker more
///             until one of them has ended its current task. size() does not change. A pool has at most 512 workers
///             more. Where a step runs on a pool's lookout (see threadpool), the pool has another lookout instead.
///             Sections beyond that, in a paused pool, or whose thread cannot start hold up their workers, so that
///             tasks which wait for each other can deadlock. The next section, or configurepool(), tries again.
/// Progress    takes a mutex, and starts a thread.
/// Exceptions  none. If no thread can be started, the section goes on without one.
/// Flows       in a step, its own flow waits; other flows, timers and messages go on.
/// Example     test/example/blocking.cpp
class blocking_section {
 public:
  [[nodiscard("the section ends with this object: give it a name")]]  //
  blocking_section() noexcept = default;
  blocking_section(const blocking_section&) = delete;
  blocking_section& operator=(const blocking_section&) = delete;

 private:
  const detail::own_section section_;
};

}  // namespace async::inline v0_1
