// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdlib>
#include <optional>

#include "async/bounded_queue.hpp"
#include "async/queue.hpp"
#include "budget.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void queue_pair(std::size_t times) {
  async::queue<std::size_t> queue;
  std::size_t out = 0;
  for (std::size_t i = 0; i < times; ++i) {
    queue.enqueue(i);
    require(queue.dequeue(out) && out == i);
  }
}

void queue_backlog(std::size_t times) {
  async::queue<std::size_t> queue;
  std::size_t out = 0;
  for (std::size_t i = 0; i < times; ++i) queue.enqueue(i);
  for (std::size_t i = 0; i < times; ++i) require(queue.dequeue(out) && out == i);
}

void queue_empty(std::size_t times) {
  async::queue<std::size_t> queue;
  std::size_t out = 0;
  for (std::size_t i = 0; i < times; ++i) require(!queue.dequeue(out));
}

template <class Queue>
void bulk(Queue& queue, std::size_t times) {
  std::array<std::size_t, 64> batch{};
  for (std::size_t i = 0; i < times; ++i) {
    queue.bulk_enqueue(batch.begin(), batch.size());
    require(queue.bulk_dequeue(batch.begin(), batch.size()) == batch.size());
  }
}

void queue_bulk(std::size_t times) {
  async::queue<std::size_t> queue;
  bulk(queue, times);
}

void bounded_pair(std::size_t times) {
  async::bounded_queue<std::size_t> queue(64);
  std::size_t out = 0;
  for (std::size_t i = 0; i < times; ++i) {
    require(queue.enqueue(i));
    require(queue.dequeue(out) && out == i);
  }
}

void bounded_waiting_pair(std::size_t times) {
  async::bounded_queue<std::size_t> queue(64);
  std::size_t out = 0;
  for (std::size_t i = 0; i < times; ++i) {
    require(queue.blocking_enqueue(i));
    require(queue.blocking_dequeue(out) && out == i);
  }
}

void bounded_empty(std::size_t times) {
  async::bounded_queue<std::size_t> queue(64);
  std::size_t out = 0;
  for (std::size_t i = 0; i < times; ++i) require(!queue.dequeue(out));
}

void bounded_full(std::size_t times) {
  async::bounded_queue<std::size_t> queue(1);
  require(queue.enqueue(0U));
  for (std::size_t i = 0; i < times; ++i) require(!queue.enqueue(i));
}

void bounded_bulk(std::size_t times) {
  async::bounded_queue<std::size_t> queue(64);
  bulk(queue, times);
}

/// Two coroutines that hand an element to and fro: each waits before the other enqueues.
struct started {
  struct promise_type {
    started get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::abort(); }
  };
};
template <class Queue>
started hand_on(Queue& from, Queue& to, std::size_t times) {
  while (const std::optional<std::size_t> x = co_await from.pop()) {
    if (*x == times) co_return to.close();
    to.enqueue(*x + 1);
  }
}
template <class Queue>
void ping_pong(Queue& one, Queue& two, std::size_t times) {
  hand_on(one, two, times);
  hand_on(two, one, times);
  one.enqueue(std::size_t{0});
  require(one.is_closed() || two.is_closed());
  one.close();
  two.close();
}

void queue_awaited(std::size_t times) {
  async::queue<std::size_t> one, two;
  ping_pong(one, two, times);
}
void bounded_awaited(std::size_t times) {
  async::bounded_queue<std::size_t> one(64), two(64);
  ping_pong(one, two, times);
}

}  // namespace

int main() {
  return budget::measure({
      {"queue: enqueue and dequeue", 1000, queue_pair},
      {"queue: enqueue and dequeue, a backlog between", 5000, queue_backlog},
      {"queue: dequeue when empty", 1000, queue_empty},
      {"queue: bulk_enqueue and bulk_dequeue of 64", 100, queue_bulk},
      {"bounded_queue: enqueue and dequeue", 1000, bounded_pair},
      {"bounded_queue: blocking_enqueue and blocking_dequeue that need not wait", 1000, bounded_waiting_pair},
      {"bounded_queue: dequeue when empty", 1000, bounded_empty},
      {"bounded_queue: enqueue when full", 1000, bounded_full},
      {"bounded_queue: bulk_enqueue and bulk_dequeue of 64", 100, bounded_bulk},
      {"queue: enqueue for a coroutine that waits in pop()", 1000, queue_awaited},
      {"bounded_queue: enqueue for a coroutine that waits in pop()", 1000, bounded_awaited},
  });
}
