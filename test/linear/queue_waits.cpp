// SPDX-License-Identifier: BSL-1.0
//
// Linearizability of the queues while calls wait: a wait ends with an element, is withdrawn, or finds the queue closed.
// Searches short histories for an order that explains them, in which a withdrawn wait takes nothing, and one that ends
// "closed" saw it closed and drained. Each history ends with dequeues of what is left, so that nothing gets lost.
//
// Counts the histories, and the waits that were notified, that were notified and found nothing, and that withdrew when
// they were chosen already.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/detail/queue/queue_access.hpp"
#include "async/queue.hpp"
#include "support/fifo_history.hpp"
#include "support/fifo_study.hpp"
#include "support/listed_thread.hpp"
#include "support/scale.hpp"

using namespace testing;
using async::detail::queue_access;

namespace {

struct waits {
  std::mutex mutex;
  std::size_t notified = 0, in_vain = 0, chosen_too_late = 0;
};
waits all;

/// One for each thread.
struct counted_thread : listed_thread {
  ~counted_thread() {
    const std::lock_guard hold(all.mutex);
    all.notified += notified;
    all.in_vain += in_vain;
    all.chosen_too_late += chosen_too_late;
  }
};
thread_local counted_thread me;

template <class Queue>
struct awaited {
  wait_result take(char& value) {
    receiver out{value};
    return me.wait(queue_access::items(queue), next_random() % 8,
                   [&] { return queue_access::take(queue, [&out](auto&& from) { out = from; }); });
  }
  /// Sleeps in the queue.
  bool take_in_time(char& value) {
    receiver out{value};
    return queue.dequeue_for(out, std::chrono::microseconds(next_random() % 32));
  }
  bool take_rest(char& value) {
    receiver out{value};
    return queue.dequeue(out);
  }
  bool close() {
    queue.close();
    return true;
  }

  Queue queue;
};
struct unbounded : awaited<async::queue<wide, unbounded_traits>> {
  static constexpr std::size_t capacity = 0;
  bool put(char value) { return queue.enqueue(wide{value}); }
};
template <std::size_t Capacity>
struct bounded : awaited<async::bounded_queue<wide, bounded_traits>> {
  static constexpr std::size_t capacity = Capacity;
  bounded() : awaited{async::bounded_queue<wide, bounded_traits>(Capacity)} {}
  wait_result put(char value) {
    return me.wait(queue_access::room(queue), next_random() % 8, [&] { return queue_access::put(queue, wide{value}); });
  }
  bool put_in_time(char value) { return queue.enqueue_for(std::chrono::microseconds(next_random() % 32), wide{value}); }
};

/// In one of eight waits, says `lie` instead of `truth`.
template <wait_result truth, wait_result lie>
struct lying : unbounded {
  wait_result take(char& value) {
    const wait_result r = unbounded::take(value);
    return r == truth && next_random() % 8 == 0 ? lie : r;
  }
};

template <class Queue>
findings study(std::size_t threads, std::size_t calls, std::size_t histories) {
  const auto act = [](Queue& queue, char value, const auto& record) {
    const unsigned choice = next_random() % 32;
    if (choice == 0) {
      record(queue_call::close, value, [&] { return queue.close(); });
    } else if (choice < 4) {
      record(queue_call::dequeue, value, [&] { return queue.take_in_time(value); });
    } else if (choice < 18) {
      record(queue_call::blocking_dequeue, value, [&] { return queue.take(value); });
    } else if constexpr (requires { queue.put_in_time(value); }) {
      if (choice < 21) {
        record(queue_call::enqueue, value, [&] { return queue.put_in_time(value); });
      } else {
        record(queue_call::blocking_enqueue, value, [&] { return queue.put(value); });
      }
    } else {
      record(queue_call::blocking_enqueue, value, [&] { return queue.put(value); });
    }
  };
  const auto take_rest = [](Queue& queue, const auto& record) {
    char value = '-';
    while (record(queue_call::dequeue, value, [&] { return queue.take_rest(value); })) {
    }
  };
  return study_histories<Queue>(threads, calls, histories, act, take_rest);
}

template <class Queue>
void check_histories(std::size_t histories) {
  const waits before{{}, all.notified, all.in_vain, all.chosen_too_late};
  const std::size_t each = rounds(histories);
  for (const findings& found : {study<Queue>(3, 6, each), study<Queue>(4, 4, each / 4 + 1)}) {
    CHECK_MESSAGE(found.broken == 0, found.broken << " histories that no order explains, the first:\n"
                                                  << found.first_broken);
    CHECK(found.ended > found.histories / 50);
    CHECK(found.withdrawn > found.histories / 10);
    std::printf("count: %zu histories with waits\ncount: %zu where one is withdrawn\ncount: %zu where one is closed\n",
                found.histories, found.withdrawn, found.ended);
  }
  CHECK(all.notified - before.notified > each / 100);
  std::printf(
      "count: %zu waits notified\ncount: %zu waits notified in vain\ncount: %zu waits withdrawn when chosen already\n",
      all.notified - before.notified, all.in_vain - before.in_vain, all.chosen_too_late - before.chosen_too_late);
}

/// Calls one after another, then what they would be if all overlapped.
bool explains(std::vector<queue_call> calls, std::size_t capacity, bool overlap) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].start = overlap ? 0 : 2 * i;
    calls[i].end = overlap ? 1 : 2 * i + 1;
  }
  return fifo_history(calls, capacity).is_linearizable();
}

}  // namespace

TEST_CASE("the search accepts exactly what waits may do") {
  const queue_call in{queue_call::blocking_enqueue, true, 'a', {}, {}};
  const queue_call no_room{queue_call::blocking_enqueue, false, 'b', {}, {}, 0, true};
  const queue_call refused{queue_call::blocking_enqueue, false, 'b', {}, {}};
  const queue_call out{queue_call::blocking_dequeue, true, 'a', {}, {}};
  const queue_call nothing{queue_call::blocking_dequeue, false, '-', {}, {}, 0, true};
  const queue_call end{queue_call::blocking_dequeue, false, '-', {}, {}};
  const queue_call close{queue_call::close, true, '-', {}, {}};
  CHECK(explains({nothing, in, no_room, out, nothing, close, end, refused}, 1, false));
  CHECK_FALSE(explains({in, nothing}, 0, false));
  CHECK(explains({in, nothing}, 0, true));
  CHECK_FALSE(explains({in, no_room}, 2, true));
  CHECK_FALSE(explains({in, refused}, 1, true));
  CHECK_FALSE(explains({close, nothing}, 0, false));
  CHECK_FALSE(explains({in, close, no_room}, 1, false));
  CHECK_FALSE(explains({in, close, end, out}, 0, false));
  CHECK_FALSE(explains({nothing, end}, 0, true));
}

TEST_CASE("the search detects waits that lie") {
  using enum wait_result;
  CHECK(study<lying<done, blocked>>(3, 6, 2000).broken > 0);    // a withdrawn wait took something
  CHECK(study<lying<blocked, closed>>(3, 6, 2000).broken > 0);  // the end comes early
  CHECK(study<lying<closed, blocked>>(3, 6, 2000).broken > 0);  // or is not told
}

TEST_CASE("histories of the queue with waits are linearizable") { check_histories<unbounded>(20'000); }
TEST_CASE("histories of a bounded queue with waits are linearizable") { check_histories<bounded<2>>(20'000); }
TEST_CASE("histories of a bounded queue of one slot with waits are linearizable") {
  check_histories<bounded<1>>(10'000);
}
