// SPDX-License-Identifier: BSL-1.0
//
// Long runs of the queues, judged by the order of their elements in time.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <mutex>
#include <utility>

#include "async/bounded_queue.hpp"
#include "async/queue.hpp"
#include "support/fifo_passages.hpp"
#include "support/scale.hpp"

using namespace testing;

namespace {

struct unbounded {
  bool put(std::size_t n) {
    queue.enqueue(n);
    return true;
  }
  bool take(std::size_t& n) { return queue.dequeue(n); }
  async::queue<std::size_t> queue;
};
struct bounded {
  bool put(std::size_t n) { return queue.enqueue(n); }
  bool take(std::size_t& n) { return queue.dequeue(n); }
  async::bounded_queue<std::size_t> queue{64};
};

/// A queue with a fault, in one of a hundred calls.
struct faulty {
  enum fault { loses, gives_twice, swaps, overtakes, says_empty };

  explicit faulty(fault which) : kind(which) {}

  bool put(std::size_t n) {
    const std::lock_guard hold(mutex);
    const bool bad = ++calls % 100 == 0;
    if (bad && kind == loses) return true;
    elements.push_back(n);
    if (bad && kind == gives_twice) elements.push_back(n);
    if (bad && kind == swaps && elements.size() > 1) std::swap(elements.back(), *(elements.end() - 2));
    return true;
  }
  bool take(std::size_t& n) {
    const std::lock_guard hold(mutex);
    if (elements.empty() || (kind == says_empty && ++calls % 100 == 0)) return false;
    const bool bad = kind == overtakes && ++calls % 100 == 0;
    const auto at = bad ? elements.end() - 1 : elements.begin();
    n = *at;
    elements.erase(at);
    return true;
  }

  const fault kind;
  unsigned calls = 0;
  std::mutex mutex;
  std::deque<std::size_t> elements;
};

run_faults faults_of(faulty::fault kind, std::size_t producers, std::size_t consumers) {
  faulty queue(kind);
  return long_run(queue, producers, consumers, 20'000);
}

/// In parts, whose times fit into memory.
template <class Queue>
void check_long_run() {
  Queue queue;
  constexpr std::size_t part = 400'000;
  std::size_t calls = 0;
  for (std::size_t left = rounds(3'200'000); left != 0;) {
    const std::size_t each = (std::min)(left, part) / 2;
    CHECK(long_run(queue, 2, 2, each) == run_faults{});
    left -= (std::min)(left, part);
    calls += 4 * each;
  }
  std::printf("count: %zu calls judged by their time\n", calls);
}

}  // namespace

TEST_CASE("an element that was in first and comes out after the other call's return was overtaken") {
  const auto at = [](int seconds) { return passage::moment(std::chrono::seconds(seconds)); };
  CHECK(count_overtaken({{at(1), at(2), at(7), at(8)}, {at(3), at(4), at(5), at(6)}}) == 1);
  CHECK(count_overtaken({{at(1), at(3), at(7), at(8)}, {at(3), at(4), at(5), at(6)}}) == 0);
  CHECK(count_overtaken({{at(1), at(2), at(6), at(8)}, {at(3), at(4), at(5), at(6)}}) == 0);
}

TEST_CASE("the check of long runs detects broken queues") {
  CHECK(faults_of(faulty::loses, 2, 2).lost > 100);
  CHECK(faults_of(faulty::gives_twice, 2, 2).twice > 100);
  CHECK(faults_of(faulty::swaps, 1, 1).disordered > 0);
  CHECK(faults_of(faulty::overtakes, 2, 2).overtaken > 0);
  CHECK(faults_of(faulty::says_empty, 2, 1).lost > 0);
}

TEST_CASE("no element of the queue is lost, doubled or overtaken in a long run") { check_long_run<unbounded>(); }
TEST_CASE("no element of a bounded queue is lost, doubled or overtaken in a long run") { check_long_run<bounded>(); }
