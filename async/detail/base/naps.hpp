// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>  // for microseconds

#include "async/detail/base/atomics.hpp"  // for wait_clock, under_model
#include "async/detail/base/config.hpp"   // for ASYNCSTEPS_SHARED
#include "async/detail/base/min_max.hpp"  // for min_of

namespace async::inline v0_1::detail {

/// A look after the pool, taken by its threads now and then while their tasks sleep: lets the pool's other tasks and
/// loops go on, since one of them may be what the task waits for. True: it has turned a loop. Null on all other
/// threads.
using pool_look = bool (*)() noexcept;
ASYNCSTEPS_SHARED inline constinit thread_local pool_look look_after_pool = nullptr;

/// Calls sleep(deadline), which returns true when it was woken, and false at the deadline (null: no limit). On a thread
/// of a pool it is called for naps of 250 us to 8 ms, with a look at the pool in between. Returns what sleep() does.
template <class Sleep>
bool sleep_in_naps(const wait_clock::time_point* deadline, Sleep sleep) {
  if constexpr (!under_model) {
    constexpr std::chrono::microseconds first(250), longest(8000);
    if (look_after_pool != nullptr) {
      bool has_turned = false;
      for (std::chrono::microseconds nap = first;; nap = has_turned ? first : min_of(2 * nap, longest)) {
        const wait_clock::time_point now = wait_clock::now();
        if (deadline != nullptr && *deadline <= (has_turned ? now : now + nap)) break;
        const wait_clock::time_point next = has_turned ? wait_clock::time_point() : now + nap;  // none: no system call
        if (sleep(&next)) return true;
        has_turned = look_after_pool();
      }
    }
  }
  return sleep(deadline);
}

}  // namespace async::inline v0_1::detail
