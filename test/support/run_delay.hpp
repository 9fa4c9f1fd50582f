// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>        // for nanoseconds
#include <filesystem>    // for directory_iterator
#include <fstream>       // for ifstream
#include <system_error>  // for error_code

namespace testing {

/// How long the threads of this process have been ready to run while other programs had the processors, in all. 0 where
/// the system does not tell.
inline std::chrono::nanoseconds run_delay() {
  long long sum = 0;
  std::error_code unknown;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", unknown)) {
    std::ifstream figures(thread.path() / "schedstat");
    long long ran = 0;
    long long waited = 0;
    if (figures >> ran >> waited) sum += waited;
  }
  return std::chrono::nanoseconds(sum);
}

}  // namespace testing
