// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>  // for nanoseconds
#include <ctime>   // for clock_gettime

namespace testing {

/// CPU time that all threads of this process have used so far.
inline std::chrono::nanoseconds process_cpu_time() {
  std::timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace testing
