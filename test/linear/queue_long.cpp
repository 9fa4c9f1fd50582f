// SPDX-License-Identifier: BSL-1.0
//
// Long runs of the queues, judged by which calls ended before which started.
//
// Counts the calls that did not wait; and elements of runs with waits, waits that were notified, that were withdrawn or
// timed out, and that withdrew when they were chosen already.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "async/bounded_queue.hpp"
#include "async/detail/queue/queue_access.hpp"
#include "async/queue.hpp"
#include "support/fifo_passages.hpp"
#include "support/listed_thread.hpp"
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

/// Threads that wait in turns as sleepers, some with a limit in time, and listed; of these, half withdraw soon. The
/// others wait until there is something, so that after a lost wake-up, or a lost end, the test does not end.
template <class Queue>
struct awaited {
  bool take(std::size_t& n) {
    const bool is_over = over.load();
    const result r = take_once(n);
    if (is_over && r == result::done) ++late;
    if (r == result::closed) over = true;
    if (r == result::blocked) ++withdrawn;
    return r == result::done;
  }
  void end() { queue.close(); }

  Queue queue;
  std::atomic<bool> over{false};
  std::atomic<std::size_t> late{0};  // elements that came after "closed and drained"
  std::atomic<std::size_t> notified{0};
  std::atomic<std::size_t> withdrawn{0};  // or timed out
  std::atomic<std::size_t> chosen_too_late{0};

 protected:
  using result = async::detail::queue_result;
  using queue_access = async::detail::queue_access;

  /// `turn` decides how.
  template <class Attempt>
  result wait_listed(async::detail::event_count& events, std::size_t turn, Attempt attempt) {
    const std::size_t notified_before = me().notified, late_before = me().chosen_too_late;
    const result r =
        me().wait(events, turn % 4 < 2 ? static_cast<unsigned>(turn % 2) : listed_thread::endless, attempt);
    if (me().notified != notified_before) ++notified;
    if (me().chosen_too_late != late_before) ++chosen_too_late;
    return r;
  }
  /// Often lets the other side come first, so that it has to wait.
  void stay_back() {
    if (next_turn() % 4 != 0) return;
    for (int yields = 0; yields != 8 && !queue.empty(); ++yields) std::this_thread::yield();
  }
  static std::size_t next_turn() {
    thread_local std::size_t turn = 0;
    return turn++;
  }

 private:
  static listed_thread& me() {
    thread_local listed_thread its;
    return its;
  }
  result take_once(std::size_t& n) {
    const std::size_t turn = next_turn();
    if (turn % 8 == 0) {
      return queue.dequeue_for(n, std::chrono::microseconds(turn / 8 % 64)) ? result::done : result::blocked;
    }
    if (turn % 8 == 1) return queue.blocking_dequeue(n) ? result::done : result::closed;
    return wait_listed(queue_access::items(queue), turn,
                       [&] { return queue_access::take(queue, [&n](auto&& from) { n = from; }); });
  }
};
struct awaited_unbounded : awaited<async::queue<std::size_t>> {
  bool put(std::size_t n) {
    stay_back();
    return queue.enqueue(n);
  }
};
struct awaited_bounded : awaited<async::bounded_queue<std::size_t>> {
  awaited_bounded() : awaited{async::bounded_queue<std::size_t>(4)} {}
  bool put(std::size_t n) {
    stay_back();
    const std::size_t turn = next_turn();
    if (turn % 8 == 0) return queue.enqueue_for(std::chrono::microseconds(turn / 8 % 64), n);
    if (turn % 8 == 1) return queue.blocking_enqueue(n);
    return wait_listed(queue_access::room(queue), turn, [&] { return queue_access::put(queue, n); }) == result::done;
  }
};

/// A queue with a fault, in one of a hundred calls. It gives nothing before all elements are in, so that each fault
/// shows however the threads are scheduled.
struct faulty {
  enum fault { loses, gives_twice, swaps, overtakes, says_empty };

