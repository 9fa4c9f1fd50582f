// SPDX-License-Identifier: BSL-1.0
//
// The quota of control groups, read from folders that look like the system's.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "async/detail/base/processors.hpp"

namespace fs = std::filesystem;

#if ASYNCSTEPS_ON_LINUX
namespace {

/// A folder with files as below `/`.
struct fake_root {
  fake_root() {
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  ~fake_root() { fs::remove_all(folder); }
  fake_root(const fake_root&) = delete;
  fake_root& operator=(const fake_root&) = delete;

  void write(const std::string& path, const std::string& text) const {
    const fs::path file = folder.string() + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  std::size_t cpus() const { return async::detail::platform::read_control_group_cpus(folder.string().c_str()); }

  const fs::path folder = fs::temp_directory_path() / ("asyncsteps-cgroup-" + std::to_string(::getpid()));
};

}  // namespace

TEST_CASE("the quota of the group itself counts, rounded up") {
  const fake_root root;
  root.write("/proc/self/cgroup", "0::/a/b");
  root.write("/sys/fs/cgroup/a/b/cpu.max", "150000 100000");
  CHECK(root.cpus() == 2);
}

TEST_CASE("the least quota of a group and of those around it counts") {
  const fake_root root;
  root.write("/proc/self/cgroup", "0::/a/b/c");
  root.write("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000");
  root.write("/sys/fs/cgroup/a/b/cpu.max", "800000 100000");
  root.write("/sys/fs/cgroup/a/cpu.max", "300000 100000");
  CHECK(root.cpus() == 3);
  root.write("/sys/fs/cgroup/a/b/c/cpu.max", "50000 100000");
  CHECK(root.cpus() == 1);
}

TEST_CASE("in a container the group that the process sees as the root counts") {
  const fake_root root;
  root.write("/proc/self/cgroup", "0::/");
  root.write("/sys/fs/cgroup/cpu.max", "400000 100000");
  CHECK(root.cpus() == 4);
  root.write("/proc/self/cgroup", "0::/../other");  // the process was moved out of what it sees
  CHECK(root.cpus() == 4);
  fs::remove(root.folder.string() + "/proc/self/cgroup");
  CHECK(root.cpus() == 4);
}

TEST_CASE("groups of version 1 count, those around them too, beside a version 2 without the controller") {
  const fake_root root;
  root.write("/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/x/y\n0::/x");
  root.write("/sys/fs/cgroup/cpu/x/y/cpu.cfs_quota_us", "-1");
  root.write("/sys/fs/cgroup/cpu/x/y/cpu.cfs_period_us", "100000");
  root.write("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "250000");
  root.write("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000");
  CHECK(root.cpus() == 3);
}

TEST_CASE("without groups, or without quotas, there is no limit") {
  const fake_root root;
  CHECK(root.cpus() == 0);
  root.write("/proc/self/cgroup", "0::/a");
  root.write("/sys/fs/cgroup/a/cpu.max", "max 100000");
  CHECK(root.cpus() == 0);
}
#else
TEST_CASE("there are control groups on Linux only") {}
#endif
