// SPDX-License-Identifier: BSL-1.0
//
// The heavy fence when a filter that the program installs late forbids the system call membarrier.
#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "async/detail/base/platform.hpp"
#include "async/threadpool.hpp"
#include "support/child.hpp"
#include "support/scale.hpp"

using async::detail::heavy_fence;
using testing::ending;
using testing::in_child;

namespace {

constexpr std::uint32_t every_command = 0;

/// From here on membarrier fails with EPERM in this process: with this command, or with every one. False: the system
/// installs no filters.
bool forbid_membarrier(std::uint32_t command) {
  const auto number = static_cast<std::uint32_t>(SYS_membarrier);
  const auto load = [](std::size_t from) {
    return sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(from)};
  };
  const sock_filter allow{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
  const sock_filter refuse{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM};
  sock_filter rules[] = {
      load(offsetof(seccomp_data, nr)),           {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, number}, allow,
      load(offsetof(seccomp_data, args)),  // the low half, on machines that store it first
      {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, command}, command == every_command ? refuse : allow, refuse,
  };
  const sock_fprog program{static_cast<unsigned short>(sizeof rules / sizeof rules[0]), rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

bool system_has(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

/// Whether there is something to test; prints why not.
bool can_test() {
  const char* reason = nullptr;
  if (ASYNCSTEPS_TSAN != 0) reason = "ThreadSanitizer has a fence of its own";
  if (testing::emulated()) reason = "an emulator has no filters";
  if (reason == nullptr && !async::detail::platform::heavy_fence_registered()) reason = "the system has no membarrier";
  if (reason == nullptr && in_child([] { ::_exit(forbid_membarrier(every_command) ? 0 : 1); }).exit_code != 0) {
    reason = "the system installs no filters";
  }
  if (reason != nullptr) std::printf("not tested: %s\n", reason);
  return reason == nullptr;
}

}  // namespace

TEST_CASE("a filter that comes late and forbids membarrier ends the program with a message") {
  if (!can_test()) return;
  const ending e = in_child([] {
    heavy_fence();
    if (!forbid_membarrier(every_command)) ::_exit(1);
    heavy_fence();
  });
  CHECK(e.aborted());
  CHECK(e.error.find("membarrier has worked and fails now (Operation not permitted)") != std::string::npos);
  CHECK(e.error.find("-DASYNCSTEPS_REMOTE_FENCE=0") != std::string::npos);
}

TEST_CASE("a pool does not lose wake-ups silently under such a filter") {
  if (!can_test()) return;
  const ending e = in_child([] {
    async::threadpool pool(1);
    pool.post([] {}).get();
    if (!forbid_membarrier(every_command)) ::_exit(1);
    async::threadpool late(1);  // its worker is under the filter, the other pool's is not
    for (int i = 0; i < 1'000; ++i) late.post([] {}).get();
  });
  CHECK(e.aborted());
  CHECK(e.error.find("membarrier has worked and fails now") != std::string::npos);
}

TEST_CASE("the system-wide command takes the place of one that is forbidden") {
  if (!can_test()) return;
  if (!system_has(MEMBARRIER_CMD_GLOBAL)) {
    std::printf("not tested: the system has no system-wide membarrier\n");
    return;
  }
  const ending e = in_child([] {
    if (!forbid_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) ::_exit(1);
    for (int i = 0; i < 3; ++i) heavy_fence();
    async::threadpool pool(1);
    ::_exit(pool.post([] { return 4; }).get());
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 4);
}

TEST_CASE("under a filter that was there before the program, both fences are full ones") {
  if (!can_test()) return;
  const ending e = in_child([] {
    using namespace async::detail::platform;
    if (!forbid_membarrier(every_command)) ::_exit(1);
    fence_state.store(fence_kind::unknown, std::memory_order_relaxed);  // as when the program starts
    if (async::detail::light_fence_is_free()) ::_exit(2);
    heavy_fence();
    async::threadpool pool(1);
    ::_exit(pool.post([] { return 4; }).get());
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 4);
}
