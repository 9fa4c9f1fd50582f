// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>    // for any_of
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <functional>   // for hash
#include <optional>     // for optional
#include <string>       // for string
#include <thread>       // for get_id, yield
#include <type_traits>  // for is_same_v
#include <utility>      // for move
#include <vector>       // for vector

#include "async/bounded_queue.hpp"              // for bounded_queue_traits
#include "async/detail/queue/queue_result.hpp"  // for queue_result
#include "async/queue.hpp"                      // for queue_traits
#include "support/call_clock.hpp"               // for call_clock
#include "support/fifo_history.hpp"             // for fifo_history, queue_call
#include "support/scale.hpp"                    // for seed
#include "support/start_line.hpp"               // for run_threads

/// Makes histories of random calls, on queues of a few slots.
namespace testing {

using wait_result = async::detail::queue_result;

inline unsigned next_random() {
  thread_local std::uint64_t state = testing::seed() + std::hash<std::thread::id>{}(std::this_thread::get_id());
  state = state * 6364136223846793005U + 1442695040888963407U;
  return static_cast<unsigned>(state >> 33);
}
/// Often yields in the middle of an operation.
inline void maybe_yield() noexcept {
  if (next_random() % 16 == 0) std::this_thread::yield();
}

struct unbounded_traits : async::queue_traits {
  static constexpr unsigned slot_bits = 2;
  static constexpr std::size_t segment_bytes = 1;
  static constexpr unsigned stall_rounds = 1;
  static void claimed() noexcept { maybe_yield(); }
  static void published() noexcept { maybe_yield(); }
  static void marking() noexcept { maybe_yield(); }
  static void passing() noexcept { maybe_yield(); }
};
struct bounded_traits : async::bounded_queue_traits {
  static constexpr std::uint64_t first_ticket = (std::uint64_t{1} << 30) - 3;
  static void claimed() noexcept { maybe_yield(); }
};

/// Too strictly aligned to share a cache line: a segment has two slots.
struct alignas(128) wide {
  char value;
};

struct receiver {
  receiver& operator=(const wide& from) {
    value = from.value;
    return *this;
  }
  char& value;
};
/// What random histories have in them.
struct findings {
  std::size_t histories = 0;
  std::size_t overlapping = 0;  // have calls of different threads at the same time
  std::size_t empty = 0;        // have a dequeue that found nothing
  std::size_t full = 0;
  std::size_t ended = 0;      // have a call that found the queue closed and drained
  std::size_t withdrawn = 0;  // have a wait that ended without anything
  std::size_t broken = 0;     // explained by no order
  std::string first_broken;

  void add(std::vector<queue_call> calls, std::size_t capacity) {
    ++histories;
    const auto some = [&calls](auto is) { return std::any_of(calls.begin(), calls.end(), is) ? 1U : 0U; };
    empty += some([](const queue_call& c) { return c.what == queue_call::dequeue && !c.succeeded; });
    const auto ends = [](const queue_call& c) { return !c.succeeded && !c.withdrawn; };
    ended += some([&](const queue_call& c) { return c.what == queue_call::blocking_dequeue && ends(c); });
    withdrawn += some([](const queue_call& c) { return c.withdrawn; });
    full += some([](const queue_call& c) { return c.what == queue_call::enqueue && !c.succeeded; });
    overlapping += some([&](const queue_call& a) {
      return some([&a](const queue_call& b) { return a.thread != b.thread && a.start <= b.end && b.start <= a.end; });
    });
    fifo_history history(std::move(calls), capacity);
    if (!history.is_linearizable() && broken++ == 0) first_broken = history.explanation();
  }
};

/// Histories of random calls by some threads on a new queue each. `act` makes one call, `finish` the last ones; they
/// perform a call by record(kind, value, call). A call returns whether it succeeded, or a queue_result, where `blocked`
/// says that it was withdrawn.
template <class Queue, class Act, class Finish>
findings study_histories(std::size_t threads, std::size_t calls, std::size_t histories, Act act, Finish finish) {
  findings found;
  std::vector<std::vector<queue_call>> seen(threads + 1);
  call_clock clock;
  std::optional<Queue> queue;
  queue.emplace();
  const auto recorder = [&seen, &clock](std::size_t thread) {
    return [&its = seen[thread], &clock, thread](queue_call::kind what, char& value, auto perform) {
      const moment start = clock.start();
      const auto answer = perform();
      const moment end = clock.end();
      constexpr bool waits = std::is_same_v<decltype(perform()), wait_result>;
      if constexpr (waits) {
        its.push_back({what, answer == wait_result::done, value, start, end, thread, answer == wait_result::blocked});
      } else {
        its.push_back({what, answer, value, start, end, thread});
      }
      return answer;
    };
  };
  const auto between = [&]() noexcept {
    finish(*queue, recorder(threads));
    std::vector<queue_call> all;
    for (auto& part : seen) {
      all.insert(all.end(), part.begin(), part.end());
      part.clear();
    }
    found.add(std::move(all), Queue::capacity);
    queue.emplace();
  };
  rounds_of_threads round(threads, between);
  run_threads(threads, [&](std::size_t thread) {
    for (std::size_t i = 0; i < histories; ++i) {
      for (std::size_t call = 0; call < calls; ++call) {
        act(*queue, static_cast<char>('a' + thread * calls + call), recorder(thread));
      }
      round.wait();
    }
  });
  return found;
}
template <class Queue, class Act>
findings study_histories(std::size_t threads, std::size_t calls, std::size_t histories, Act act) {
  return study_histories<Queue>(threads, calls, histories, act, [](Queue&, const auto&) {});
}

}  // namespace testing
