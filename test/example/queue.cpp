// SPDX-License-Identifier: BSL-1.0
//
// The queues: the unbounded one, consumers that sleep, the bounded one, and operations in bulk.
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/queue.hpp"

namespace {

int snippets = 0, failures = 0;
/// A coroutine without a result, which destroys itself at its end.
struct started {
  struct promise_type {
    started get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

void expect(bool condition, const char* what) {
  ++snippets;
  if (condition) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

void unbounded() {
  // [queue]
  async::queue<std::string> queue;  // any number of producers and consumers, first in first out

  std::thread producer([&] {
    queue.enqueue("one");    // never waits and is never full
    queue.enqueue(3U, 'x');  // constructs the element in place
  });
  producer.join();

  std::optional<std::string> first = queue.dequeue();  // never waits: no value means empty
  std::string second;
  const bool there_was_one = queue.dequeue(second);
  // [/queue]
  expect(first == "one" && there_was_one && second == "xxx" && queue.empty(), "queue");
}

void consumers() {
  using namespace std::chrono_literals;
  // [consumers]
  async::queue<int> queue;
  std::atomic<int> sum{0};
  std::vector<std::thread> consumers;
  for (int i = 0; i < 3; ++i) {
    consumers.emplace_back([&] {
      for (int n = 0; queue.blocking_dequeue(n);) sum += n;  // sleeps while it is empty; false: closed and empty
    });
  }
  for (int n = 1; n <= 100; ++n) queue.enqueue(n);  // wakes a sleeper, if there is one
  queue.close();                                    // what is inside is still taken
  for (std::thread& consumer : consumers) consumer.join();

  int more = 0;
  const bool accepted = queue.enqueue(101);           // false: closed
  const bool in_time = queue.dequeue_for(more, 1ms);  // waits asleep, at most that long
  // [/consumers]
  expect(sum == 5050 && !accepted && !in_time, "consumers");
}

void bounded() {
  using namespace std::chrono_literals;
  bool sent = false;
  // [bounded]
  async::bounded_queue<std::string> queue(2);  // room for two
  queue.enqueue("one");
  queue.enqueue("two");
  const bool full = !queue.enqueue("three");           // never waits: false is full, and "three" is untouched
  const bool late = !queue.enqueue_for(1ms, "three");  // waits asleep, at most that long
  std::thread producer([&] {
    sent = queue.blocking_enqueue("three");  // waits until there is room; false: closed
    queue.close();                           // what is inside can still be taken
  });
  std::string all;
  for (std::string text; queue.blocking_dequeue(text);) all += text;  // false: closed and empty
  // [/bounded]
  producer.join();
  expect(full && late && sent && all == "onetwothree", "bounded");
}

// [coroutine]
// Two stages in coroutines of any type, here one that runs until its first wait and destroys itself at its end. The
// second stage is slower: the first one waits while the queue between them is full.
started parse(async::queue<std::string>& lines, async::bounded_queue<int>& numbers) {
  while (std::optional<std::string> line = co_await lines.pop()) {  // no value: closed and empty
    co_await numbers.push(std::stoi(*line));                        // false: closed
  }
  numbers.close();
}
started add(async::bounded_queue<int>& numbers, int& sum) {
  while (std::optional<int> number = co_await numbers.pop()) sum += *number;
}
// [/coroutine]

void coroutines() {
  int sum = 0;
  async::queue<std::string> lines;
  async::bounded_queue<int> numbers(1);
  parse(lines, numbers);
  for (int n = 1; n <= 10; ++n) lines.enqueue(std::to_string(n));
  add(numbers, sum);
  lines.close();
  expect(sum == 55 && numbers.is_closed(), "coroutines");
}

void in_bulk() {
  // [bulk]
  const std::vector<int> batch{1, 2, 3, 4, 5};
  async::queue<int> queue;
  queue.bulk_enqueue(batch.begin(), batch.size());

  std::vector<int> taken(10);
  taken.resize(queue.bulk_dequeue(taken.begin(), taken.size()));
  // [/bulk]
  expect(taken == batch, "bulk");
}

}  // namespace

int main() {
  unbounded();
  consumers();
  bounded();
  coroutines();
  in_bulk();
  std::printf("%d of %d snippets do what they show\n", snippets - failures, snippets);
  return failures == 0 ? 0 : 1;
}
