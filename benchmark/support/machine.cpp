// SPDX-License-Identifier: BSL-1.0
#include "machine.hpp"

#include <sched.h>   // for sched_getaffinity, sched_setaffinity
#include <unistd.h>  // for sysconf

#include <ctime>     // for clock_gettime
#include <fstream>   // for ifstream
#include <optional>  // for optional
#include <string>    // for string

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

/// The value of a "key : value" or "key=value" line of a file, without quotes.
std::optional<std::string> line_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t start = line.find_first_not_of(" \t:=\"", key.size());
    if (start == std::string::npos) continue;
    const std::size_t end = line.find_last_not_of(" \"");
    return line.substr(start, end - start + 1);
  }
  return std::nullopt;
}

}  // namespace

std::size_t processors() { return usable().size(); }

void pin_to_processor(std::size_t n) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(usable()[n % usable().size()], &set);
  ::sched_setaffinity(0, sizeof set, &set);  // a failure leaves the thread unpinned: slower, not wrong
}

nanoseconds line_round_trip() {
  if (processors() < 2) return nanoseconds(0);
  constexpr int rallies = 15, trips = 100;
  alignas(128) std::atomic<int> ball{0};
  std::vector<nanoseconds> times;
  const auto play = [&](std::size_t side) {
    for (int rally = 0; rally < rallies; ++rally) {
      const wall_clock::time_point start = wall_clock::now();
      for (int i = 0; i < trips; ++i) {
        const int mine = 2 * (rally * trips + i) + static_cast<int>(side);
        while (ball.load(std::memory_order_acquire) != mine) {
        }
        ball.store(mine + 1, std::memory_order_release);
      }
      if (side == 0) times.push_back(nanoseconds(wall_clock::now() - start) / trips);
    }
  };
  run_together(2, [](std::size_t) {}, play);
  std::nth_element(times.begin(), times.begin() + rallies / 2, times.end());
  return times[rallies / 2];  // the median: an interrupt must not pass for a distant core
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::string processor_name() { return line_of("/proc/cpuinfo", "model name").value_or("unknown processor"); }

std::string system_name() { return line_of("/etc/os-release", "PRETTY_NAME").value_or("unknown system"); }

nanoseconds clock_cost() {
  static const nanoseconds cost = [] {
    nanoseconds least = std::chrono::hours(1);
    for (int i = 0; i < 20; ++i) {
      constexpr int calls = 1'000;
      const wall_clock::time_point begin = wall_clock::now();
      for (int c = 1; c < calls; ++c) wall_clock::now();
      least = (std::min)(least, nanoseconds(wall_clock::now() - begin) / calls);
    }
    return least;
  }();
  return cost;
}

nanoseconds process_cpu_time() {
  std::timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace bench
