// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "async/threadpool.hpp"
#include "support/scale.hpp"

namespace testing {

/// While it lives, a thread gives the pool tasks that block for up to half a millisecond, one at a time on average, and
/// resizes it to one to three workers. So the flows of the pool move.
class busy_pool {
 public:
  explicit busy_pool(async::threadpool& pool)
      : pool_(pool), thread_([this] {
          std::minstd_rand random(static_cast<unsigned>(seed()));
          while (!end_.load(std::memory_order_relaxed)) {
            const std::chrono::microseconds time(random() % 500);
            if (random() % 16 == 0) pool_.configurepool(1 + random() % 3);
            pool_.execute([time] { std::this_thread::sleep_for(time); });
            std::this_thread::sleep_for(time);
          }
        }) {}
  ~busy_pool() {
    end_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  busy_pool(const busy_pool&) = delete;
  busy_pool& operator=(const busy_pool&) = delete;

 private:
  async::threadpool& pool_;
  std::atomic<bool> end_{false};
  std::thread thread_;
};

}  // namespace testing
