// SPDX-License-Identifier: BSL-1.0
//
// The thread pool: tasks with and without a result, tasks that wait for tasks, a limited backlog, priorities.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <future>
#include <stdexcept>
#include <string>
#include <utility>

#include "async/threadpool.hpp"

namespace {

int snippets = 0, failures = 0;
void expect(bool condition, const char* what) {
  ++snippets;
  if (condition) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

void post() {
  // [post]
  async::threadpool pool;  // one thread for each processor this process may use

  std::future<std::size_t> length = pool.post([](const std::string& s) { return s.size(); }, "four");
  pool.execute([] { std::puts("fire and forget: no future, no allocation"); });

  const std::size_t four = length.get();
  pool.wait_idle();  // nothing is queued or running
  // [/post]
  expect(four == 4, "post");
}

void errors() {
  async::threadpool pool(2);
  std::string message;
  // [errors]
  std::future<int> result = pool.post([]() -> int { throw std::runtime_error("no such file"); });
  try {
    result.get();  // nothing was reported: the error waits in the future
  } catch (const std::exception& error) {
    message = error.what();
  }
  // [/errors]
  expect(message == "no such file", "errors");
}

// [wait]
// Each call waits for a task it has posted. A pool of one thread is enough: wait() runs the task that it waits for.
std::uint64_t factorial(async::threadpool& pool, std::uint64_t n) {
  if (n < 2) return 1;
  std::future<std::uint64_t> below = pool.post([&pool, n] { return factorial(pool, n - 1); });
  return n * pool.wait(below);
}
// [/wait]

void priorities() {
  async::threadpool pool(1);
  std::atomic<bool> is_clean{false};
  // [priorities]
  pool.execute(async::priority::low, [&is_clean] { is_clean = true; });  // when there is nothing else to do
  async::future<int> answer = pool.post(async::priority::high, [] { return 6 * 7; });  // before all that waits
  // [/priorities]
  expect(answer.get() == 42, "priorities");
  pool.wait_idle();
  expect(is_clean, "priorities, in the background");
}

void options() {
  std::atomic<int> ran{0};
  // [options]
  async::threadpool_options options;
  options.threads = 2;
  options.name = "resize";    // the threads are called resize/0 and resize/1
  options.max_queue = 1'000;  // with a thousand tasks queued, post() and execute() wait; they may also throw instead
  options.when_full = async::threadpool_options::overflow::block;
  {
    async::threadpool pool(std::move(options));
    for (int i = 0; i < 10'000; ++i) pool.execute([&ran] { ++ran; });
    pool.configurepool(8);  // at any time, from any thread
  }  // every task that was accepted has run
  // [/options]
  expect(ran == 10'000, "options");
}

}  // namespace

int main() {
  post();
  errors();
  {
    async::threadpool pool(1);
    expect(factorial(pool, 20) == 2'432'902'008'176'640'000, "wait");
  }
  options();
  priorities();
  std::printf("%d of %d snippets do what they show\n", snippets - failures, snippets);
  return failures == 0 ? 0 : 1;
}
