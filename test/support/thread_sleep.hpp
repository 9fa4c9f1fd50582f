// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <sys/types.h>  // for pid_t

#include <fstream>  // for ifstream
#include <string>   // for string, to_string
#include <thread>   // for yield

namespace testing {

/// Returns once this thread of the process sleeps in the system. Linux only.
inline void wait_for_sleep_of(pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  for (;; std::this_thread::yield()) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    const std::size_t name_end = line.rfind(')');
    if (name_end != std::string::npos && line.compare(name_end, 3, ") S") == 0) return;
  }
}

}  // namespace testing
