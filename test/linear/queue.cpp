// SPDX-License-Identifier: BSL-1.0
//
// Linearizability of the queues: threads see what they would see if calls took effect one by one. Searches short
// histories for an order that explains them.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <mutex>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/queue.hpp"
#include "support/fifo_history.hpp"
#include "support/fifo_study.hpp"
#include "support/scale.hpp"

using namespace testing;

namespace {

struct unbounded {
  static constexpr std::size_t capacity = 0;
  bool enqueue(char value) { return queue.enqueue(wide{value}); }
  bool dequeue(char& value) {
    receiver out{value};
    return queue.dequeue(out);
  }
  async::queue<wide, unbounded_traits> queue;
};
template <std::size_t Capacity>
struct bounded {
  static constexpr std::size_t capacity = Capacity;
  bool enqueue(char value) { return queue.enqueue(wide{value}); }
  bool dequeue(char& value) {
    receiver out{value};
    return queue.dequeue(out);
  }
  async::bounded_queue<wide, bounded_traits> queue{Capacity};
};

/// Also waits, and may be closed at any time.
template <class Base>
struct closable : Base {
  bool dequeue(char& value) {
    receiver out{value};
    return next_random() % 2 == 0 ? this->queue.dequeue(out)
                                  : this->queue.dequeue_for(out, std::chrono::microseconds(5));
  }
  bool blocking_dequeue(char& value) {
    receiver out{value};
    return this->queue.blocking_dequeue(out);
  }
  void close() { this->queue.close(); }
  bool is_closed() const { return this->queue.is_closed(); }
};
/// Its end is not final.
struct early_end : closable<unbounded> {
  bool blocking_dequeue(char& value) { return next_random() % 4 != 0 && closable<unbounded>::blocking_dequeue(value); }
};
/// Occasionally hands out the second element.
struct out_of_order {
  static constexpr std::size_t capacity = 0;
  bool enqueue(char value) {
    const std::lock_guard hold(mutex);
    elements.push_back(value);
    return true;
  }
  bool dequeue(char& value) {
    const std::lock_guard hold(mutex);
    if (elements.empty()) return false;
    const auto at = elements.begin() + (elements.size() > 1 && next_random() % 4 == 0 ? 1 : 0);
    value = *at;
    elements.erase(at);
    return true;
  }
  std::mutex mutex;
  std::deque<char> elements;
};
/// Reports "empty" when it is only busy.
struct busy_is_empty : out_of_order {
  bool dequeue(char& value) {
    if (next_random() % 8 == 0) return false;
    const std::lock_guard hold(mutex);
    if (elements.empty()) return false;
    value = elements.front();
    elements.pop_front();
    return true;
  }
};

/// Calls at random, on queues that may be closed or not.
template <class Queue>
findings study(std::size_t threads, std::size_t calls, std::size_t histories) {
  return study_histories<Queue>(threads, calls, histories, [](Queue& queue, char value, const auto& record) {
    if constexpr (requires { queue.close(); }) {
      const unsigned choice = next_random() % 16;
      if (choice == 0) {
        record(queue_call::close, value, [&] { return queue.close(), true; });
        return;
      }
      // Without a limit only where it ends for certain.
      if (choice < 7 && record(queue_call::is_closed, value, [&] { return queue.is_closed(); })) {
        record(queue_call::blocking_dequeue, value, [&] { return queue.blocking_dequeue(value); });
        return;
      }
    }
    if (next_random() % 2 == 0) {
      record(queue_call::enqueue, value, [&] { return queue.enqueue(value); });
    } else {
      record(queue_call::dequeue, value, [&] { return queue.dequeue(value); });
    }
  });
}

template <class Queue>
void check_histories(std::size_t histories) {
  const std::size_t each = rounds(histories);
  for (const findings& found : {study<Queue>(3, 6, each), study<Queue>(4, 4, each / 4 + 1)}) {
    CHECK_MESSAGE(found.broken == 0, found.broken << " histories that no order explains, the first:\n"
                                                  << found.first_broken);
    CHECK(found.empty > found.histories / 10);
    CHECK((found.full > found.histories / 10 || Queue::capacity == 0));
    if constexpr (requires(Queue& q) { q.close(); }) CHECK(found.ended > found.histories / 10);
    std::printf("count: %zu histories\ncount: %zu with calls that overlap\n", found.histories, found.overlapping);
    std::printf("count: %zu where it is empty\ncount: %zu where it is full\n", found.empty, found.full);
  }
}

/// Calls one after another, then what they would be if all overlapped.
bool explains(std::vector<queue_call> calls, std::size_t capacity, bool overlap) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].start = overlap ? 0 : 2 * i;
    calls[i].end = overlap ? 1 : 2 * i + 1;
  }
  return fifo_history(calls, capacity).is_linearizable();
}
queue_call in(char value, bool succeeded = true) { return {queue_call::enqueue, succeeded, value, {}, {}}; }
queue_call out(char value, bool succeeded = true) { return {queue_call::dequeue, succeeded, value, {}, {}}; }

}  // namespace