  faulty(fault which, std::size_t count) : kind(which), missing(count) {}

  bool put(std::size_t n) {
    const std::lock_guard hold(mutex);
    --missing;
    const bool bad = ++calls % 100 == 0;
    if (bad && kind == loses) return true;
    elements.push_back(n);
    if (bad && kind == gives_twice) elements.push_back(n);
    if (bad && kind == swaps && elements.size() > 1) std::swap(elements.back(), *(elements.end() - 2));
    return true;
  }
  bool take(std::size_t& n) {
    const std::lock_guard hold(mutex);
    if (missing != 0 || elements.empty() || (kind == says_empty && ++calls % 100 == 0)) return false;
    const bool bad = kind == overtakes && ++calls % 100 == 0;
    const auto at = bad ? elements.end() - 1 : elements.begin();
    n = *at;
    elements.erase(at);
    return true;
  }

  const fault kind;
  std::size_t missing;
  unsigned calls = 0;
  std::mutex mutex;
  std::deque<std::size_t> elements;
};

run_faults faults_of(faulty::fault kind, std::size_t producers, std::size_t consumers) {
  constexpr std::size_t each = 20'000;
  faulty queue(kind, producers * each);
  return long_run(queue, producers, consumers, each);
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
  std::printf("count: %zu calls judged by their order\n", calls);
}

/// The same, with waits; each part ends with the end of its queue.
template <class Queue>
void check_long_run_with_waits() {
  constexpr std::size_t part = 400'000;
  std::size_t elements = 0, notified = 0, withdrawn = 0, chosen_too_late = 0;
  for (std::size_t left = rounds(500'000); left != 0; left -= (std::min)(left, part)) {
    const std::size_t each = (std::min)(left, part) / 2;
    Queue queue;
    CHECK(long_run(queue, 2, 2, each) == run_faults{});
    CHECK(queue.over);
    CHECK(queue.late == 0);
    elements += 2 * each;
    notified += queue.notified;
    withdrawn += queue.withdrawn;
    chosen_too_late += queue.chosen_too_late;
  }
  CHECK(notified > elements / 10'000);
  CHECK(withdrawn > elements / 10'000);
  std::printf("count: %zu elements awaited, judged by their order\ncount: %zu waits notified\n", elements, notified);
  std::printf("count: %zu waits withdrawn\ncount: %zu waits withdrawn when chosen already\n", withdrawn,
              chosen_too_late);
}

}  // namespace

TEST_CASE("an element that was in first and comes out after the other call's return was overtaken") {
  CHECK(count_overtaken({{1, 2, 7, 8}, {3, 4, 5, 6}}) == 1);
  CHECK(count_overtaken({{1, 3, 7, 8}, {3, 4, 5, 6}}) == 0);
  CHECK(count_overtaken({{1, 2, 6, 8}, {3, 4, 5, 6}}) == 0);
}

TEST_CASE("the check of long runs detects broken queues") {
  CHECK(faults_of(faulty::loses, 2, 2).lost > 100);
  CHECK(faults_of(faulty::gives_twice, 2, 2).twice > 100);
  CHECK(faults_of(faulty::swaps, 1, 1).disordered > 100);
  CHECK(faults_of(faulty::overtakes, 2, 2).overtaken > 100);
  CHECK(faults_of(faulty::says_empty, 2, 1).lost > 0);
}

TEST_CASE("no element of the queue is lost, doubled or overtaken in a long run") { check_long_run<unbounded>(); }
TEST_CASE("no element of a bounded queue is lost, doubled or overtaken in a long run") { check_long_run<bounded>(); }
TEST_CASE("no awaited element of the queue is lost, doubled or overtaken in a long run") {
  check_long_run_with_waits<awaited_unbounded>();
}
TEST_CASE("no awaited element of a bounded queue is lost, doubled or overtaken in a long run") {
  check_long_run_with_waits<awaited_bounded>();
}
