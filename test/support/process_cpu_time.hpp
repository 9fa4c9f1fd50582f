// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <time.h>  // for clock_gettime

#include <chrono>  // for nanoseconds

namespace testing {

/// CPU time that all threads of this process have used so far.
inline std::chrono::nanoseconds process_cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace testing
