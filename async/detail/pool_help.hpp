// SPDX-License-Identifier: BSL-1.0
// floor: 13
#pragma once
#include <algorithm>  // for min
#include <utility>    // for exchange

#include "async/detail/backoff.hpp"    // for backoff
#include "async/detail/pool_core.hpp"  // for pool_core

namespace async::detail {

template <class Ready>
void pool_core::help_until(const Ready ready) {
  worker* const w = own_worker();
  const inside here(this);
  driven_loops* const loops = w != nullptr && current_loop == nullptr ? &w->loops : nullptr;
  if (w == nullptr) census_.helper_comes();
  bool searching = false;
  unsigned tasks_left = 0;  // before the next look at the loops
  auto nap = first_nap;
  while (!ready()) {
    taken t;
    if (loops != nullptr && tasks_left == 0) {
      if (mind(*w, searching)) {
        if (loops->were_active()) nap = first_nap;  // else the turn has only ended a sleep
        if (ready()) break;
      }
      tasks_left = loops->tasks_per_look();
    }
    if (take(w, t)) {
      if (std::exchange(searching, false)) end_search();
      run(w, t);
      nap = first_nap;
      if (tasks_left != 0) --tasks_left;
      continue;
    }
    tasks_left = 0;
    backoff pause;
    bool again = false;
    while (!again && !pause.exhausted(8)) {
      pause.wait();
      again = ready() || has_work() || (loops != nullptr && loops->has_work());
    }
    if (again) continue;
    sleepers::sleeper place;
    sleepers::sleeper& bed = w != nullptr ? w->bed : place;
    bed.is_ready = [](const void* condition) noexcept { return (*static_cast<const Ready*>(condition))(); };
    bed.condition = &ready;
    sleepers_.announce(bed, searching);
    auto deadline = wait_clock::now() + nap;
    if (ready() || has_work() || (loops != nullptr && !may_sleep(*w, deadline))) {
      searching = sleepers_.cancel(bed);
    } else {
      searching = sleepers_.park_until(bed, deadline);
      nap = (std::min)(2 * nap, last_nap);
    }
    bed.is_ready = nullptr;
  }
  if (searching) end_search();
  if (w == nullptr) {
    census_.helper_goes();
    idle_.notify();
  }
}

}  // namespace async::detail
