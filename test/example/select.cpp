// SPDX-License-Identifier: BSL-1.0
//
// A thread that serves several queues, a future and a time limit.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "async/bounded_queue.hpp"
#include "async/future.hpp"
#include "async/queue.hpp"
#include "async/select.hpp"

namespace {

using namespace std::chrono_literals;

int snippets = 0, failures = 0;
void expect(bool condition, const char* what) {
  ++snippets;
  if (condition) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

void server() {
  std::string log;
  int ticks = 0;
  async::promise<void> end;
  async::future<void> stop = end.get_future();
  // [select]
  async::queue<std::string> urgent, normal;
  std::thread server([&] {
    for (bool is_on = true; is_on;) {
      async::select(                                                      // the first that is ready, in this order
          async::on_pop(urgent, [&](std::string text) { log += text; }),  // the element has left the queue
          async::on_pop(normal, [&](std::string text) { log += text; }),
          async::on_ready(stop, [&](async::future<void>&) { is_on = false; }),
          async::after(10ms, [&] { ++ticks; }));  // none was ready for so long
    }
  });
  // [/select]
  normal.enqueue("a");
  urgent.enqueue("b");
  while (!urgent.empty() || !normal.empty()) std::this_thread::yield();
  end.set_value();
  server.join();
  expect(log.size() == 2 && ticks >= 0, "select");
}

void merge() {
  // [merge]
  async::queue<int> left, right;
  async::bounded_queue<int> merged(100);
  for (int n : {1, 2, 3}) left.enqueue(n), right.enqueue(10 * n);
  left.close();
  right.close();
  const auto pass_on = [&](int n) { merged.blocking_enqueue(n); };
  while (async::select(async::on_pop(left, pass_on), async::on_pop(right, pass_on)) != async::nothing_left) {
  }  // until both are closed and empty
  // [/merge]
  int sum = 0;
  while (auto n = merged.dequeue()) sum += *n;
  expect(sum == 66, "merge");
}

void without_waiting() {
  std::string item = "data";
  // [try]
  async::bounded_queue<std::string> first(1), second(1);
  first.enqueue("full");
  const std::size_t which = async::select(async::on_push(first, std::move(item)),   // item is moved by one case only
                                          async::on_push(second, std::move(item)),  // index 1
                                          async::otherwise([] { std::puts("both are full"); }));
  // [/try]
  expect(which == 1 && second.dequeue() == "data", "try");
}

}  // namespace

int main() {
  server();
  merge();
  without_waiting();
  std::printf("%d of %d snippets do what they show\n", snippets - failures, snippets);
  return failures == 0 ? 0 : 1;
}
