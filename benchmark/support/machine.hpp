// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for min, max
#include <atomic>     // for atomic
#include <chrono>     // for steady_clock
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <exception>  // for exception_ptr
#include <string>     // for string
#include <thread>     // for thread, yield
#include <vector>     // for vector

#include "harness.hpp"  // for nanoseconds

/// Facts about the machine, and helpers that depend on it.
namespace bench {

using wall_clock = std::chrono::steady_clock;

/// Processors that this process may use.
std::size_t processors();

/// Pins the calling thread to the n-th of these processors, modulo their number.
void pin_to_processor(std::size_t n);

/// Round trip of a cache line from one core to another and back; 0 on a single processor.
nanoseconds line_round_trip();

/// Resident memory of this process.
std::size_t resident_bytes();

/// Model of the processor and name of the operating system, from the system's files.
std::string processor_name();
std::string system_name();

/// Counts calls of operator new by all threads while it exists. At most one may exist at a time. Outside its lifetime
/// nothing is counted, so that the counter does not slow other measurements down.
class counted_allocations {
 public:
  counted_allocations();
  ~counted_allocations();
  std::uint64_t calls() const;
};

/// Duration of a call of wall_clock::now().
nanoseconds clock_cost();

/// CPU time that all threads of this process have used so far.
nanoseconds process_cpu_time();

/// Tells the core that this is a spin loop.
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb" ::: "memory");
#endif
}

/// Back-off after an attempt on an empty or full queue, the same for all contestants.
class patience {
 public:
  void lost() noexcept {
    if (++misses_ % 64 == 0) {
      std::this_thread::yield();
    } else {
      pause();
    }
  }

 private:
  unsigned misses_ = 0;
};

/// Lets all threads leave wait() at the same time, as far as the machine can.
class start_line {
 public:
  explicit start_line(std::size_t threads) noexcept : missing_(threads) {}
  void wait() noexcept {
    missing_.fetch_sub(1, std::memory_order_acq_rel);
    while (missing_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

 private:
  std::atomic<std::size_t> missing_;
};

enum class placing { pinned, free };

/// Runs warm_up(i) and then body(i) on `threads` threads, and returns the time from the start of the first body to the
/// end of the last. Thread i is pinned to processor i unless `where` is free. Rethrows an exception of a thread.
template <class WarmUp, class Body>
nanoseconds run_together(std::size_t threads, WarmUp warm_up, Body body, placing where = placing::pinned) {
  struct alignas(128) lane {
    wall_clock::time_point start, end;
    std::exception_ptr error;
  };
  std::vector<lane> lanes(threads);
  start_line warm(threads), line(threads);
  std::vector<std::thread> crew;
  crew.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    crew.emplace_back([&, i] {
      const auto attempt = [&](auto& part) {
        try {
          part(i);
        } catch (...) {
          lanes[i].error = std::current_exception();
        }
      };
      if (where == placing::pinned) pin_to_processor(i);
      warm.wait();
      attempt(warm_up);
      line.wait();
      lanes[i].start = wall_clock::now();
      attempt(body);
      lanes[i].end = wall_clock::now();
    });
  }
  for (std::thread& thread : crew) thread.join();
  wall_clock::time_point start = lanes[0].start, end = lanes[0].end;
  for (const lane& each : lanes) {
    if (each.error) std::rethrow_exception(each.error);
    start = (std::min)(start, each.start);
    end = (std::max)(end, each.end);
  }
  return end - start;
}

}  // namespace bench
