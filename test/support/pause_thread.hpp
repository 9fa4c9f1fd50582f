// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <thread>  // for thread
#if !defined(_WIN32)
#include <pthread.h>  // for pthread_kill

#include <atomic>   // for atomic
#include <csignal>  // for signal, SIGUSR1, SIGUSR2
#include <ctime>    // for nanosleep, timespec

#include "support/wait_while.hpp"  // for wait_while
#endif

namespace testing {

/// Makes another thread, which has not been joined, stand still for two milliseconds wherever it is. So what it is
/// about to do comes late. On Windows it goes on.
inline void pause_thread([[maybe_unused]] std::thread& one) {
#if !defined(_WIN32)
  static const auto before = std::signal(SIGUSR1, [](int) {
    const timespec time{0, 2'000'000};
    nanosleep(&time, nullptr);
  });
  static_cast<void>(before);
  pthread_kill(one.native_handle(), SIGUSR1);
#endif
}

#if !defined(_WIN32)
/// Makes another thread, which has not been joined, stand still wherever it is, until the end of the scope. One at a
/// time.
class frozen_thread {
 public:
  explicit frozen_thread(std::thread& one) {
    static const auto before = std::signal(SIGUSR2, [](int) {
      state.store(frozen);
      while (state.load() == frozen) {
        const timespec time{0, 10'000};
        nanosleep(&time, nullptr);
      }
      state.store(running);
    });
    static_cast<void>(before);
    state.store(asked);
    pthread_kill(one.native_handle(), SIGUSR2);
    wait_while<int>(state, asked);
  }
  ~frozen_thread() {
    state.store(thawed);
    wait_while<int>(state, thawed);
  }
  frozen_thread(const frozen_thread&) = delete;
  frozen_thread& operator=(const frozen_thread&) = delete;

 private:
  enum { running, asked, frozen, thawed };
  static inline std::atomic<int> state{running};
};
#endif

}  // namespace testing
