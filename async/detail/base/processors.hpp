// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t

#include "async/detail/base/config.hpp"    // for ASYNCSTEPS_FUNCTION
#include "async/detail/base/min_max.hpp"   // for max_of, min_of
#include "async/detail/base/platform.hpp"  // for ASYNCSTEPS_ON_LINUX, ASYNCSTEPS_ON_WINDOWS

#if ASYNCSTEPS_DEFINED
#include <atomic>  // for atomic
#include <bit>     // for popcount
#include <cstdio>  // for fopen
#include <string>  // for string
#include <thread>  // for hardware_concurrency
#if ASYNCSTEPS_ON_LINUX
#include <sched.h>
#endif
#endif

/// How many processors the process may use: what the machine has, less what an affinity mask or a container keeps.
namespace async::inline v0_1::detail {

/// The number of threads of this process that can run at the same time, by affinity mask and container quota; at least
/// 1.
std::size_t usable_processors() noexcept;

#if ASYNCSTEPS_ON_LINUX
namespace platform {
/// The least quota of the process's control group and of those around it, as far as the process sees them; in a
/// container the outermost is the container's. 0: no known limit. Version 2 and version 1. `root`: in front of all
/// paths, for tests.
std::size_t read_control_group_cpus(const char* root) noexcept;
}  // namespace platform
#endif

#if ASYNCSTEPS_DEFINED
#if ASYNCSTEPS_ON_LINUX
namespace platform {

/// The number of CPUs that a control group grants: quota / period, rounded up; 0: no known limit.
inline std::size_t cpus_of(long long quota, long long period) noexcept {
  return quota > 0 && period > 0 ? static_cast<std::size_t>((quota + period - 1) / period) : 0;
}

/// One hierarchy of control groups.
struct control_groups {
  const char* mount;
  const char* quota;   // a file in each group: "QUOTA PERIOD" or, if there is another one for the period, "QUOTA"
  const char* period;  // null: none
};

/// The quota of one group, whose folder is `path`; 0: none. A file says "max" or -1 where there is no limit.
inline std::size_t cpus_of_group(const std::string& path, const control_groups& in) {
  long long quota = 0;
  long long period = 0;
  if (std::FILE* const file = std::fopen((path + in.quota).c_str(), "re")) {
    const int fields = std::fscanf(file, "%lld %lld", &quota, &period);
    std::fclose(file);
    if (fields < 1) return 0;
  }
  if (in.period == nullptr) return cpus_of(quota, period);
  if (std::FILE* const file = std::fopen((path + in.period).c_str(), "re")) {
    if (std::fscanf(file, "%lld", &period) != 1) period = 0;
    std::fclose(file);
  }
  return cpus_of(quota, period);
}

/// The path of the process in a hierarchy, by /proc/self/cgroup: lines "NUMBER:CONTROLLERS:PATH", version 2 without
/// controllers. Empty: there is none, or it is outside of what the process sees.
inline std::string control_group_path(const std::string& root, bool is_version_2) {
  std::string found;
  std::FILE* const file = std::fopen((root + "/proc/self/cgroup").c_str(), "re");
  if (file == nullptr) return found;
  std::string line;
  for (int c = 0; c != EOF;) {
    line.clear();
    while ((c = std::fgetc(file)) != EOF && c != '\n') line.push_back(static_cast<char>(c));
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers(",");  // and no operator+: g++ 12 warns of it at -O3
    controllers.append(line, first + 1, second - first - 1).append(",");
    const bool fits = is_version_2 ? controllers == ",," : controllers.find(",cpu,") != std::string::npos;
    if (fits) found = line.substr(second + 1);
  }
  std::fclose(file);
  return found.find("/..") == std::string::npos ? found : std::string();
}

ASYNCSTEPS_FUNCTION std::size_t read_control_group_cpus(const char* root) noexcept {
  constexpr control_groups hierarchies[] = {{"/sys/fs/cgroup", "/cpu.max", nullptr},
                                            {"/sys/fs/cgroup/cpu", "/cpu.cfs_quota_us", "/cpu.cfs_period_us"}};
  std::size_t least = 0;
  try {
    for (const control_groups& all : hierarchies) {
      const std::string mount = std::string(root).append(all.mount);
      std::string path = control_group_path(root, all.period == nullptr);
      for (bool is_outermost = false; !is_outermost;) {
        while (!path.empty() && path.back() == '/') path.pop_back();
        is_outermost = path.empty();
        const std::size_t cpus = cpus_of_group(mount + path, all);
        if (cpus != 0) least = least == 0 ? cpus : min_of(least, cpus);
        const std::size_t parent = path.rfind('/');
        path.resize(parent == std::string::npos ? 0 : parent);
      }
    }
  } catch (...) {  // without memory: what was found
  }
  return least;
}

/// The same, read once: reading the files takes longer than starting a thread.
inline constinit std::atomic<std::size_t> known_cpus{static_cast<std::size_t>(-1)};  // one per module: not read yet
inline std::size_t control_group_cpus() noexcept {
  std::size_t known = known_cpus.load(std::memory_order_relaxed);  // relaxed, both: threads that read find the same
  if (known == static_cast<std::size_t>(-1)) {
    known = read_control_group_cpus("");
    known_cpus.store(known, std::memory_order_relaxed);
  }
  return known;
}

/// The number of processors in the calling thread's affinity mask; 0: unknown.
inline std::size_t affinity_cpus() noexcept {
  for (std::size_t cpus = 1024; cpus <= 1U << 20; cpus *= 4) {
    cpu_set_t* const set = CPU_ALLOC(cpus);
    if (set == nullptr) return 0;
    const std::size_t size = CPU_ALLOC_SIZE(cpus);
    const int count = ::sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : -1;
    CPU_FREE(set);
    if (count > 0) return static_cast<std::size_t>(count);
  }
  return 0;
}

}  // namespace platform
#elif ASYNCSTEPS_ON_WINDOWS
namespace platform {

/// The number of processors that the process is confined to; 0: it is not confined, or they span several groups of 64.
inline std::size_t affinity_cpus() noexcept {
  win_word of_process = 0;
  win_word of_system = 0;
  if (::GetProcessAffinityMask(::GetCurrentProcess(), &of_process, &of_system) == 0) return 0;
  return of_process == of_system ? 0 : static_cast<std::size_t>(std::popcount(of_process));
}

}  // namespace platform
#endif

ASYNCSTEPS_FUNCTION std::size_t usable_processors() noexcept {
  std::size_t count = 0;
#if ASYNCSTEPS_ON_LINUX || ASYNCSTEPS_ON_WINDOWS
  count = platform::affinity_cpus();
#endif
  if (count == 0) count = std::thread::hardware_concurrency();  // which reads a file, on Linux
#if ASYNCSTEPS_ON_LINUX
  if (const std::size_t cpus = platform::control_group_cpus(); cpus != 0) count = min_of(count, cpus);
#endif
  return max_of(count, std::size_t{1});
}
#endif

}  // namespace async::inline v0_1::detail
