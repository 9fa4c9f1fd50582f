// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <linux/filter.h>   // for sock_filter, sock_fprog
#include <linux/seccomp.h>  // for seccomp_data
#include <sys/prctl.h>      // for prctl
#include <sys/syscall.h>    // for SYS_membarrier
#include <unistd.h>         // for _exit

#include <cerrno>   // for EPERM
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t
#include <cstdio>   // for printf

#include "async/detail/base/platform.hpp"  // for heavy_fence_registered
#include "support/child.hpp"               // for in_child
#include "support/scale.hpp"               // for emulated

namespace testing {

inline constexpr std::uint32_t every_command = 0;

/// From here on membarrier fails with EPERM in this process: with this command, or with every one. False: the system
/// installs no filters.
inline bool forbid_membarrier(std::uint32_t command) {
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

/// Whether the process uses membarrier, and a filter can forbid it; prints why not. While it has one thread.
inline bool can_forbid_membarrier() {
  const char* reason = nullptr;
  if (ASYNCSTEPS_TSAN != 0) reason = "ThreadSanitizer has a fence of its own";
  if (emulated()) reason = "an emulator has no filters";
  if (reason == nullptr && !async::detail::platform::heavy_fence_registered()) reason = "the system has no membarrier";
  if (reason == nullptr && in_child([] { ::_exit(forbid_membarrier(every_command) ? 0 : 1); }).exit_code != 0) {
    reason = "the system installs no filters";
  }
  if (reason != nullptr) std::printf("not tested: %s\n", reason);
  return reason == nullptr;
}

}  // namespace testing