TEST_CASE("the search accepts exactly what a queue may do") {
  CHECK(explains({in('a'), in('b'), out('a'), out('b'), out('-', false)}, 0, false));
  CHECK(explains({in('a'), in('b'), in('c', false), out('a'), in('c')}, 2, false));
  CHECK_FALSE(explains({in('a'), in('b'), out('b'), out('a')}, 0, false));
  CHECK(explains({in('a'), in('b'), out('b'), out('a')}, 0, true));
  CHECK_FALSE(explains({in('a'), out('-', false), out('a')}, 0, false));
  CHECK(explains({in('a'), out('-', false), out('a')}, 0, true));
  CHECK_FALSE(explains({in('a'), out('a'), out('a')}, 0, true));
  CHECK_FALSE(explains({in('a'), in('b', false)}, 2, true));
  CHECK_FALSE(explains({out('a')}, 0, true));
}

TEST_CASE("the search accepts exactly what a queue that is closed may do") {
  const queue_call close{queue_call::close, true, '-', {}, {}};
  const queue_call closed{queue_call::is_closed, true, '-', {}, {}};
  const queue_call open{queue_call::is_closed, false, '-', {}, {}};
  const queue_call end{queue_call::blocking_dequeue, false, '-', {}, {}};
  CHECK(explains({open, in('a'), close, closed, in('b', false), out('a'), end, close, end}, 0, false));
  CHECK_FALSE(explains({in('a'), close, end, out('a')}, 0, false));
  CHECK(explains({in('a'), close, end, out('a')}, 0, true));
  CHECK_FALSE(explains({close, in('a')}, 0, false));
  CHECK_FALSE(explains({close, open}, 0, false));
  CHECK_FALSE(explains({closed}, 0, true));
  CHECK_FALSE(explains({end}, 0, true));
}

TEST_CASE("the search detects broken queues") {
  CHECK(study<out_of_order>(3, 6, 2000).broken > 0);
  CHECK(study<busy_is_empty>(3, 6, 2000).broken > 0);
  CHECK(study<early_end>(3, 6, 2000).broken > 0);
}

TEST_CASE("a history that no order explains is shown on a line for each thread") {
  fifo_history history({{queue_call::enqueue, true, 'a', 1, 4, 0},
                        {queue_call::dequeue, false, '-', 2, 3, 1},
                        {queue_call::dequeue, false, '-', 5, 6, 1},
                        {queue_call::enqueue, false, 'b', 6, 6, 0}});
  CHECK_FALSE(history.is_linearizable());
  CHECK(history.explanation() ==
        "thread 0  |in a--------| |in b: full|\n"
        "thread 1   |out: empty| |out: empty|\n"
        "an order explains 2 of 4 calls: (out: empty) (in a)\n");
}

TEST_CASE("histories of the queue are linearizable") { check_histories<unbounded>(40'000); }
TEST_CASE("histories of a bounded queue are linearizable") { check_histories<bounded<2>>(40'000); }
TEST_CASE("histories of a bounded queue of one slot are linearizable") { check_histories<bounded<1>>(10'000); }
TEST_CASE("histories of a queue that is waited for and closed are linearizable") {
  check_histories<closable<unbounded>>(20'000);
}
TEST_CASE("histories of a bounded queue that is waited for and closed are linearizable") {
  check_histories<closable<bounded<2>>>(20'000);
}
