// SPDX-License-Identifier: BSL-1.0
//
// A file that imports the module, in a program with files that include headers, and with one that does both: pools,
// futures, queues, flows and exceptions pass between them.
#include <coroutine>
#include <string>
#include <thread>

#include "import/checks.hpp"

import asyncsteps;

#include "import/included.hpp"

namespace {

/// An answer of the file that includes, in a coroutine of this one.
steps::interop::task<int> twice_the_sum(async::threadpool& pool) {
  co_return 2 * co_await included::sum_in_coroutine(pool, 20, 1);
}

}  // namespace

int main() {
  checks all;
  async::threadpool pool(2);
  CHECK(&included::shared_pool() == &async::threadpool::shared());
  CHECK(included::twice_later(pool, 21).get() == 42);
  CHECK(included::get(pool.post([] { return 7; })) == 7);
  CHECK(pool.post([&pool] { return included::is_in(pool); }).get() && !included::is_in(pool));
  CHECK(included::get(included::twice_later(pool, 2).then([](async::future<int> f) { return f.get() + 1; })) == 5);

  async::queue<int> numbers;
  std::thread producer([&numbers] {
    for (int i = 1; i <= 100; ++i) numbers.enqueue(i);
    numbers.close();
  });
  CHECK(included::sum_of(numbers) == 5'050);
  producer.join();
  std::string text;
  CHECK(included::texts().enqueue("text") && included::texts().dequeue(text) && text == "text");

  steps::AsyncSteps flow{pool};
  flow.state()["whom"] = std::string("world");
  included::add_question(flow);
  flow.add(
      [](steps::IAsyncSteps& asi, const std::string& hello, int times) { asi.success(hello + std::to_string(times)); });
  CHECK(flow.promise<std::string>().get() == "hello world3");

  std::string refused;
  steps::AsyncSteps failing{pool};
  failing.add([](steps::IAsyncSteps& asi) { included::add_error(asi); },
              [&refused](steps::IAsyncSteps& asi, steps::ErrorCode code) {
                refused = std::string(code) + " " + std::string(asi.state().error_info());
              });
  CHECK(included::info_of(failing.promise()) == "Refused: by the file that includes");
  CHECK(refused == "Refused by the file that includes");

  int inside = 0;
  steps::Mutex mutex;
  steps::AsyncSteps entering{pool};
  included::add_entry(entering, mutex, inside);
  entering.sync(mutex, [&inside](steps::IAsyncSteps&) { ++inside; });
  entering.promise().get();
  CHECK(inside == 2);

  CHECK(steps::interop::start(twice_the_sum(pool)).get() == 42);
  bool caught = false;
  try {
    included::post_to_stopped_pool();
  } catch (const async::stopped&) {
    caught = true;
  }
  CHECK(caught);
  CHECK(find_difference() == 0);
  return all.end();
}
