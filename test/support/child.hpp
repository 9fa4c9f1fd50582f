// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <sys/resource.h>  // for setrlimit
#include <sys/wait.h>      // for waitpid
#include <unistd.h>        // for fork, pipe, dup2

#include <csignal>  // for signal
#include <cstdio>   // for fflush
#include <string>   // for string

#if defined(ASYNCSTEPS_TEST_COVERAGE)
extern "C" void __gcov_dump();
#endif

namespace testing {

/// Keeps what was counted of the lines of a child process, which ends without destructors.
inline void keep_counts() {
#if defined(ASYNCSTEPS_TEST_COVERAGE)
  __gcov_dump();
#endif
}

/// How a child process has ended.
struct ending {
  int signal = 0;      // 0: it has exited
  int exit_code = -1;  // when it has exited
  std::string error;   // what it wrote to stderr
  bool aborted() const { return signal == SIGABRT; }
};

/// Runs `body` in a copy of this process and reports how that ends: for code that is meant to end the program. Only
/// while this process has no other threads. If `body` returns, the child exits with 0, without any destructors.
template <class Body>
ending in_child(Body body) {
  std::fflush(nullptr);
  int ends[2];
  if (::pipe(ends) != 0) return {};
  const pid_t child = ::fork();
  if (child < 0) return {};
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGABRT, [](int) { keep_counts(); });  // not the test framework's; the process ends after it
    ::dup2(ends[1], 2);
    ::close(ends[0]);
    ::close(ends[1]);
    body();
    std::fflush(nullptr);
    keep_counts();
    ::_exit(0);
  }
  ::close(ends[1]);
  ending result;
  char buffer[512];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    result.error.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

}  // namespace testing
