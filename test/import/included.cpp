// SPDX-License-Identifier: BSL-1.0
//
// A file that includes headers, as importer.cpp, which calls it, does not.
#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"
// after the library, which it does not include
#include "import/included.hpp"

namespace included {

async::future<int> twice_later(async::threadpool& pool, int number) {
  return pool.post([](int x) { return 2 * x; }, number);
}
int get(async::future<int> future) { return future.get(); }

int sum_of(async::queue<int>& numbers) {
  int sum = 0;
  for (int x = 0; numbers.blocking_dequeue(x);) sum += x;
  return sum;
}

async::bounded_queue<std::string>& texts() {
  static async::bounded_queue<std::string> all(4);
  return all;
}

async::threadpool& shared_pool() { return async::threadpool::shared(); }

void add_question(steps::IAsyncSteps& flow) {
  flow.add([](steps::IAsyncSteps& asi) { asi.success("hello " + asi.state<std::string>("whom"), 3); });
}

void add_error(steps::IAsyncSteps& flow) {
  flow.add([](steps::IAsyncSteps& asi) { asi.error("Refused", "by the file that includes"); });
}

void add_entry(steps::IAsyncSteps& flow, steps::ISync& object, int& inside) {
  flow.sync(object, [&inside](steps::IAsyncSteps&) { ++inside; });
}

steps::interop::task<int> sum_in_coroutine(async::threadpool& pool, int a, int b) {
  co_await steps::interop::schedule(pool);
  co_return a + b;
}

void post_to_stopped_pool() {
  async::threadpool pool(1);
  pool.stop();
  pool.execute([] {});
}

bool is_in(const async::threadpool& pool) { return async::threadpool::current() == &pool; }

std::string info_of(async::future<void> end) {
  try {
    end.get();
  } catch (const steps::Error& error) {
    return std::string(error.what()) + ": " + std::string(error.error_info());
  }
  return "no error";
}

}  // namespace included
