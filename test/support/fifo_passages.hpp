// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for max, min, sort, upper_bound
#include <atomic>     // for atomic
#include <cstddef>    // for size_t
#include <limits>     // for numeric_limits
#include <thread>     // for yield
#include <utility>    // for move
#include <vector>     // for vector

#include "support/call_clock.hpp"  // for call_clock
#include "support/start_line.hpp"  // for run_threads

namespace testing {

/// The way of one element through a queue.
struct passage {
  using moment = call_clock::moment;
  static constexpr moment never = (std::numeric_limits<moment>::max)();
  moment in_start, in_end, out_start, out_end;
};

/// How many elements were overtaken: one that was in before another's enqueue began came out only after the other's
/// dequeue had ended.
inline std::size_t count_overtaken(std::vector<passage> passages) {
  const auto earlier = [](const passage& a, const passage& b) { return a.in_start < b.in_start; };
  std::sort(passages.begin(), passages.end(), earlier);
  std::vector<passage::moment> first_out(passages.size() + 1,
                                         passage::never);  // of this one and those that start later
  for (std::size_t i = passages.size(); i-- != 0;) first_out[i] = (std::min)(first_out[i + 1], passages[i].out_end);
  std::size_t overtaken = 0;
  for (const passage& each : passages) {
    const auto later = std::upper_bound(passages.begin(), passages.end(), each.in_end,
                                        [](passage::moment end, const passage& other) { return end < other.in_start; });
    overtaken += first_out[static_cast<std::size_t>(later - passages.begin())] < each.out_start ? 1U : 0U;
  }
  return overtaken;
}

/// The violations that a long run has found in a queue: none, if it is one.
struct run_faults {
  std::size_t lost = 0;
  std::size_t twice = 0;       // taken once too often, each time
  std::size_t disordered = 0;  // seen by one consumer after a later element of the same producer
  std::size_t overtaken = 0;

  friend bool operator==(const run_faults&, const run_faults&) = default;
};

/// Sends `each` numbers from each producer through a queue, with the moments of all calls, and judges them in time that
/// grows with the run as sorting does. A consumer ends when a queue that all have filled says that it is empty.
///
///   queue.put(n)   false: full, try again
///   queue.take(n)  false: empty
///   queue.end()    optional; called after the last put()
template <class Queue>
run_faults long_run(Queue& queue, std::size_t producers, std::size_t consumers, std::size_t each) {
  call_clock clock;
  const std::size_t count = producers * each;
  std::vector<passage> passages(count);
  std::vector<std::atomic<unsigned char>> taken(count);
  std::atomic<std::size_t> producing{producers};
  std::atomic<std::size_t> disordered{0};
  const auto produce = [&](std::size_t first) {
    for (std::size_t i = first; i < first + each; ++i) {
      passages[i].in_start = clock.start();
      while (!queue.put(i)) std::this_thread::yield();
      passages[i].in_end = clock.end();  // read after all threads have ended
    }
    const bool is_last = producing.fetch_sub(1, std::memory_order_acq_rel) == 1;
    if constexpr (requires { queue.end(); }) {
      if (is_last) queue.end();
    }
  };
  const auto consume = [&] {
    std::vector<std::size_t> next(producers);
    while (true) {
      const bool is_last = producing.load(std::memory_order_acquire) == 0;
      std::size_t i = 0;
      const auto start = clock.start();
      if (!queue.take(i)) {
        if (is_last) return;
        std::this_thread::yield();
        continue;
      }
      const auto end = clock.end();
      if (taken[i].fetch_add(1, std::memory_order_relaxed) != 0) continue;
      passages[i].out_start = start;
      passages[i].out_end = end;
      if (i < next[i / each]) disordered.fetch_add(1, std::memory_order_relaxed);
      next[i / each] = i + 1;
    }
  };
  run_threads(producers + consumers, [&](std::size_t i) { i < producers ? produce(i * each) : consume(); });
  run_faults found;
  found.disordered = disordered;
  for (std::size_t i = 0; i < count; ++i) {
    if (taken[i] == 0) {
      ++found.lost;
      passages[i].out_start = passages[i].out_end = passage::never;
    } else {
      found.twice += taken[i] - 1U;
    }
  }
  // A lost element would count as overtaken by all: that one is told once.
  std::erase_if(passages, [](const passage& its) { return its.out_end == passage::never; });
  found.overtaken = count_overtaken(std::move(passages));
  return found;
}

}  // namespace testing
