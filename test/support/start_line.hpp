// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>   // for atomic
#include <cstddef>  // for size_t
#include <thread>   // for thread, yield
#include <utility>  // for move
#include <vector>   // for vector

namespace testing {

/// Lets `count` threads go at the same moment, as close as the machine can: each calls wait(), all leave together.
class start_line {
 public:
  explicit start_line(std::size_t count) noexcept : missing_(count) {}

  void wait() noexcept {
    missing_.fetch_sub(1, std::memory_order_acq_rel);
    while (missing_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

 private:
  std::atomic<std::size_t> missing_;
};

/// A std::latch that sleeps by yielding: with g++ 12 for Windows a wait of std::latch or std::barrier may last for
/// ever.
class countdown {
 public:
  explicit countdown(std::size_t count) noexcept : missing_(count) {}
  countdown(const countdown&) = delete;
  countdown& operator=(const countdown&) = delete;

  void count_down() noexcept { missing_.fetch_sub(1, std::memory_order_acq_rel); }
  void wait() const noexcept {
    while (missing_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

 private:
  std::atomic<std::size_t> missing_;
};

/// A std::barrier that sleeps by yielding, see countdown: the last thread of each round calls between() before all go
/// on.
template <class Between>
class rounds_of_threads {
 public:
  rounds_of_threads(std::size_t count, Between between)
      : count_(count), missing_(count), between_(std::move(between)) {}

  void wait() noexcept {
    const std::size_t round = round_.load(std::memory_order_acquire);
    if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      between_();
      missing_.store(count_, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
    } else {
      while (round_.load(std::memory_order_acquire) == round) std::this_thread::yield();
    }
  }

 private:
  const std::size_t count_;
  std::atomic<std::size_t> missing_;
  std::atomic<std::size_t> round_{0};
  Between between_;
};

/// Runs body(0) .. body(count - 1) each on a thread of its own, lets them go at the same moment, and joins them.
template <class Body>
void run_threads(std::size_t count, Body body) {
  start_line line(count);
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&line, &body, i] {
      line.wait();
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace testing
