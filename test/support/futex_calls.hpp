// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <dlfcn.h>        // for dlsym
#include <linux/futex.h>  // for FUTEX_WAIT_BITSET_PRIVATE
#include <sys/syscall.h>  // for SYS_futex
#include <unistd.h>       // for syscall

#include <atomic>   // for atomic
#include <chrono>   // for steady_clock
#include <cstdarg>  // for va_list
#include <cstddef>  // for size_t

/// Counts the sleeps that the library asks the kernel for. Include it in one file of a test program only: it stands in
/// for syscall(). For Linux.
namespace testing {

namespace futex {

inline std::atomic<std::size_t> waits{0};
inline std::atomic<std::size_t> late_waits{0};

/// The kernel's timespec.
struct limit {
  long seconds, nanoseconds;
};

inline void note(const limit* until) noexcept {
  waits.fetch_add(1, std::memory_order_relaxed);
  if (until == nullptr) return;
  const auto at = std::chrono::seconds(until->seconds) + std::chrono::nanoseconds(until->nanoseconds);
  if (at <= std::chrono::steady_clock::now().time_since_epoch()) late_waits.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace futex

/// The calls by all threads since it was made.
class futex_calls {
 public:
  std::size_t waits() const noexcept { return futex::waits.load() - waits_; }
  /// Waits whose limits had passed at the time of the call.
  std::size_t late_waits() const noexcept { return futex::late_waits.load() - late_waits_; }

 private:
  const std::size_t waits_ = futex::waits.load();
  const std::size_t late_waits_ = futex::late_waits.load();
};

}  // namespace testing

extern "C" long syscall(long number, ...)
#if defined(__GLIBC__)
    noexcept
#endif
{
  using function = long (*)(long, ...);
  static constinit std::atomic<function> known{nullptr};
  function next = known.load(std::memory_order_relaxed);
  if (next == nullptr) {
    next = reinterpret_cast<function>(dlsym(RTLD_NEXT, "syscall"));
    known.store(next, std::memory_order_relaxed);
  }
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (long& each : a) each = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_futex && static_cast<int>(a[1]) == FUTEX_WAIT_BITSET_PRIVATE) {
    testing::futex::note(reinterpret_cast<const testing::futex::limit*>(a[3]));
  }
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
