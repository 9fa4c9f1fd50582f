// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <dlfcn.h>    // for dlsym
#include <pthread.h>  // for pthread_create

#include <atomic>   // for atomic
#include <cerrno>   // for EAGAIN
#include <cstddef>  // for size_t
#include <limits>   // for numeric_limits

/// Lets the system refuse threads. Include it in one file of a test program only: it stands in for pthread_create().
///
///   testing::fail_thread failing(k);     // the k-th thread from here on (0: the next) and all later ones cannot start
///   testing::fail_thread failing(k, f);  // calls f() on the thread that is refused one, before it learns of that
namespace testing {

namespace threads {
inline constexpr std::size_t never = (std::numeric_limits<std::size_t>::max)();
inline std::atomic<std::size_t> left{never};
inline std::atomic<void (*)()> at_failure{nullptr};  // called before the refusal

inline bool may_start() noexcept {
  std::size_t now = left.load(std::memory_order_relaxed);
  while (now != never) {
    if (now == 0) {
      if (void (*const call)() = at_failure.load()) call();
      return false;
    }
    if (left.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) return true;
  }
  return true;
}
}  // namespace threads

class fail_thread {
 public:
  explicit fail_thread(std::size_t after, void (*at_failure)() = nullptr) {
    threads::at_failure = at_failure;
    threads::left = after;
  }
  ~fail_thread() { stop(); }
  fail_thread(const fail_thread&) = delete;
  fail_thread& operator=(const fail_thread&) = delete;
  void stop() { threads::left = threads::never; }
};

}  // namespace testing

/// Where a sanitizer stands in for it, linked into the program as clang does.
extern "C" [[gnu::weak]] int __interceptor_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument)
#if defined(__GLIBC__)
    noexcept
#endif
{
  using function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto next = __interceptor_pthread_create != nullptr
                               ? &__interceptor_pthread_create
                               : reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_create"));
  return testing::threads::may_start() ? next(thread, attributes, start, argument) : EAGAIN;
}
