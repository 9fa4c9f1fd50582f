// SPDX-License-Identifier: BSL-1.0
//
// The queues: the unbounded one, the bounded one with its ways to wait and its end, and operations in bulk.
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/queue.hpp"

namespace {

int snippets = 0, failures = 0;
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
  bounded();
  in_bulk();
  std::printf("%d of %d snippets do what they show\n", snippets - failures, snippets);
  return failures == 0 ? 0 : 1;
}
