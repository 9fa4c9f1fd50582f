// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for max
#include <array>      // for array
#include <atomic>     // for atomic
#include <chrono>     // for microseconds
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <mutex>      // for mutex
#include <numeric>    // for accumulate
#include <thread>     // for sleep_for
#include <vector>     // for vector

#include "machine.hpp"  // for wall_clock

namespace bench {

/// Counts the tasks that ran. Each thread has a separate cache line, and counting takes about a nanosecond a task, so
/// that a measurement of empty tasks does not measure the counter.
class tally {
 public:
  /// Called by a task.
  static void count() noexcept {
    thread_local const place mine;
    std::atomic<std::uint64_t>& cell = cells()[mine.index].count;
    if (mine.index == 0) {
      cell.fetch_add(1, std::memory_order_release);  // shared by the threads that found no free place
    } else {
      cell.store(cell.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
  }

  /// Number of tasks that have run since this object was made.
  std::uint64_t so_far() const noexcept { return total() - start_; }

  /// Number of tasks that the busiest thread has run since this object was made. A thread that starts after another has
  /// ended may count as the same thread.
  std::uint64_t busiest() const noexcept {
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < places; ++i) {
      most = (std::max)(most, cells()[i].count.load(std::memory_order_acquire) - starts_[i]);
    }
    return most;
  }

  /// Waits until `wanted` tasks have run, and looks every `pause`. False if no task runs for ten seconds, or if too
  /// many have run.
  bool wait_for(std::uint64_t wanted, std::chrono::microseconds pause = std::chrono::microseconds(20)) const {
    std::uint64_t seen = so_far();
    wall_clock::time_point last = wall_clock::now();
    while (seen < wanted) {
      std::this_thread::sleep_for(pause);
      const std::uint64_t now = so_far();
      if (now != seen) {
        seen = now;
        last = wall_clock::now();
      } else if (wall_clock::now() - last > std::chrono::seconds(10)) {
        return false;
      }
    }
    return seen == wanted;
  }

 private:
  struct alignas(128) cell {
    std::atomic<std::uint64_t> count{0};
  };
  static constexpr std::size_t places = 128;
  static std::array<cell, places>& cells() noexcept {
    static std::array<cell, places> all;
    return all;
  }
  struct register_of_places {
    std::mutex mutex;
    std::vector<std::size_t> free;
    std::size_t next = 1;
  };
  static register_of_places& places_of_all() noexcept {
    static register_of_places& all = *new register_of_places;  // never destroyed: ending threads return their places
    return all;
  }
  struct place {
    place() noexcept {
      register_of_places& all = places_of_all();
      const std::lock_guard lock(all.mutex);
      if (!all.free.empty()) {
        index = all.free.back();
        all.free.pop_back();
      } else if (all.next < places) {
        index = all.next++;
      }
    }
    ~place() {
      if (index == 0) return;
      register_of_places& all = places_of_all();
      const std::lock_guard lock(all.mutex);
      all.free.push_back(index);
    }
    place(const place&) = delete;
    place& operator=(const place&) = delete;
    std::size_t index = 0;
  };
  static std::uint64_t total() noexcept {
    std::uint64_t sum = 0;
    for (const cell& each : cells()) sum += each.count.load(std::memory_order_acquire);
    return sum;
  }

  static std::array<std::uint64_t, places> counts() noexcept {
    std::array<std::uint64_t, places> now{};
    for (std::size_t i = 0; i < places; ++i) now[i] = cells()[i].count.load(std::memory_order_acquire);
    return now;
  }

  const std::array<std::uint64_t, places> starts_ = counts();
  const std::uint64_t start_ = std::accumulate(starts_.begin(), starts_.end(), std::uint64_t{0});
};

}  // namespace bench
