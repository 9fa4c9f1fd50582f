// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <thread>  // for thread
#if !defined(_WIN32)
#include <pthread.h>  // for pthread_kill

#include <csignal>  // for signal, SIGUSR1
#include <ctime>    // for nanosleep, timespec
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

}  // namespace testing
