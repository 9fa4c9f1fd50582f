// SPDX-License-Identifier: BSL-1.0
//
// The queues: many producers and consumers on the unbounded one, and a pipeline of threads joined by bounded ones.
#include <atomic>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/queue.hpp"

namespace {

int failures = 0;
void expect(bool condition, const char* what) {
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

void pipeline() {
  long total = 0;
  // [pipeline]
  async::bounded_queue<int> numbers(64);  // a stage that is ahead sleeps until the next one catches up
  async::bounded_queue<long> squares(64);

  std::thread source([&] {
    for (int i = 1; i <= 1000; ++i) numbers.blocking_enqueue(i);
    numbers.close();  // what is inside can still be taken
  });
  std::vector<std::thread> workers;
  std::atomic<int> working{2};
  for (int w = 0; w < 2; ++w) {
    workers.emplace_back([&] {
      int number = 0;
      while (numbers.blocking_dequeue(number)) squares.blocking_enqueue(long{number} * number);
      if (--working == 0) squares.close();  // the last one out
    });
  }
  long square = 0;
  while (squares.blocking_dequeue(square)) total += square;  // false: closed and empty
  // [/pipeline]
  source.join();
  for (std::thread& worker : workers) worker.join();
  expect(total == 333'833'500, "pipeline");
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
  pipeline();
  in_bulk();
  return failures == 0 ? 0 : 1;
}
