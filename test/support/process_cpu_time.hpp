// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <time.h>  // for clock_gettime

#include <chrono>  // for nanoseconds
#include <thread>  // for sleep_for

namespace testing {

/// CPU time that all threads of this process have used so far.
inline std::chrono::nanoseconds process_cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Whether the process uses less CPU time than `most` in some period of this length: its threads sleep then. Looks at
/// up to twenty periods, since on a busy machine threads may take long to fall asleep.
inline bool sleeps_for(std::chrono::nanoseconds period, std::chrono::nanoseconds most) {
  for (int i = 0; i < 20; ++i) {
    const auto before = process_cpu_time();
    std::this_thread::sleep_for(period);
    if (process_cpu_time() - before < most) return true;
  }
  return false;
}

}  // namespace testing
