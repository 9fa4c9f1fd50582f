// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <fcntl.h>         // for O_CLOEXEC
#include <poll.h>          // for poll
#include <sys/resource.h>  // for setrlimit
#include <sys/wait.h>      // for waitpid
#include <unistd.h>        // for fork, pipe2, dup2

#include <chrono>   // for seconds, steady_clock
#include <csignal>  // for signal, kill
#include <cstdio>   // for printf, fflush
#include <cstdlib>  // for getenv, abort
#include <utility>  // for exchange

#include "support/child.hpp"  // for ending, keep_counts
#include "support/scale.hpp"  // for emulated

namespace testing {

/// Set in the children of forked.
inline bool is_forked_child = false;

/// How such a child has ended. A child that does not end in time is killed: then `signal` is SIGKILL, and is_late.
struct forked_ending : ending {
  bool is_late = false;
};

/// Why a process with threads cannot fork children that start threads; null: it can.
inline constexpr const char* reason_not_to_fork() {
#if defined(__has_feature)
  constexpr bool is_tsan = __has_feature(thread_sanitizer);
  constexpr bool is_asan = __has_feature(address_sanitizer);
#elif defined(__SANITIZE_THREAD__)
  constexpr bool is_tsan = true, is_asan = false;
#elif defined(__SANITIZE_ADDRESS__)
  constexpr bool is_tsan = false, is_asan = true;
#else
  constexpr bool is_tsan = false, is_asan = false;
#endif
#if defined(__clang__) ? __clang_major__ < 18 : __GNUC__ < 15
  constexpr bool is_old = true;
#else
  constexpr bool is_old = false;
#endif
  if (is_tsan) return "ThreadSanitizer starts no threads in a child of a process with threads";
  if (is_asan && is_old) {
    return "the child may inherit a locked mutex of AddressSanitizer's allocator, before clang 18 and g++ 15";
  }
  return nullptr;
}

/// Whether a process with threads can fork children that start threads: not under some sanitizers, nor in an emulator,
/// whose own locks other threads may hold. Prints why not.
inline bool can_fork_with_threads() {
  static bool is_told = false;
  const char* reason = reason_not_to_fork();
  if (reason == nullptr && emulated()) reason = "the emulator does not fork a process with threads in order";
  if (reason != nullptr && !std::exchange(is_told, true)) std::printf("not tested: %s\n", reason);
  return reason == nullptr;
}

/// Calls fork(), in a process that may have other threads.
class forked {
 public:
  forked() {
    std::fflush(stdout);  // else the child writes it, too
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    child_ = ::fork();
    if (child_ < 0) std::abort();
    output_ = ends[0];
    if (child_ == 0) {
      is_forked_child = true;
      const rlimit no_core{0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      std::signal(SIGABRT, [](int) { keep_counts(); });  // not the test framework's; the process ends after it
      ::dup2(ends[1], 2);
    }
    ::close(ends[1]);
  }
  forked(const forked&) = delete;
  forked& operator=(const forked&) = delete;

  bool is_child() const { return child_ == 0; }

  /// In the parent: waits for the child's end, at most `limit`.
  forked_ending wait(std::chrono::seconds limit = std::chrono::seconds(60)) const {
    forked_ending result;
    const auto end = std::chrono::steady_clock::now() + limit;
    for (char buffer[512];;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd readable{output_, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) == 0) {
        result.is_late = true;
        std::printf("child %d hangs\n", static_cast<int>(child_));
        std::fflush(stdout);
        if (std::getenv("ASYNCSTEPS_TEST_KEEP_HUNG") != nullptr) ::pause();  // for a debugger
        ::kill(child_, SIGKILL);
        break;
      }
      const ssize_t got = ::read(output_, buffer, sizeof buffer);
      if (got <= 0) break;
      result.error.append(buffer, static_cast<std::size_t>(got));
    }
    ::close(output_);
    int status = 0;
    ::waitpid(child_, &status, 0);
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
    return result;
  }

 private:
  pid_t child_ = 0;
  int output_ = -1;
};

/// Runs body() in a child, which then exits with 0 without destructors.
template <class Body>
forked_ending in_forked_child(Body body) {
  const forked child;
  if (child.is_child()) {
    body();
    keep_counts();
    ::_exit(0);
  }
  return child.wait();
}

}  // namespace testing

/// Tells LeakSanitizer that a forked child leaks on purpose, what the parent's threads have.
extern "C" [[gnu::weak]] int __lsan_is_turned_off() { return testing::is_forked_child ? 1 : 0; }
