// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace async::inline v0_1::detail {

/// The driver of workers and of threads that wait for tasks: one turn after the other until it is done.
///
/// A role says what the phases of a turn are: `worker_role` (worker_role.hpp) for the thread of a worker, `wait_role`
/// (pool_wait.hpp) for a thread that waits for tasks.
///
/// maintain()  Schedules the event loops whose timers are due.
/// is_done()   Whether to return.
/// run_next()  Takes the next task or event loop, and runs it. False: there is none.
/// spin()      Looks for work for some microseconds, if that pays. True: there may be some.
/// park()      Announces sleep, looks at every source of work once more, and sleeps until woken.
template <class Role>
void drive(Role& role) {
  for (;;) {
    role.maintain();
    if (role.is_done()) return;
    if (role.run_next() || role.spin()) continue;
    role.park();
  }
}

inline constexpr unsigned tasks_per_turn = 16;  // that a thread runs between two looks at loops
inline constexpr unsigned yields_of_pools = 8;  // in the spin phase

}  // namespace async::inline v0_1::detail
