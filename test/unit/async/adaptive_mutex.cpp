// SPDX-License-Identifier: BSL-1.0
//
// The mutex that tries again before it sleeps.
#include "async/detail/base/adaptive_mutex.hpp"

#include <doctest/doctest.h>

#include <mutex>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <unistd.h>

#include <atomic>

#include "support/thread_sleep.hpp"
#endif

using async::detail::adaptive_mutex;

TEST_CASE("one thread at a time has the mutex") {
  constexpr long threads = 4;
  constexpr long rounds = 50'000;
  adaptive_mutex mutex;
  long count = 0;
  bool is_taken = false;
  long seen_taken = 0;
  std::vector<std::thread> all;
  for (long i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      for (long round = 0; round < rounds; ++round) {
        const std::lock_guard lock(mutex);
        if (is_taken) ++seen_taken;
        is_taken = true;
        ++count;
        is_taken = false;
      }
    });
  }
  for (std::thread& each : all) each.join();
  CHECK(count == threads * rounds);
  CHECK(seen_taken == 0);
}

#if defined(__linux__)
TEST_CASE("a thread that waits for long sleeps, and gets the mutex when it is free") {
  adaptive_mutex mutex;
  std::atomic<pid_t> waiter{0};
  bool is_held = false;
  bool was_held = true;
  std::unique_lock held(mutex);
  std::thread other([&] {
    waiter.store(::gettid());
    const std::lock_guard lock(mutex);
    was_held = is_held;
  });
  while (waiter.load() == 0) std::this_thread::yield();
  is_held = true;
  testing::wait_for_sleep_of(waiter.load());
  is_held = false;
  held.unlock();
  other.join();
  CHECK_FALSE(was_held);
}
#endif
