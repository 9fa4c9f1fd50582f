// SPDX-License-Identifier: BSL-1.0
#include "machine.hpp"

#include <sched.h>   // for sched_getaffinity, sched_setaffinity
#include <unistd.h>  // for sysconf

#include <ctime>    // for clock_gettime
#include <fstream>  // for ifstream
#include <string>   // for string

namespace bench {
namespace {

const std::vector<std::size_t>& usable() {
  static const std::vector<std::size_t> list = [] {
    std::vector<std::size_t> found;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0) {
      for (std::size_t i = 0; i < CPU_SETSIZE; ++i) {
        if (CPU_ISSET(i, &set)) found.push_back(i);
      }
    }
    if (found.empty()) found.push_back(0);
    return found;
  }();
  return list;
}

}  // namespace

std::size_t processors() { return usable().size(); }

void pin_to_processor(std::size_t n) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(usable()[n % usable().size()], &set);
  ::sched_setaffinity(0, sizeof set, &set);  // a refusal leaves the thread where it is: slower, not wrong
}

nanoseconds line_round_trip() {
  if (processors() < 2) return nanoseconds(0);
  constexpr int trips = 1000;
  alignas(128) std::atomic<int> ball{0};
  const auto play = [&ball](std::size_t side) {
    for (int i = 0; i < trips; ++i) {
      const int mine = 2 * i + static_cast<int>(side);
      while (ball.load(std::memory_order_acquire) != mine) {
      }
      ball.store(mine + 1, std::memory_order_release);
    }
  };
  return run_together(2, [](std::size_t) {}, play) / trips;
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

nanoseconds process_cpu_time() {
  std::timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace bench
