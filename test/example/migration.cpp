// SPDX-License-Identifier: BSL-1.0
//
// The right-hand side of the table "Coming from" in README.md: rows that end at async/.
#include <atomic>
#include <cstdio>
#include <functional>
#include <future>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "async/async.hpp"

namespace {

int twice(int x) { return 2 * x; }

bool std_async() {
  std::future<int> pooled = async::async(twice, 21);
  std::future<int> lazy = async::async(std::launch::deferred, twice, 4);
  return pooled.get() == 42 && lazy.get() == 8;
}

bool thread_mutex_deque() {
  async::bounded_queue<std::string> queue(16);
  std::thread worker([&] {
    for (int i = 0; i < 100; ++i) queue.blocking_enqueue(std::to_string(i));
    queue.close();
  });
  int sum = 0;
  for (std::string text; queue.blocking_dequeue(text);) sum += std::stoi(text);
  worker.join();
  return sum == 4950;
}

/// boost::async and create_task with continuations; when_all and when_any of arguments and of vectors.
bool continuations() {
  async::threadpool pool(2);
  const auto half = [](async::future<int> ready) { return ready.get() / 2; };
  async::future<int> same = pool.post(twice, 21).then(half);
  async::future<std::string> failing =
      pool.post([]() -> int { throw std::runtime_error("no luck"); }).then([](async::future<int> ready) {
        try {
          return std::to_string(ready.get());
        } catch (const std::exception& error) {
          return std::string(error.what());
        }
      });

  std::tuple<async::future<int>, async::future<std::string>> both =
      async::when_all(pool.post(twice, 2), std::move(failing)).get();
  std::vector<async::future<int>> some;
  for (int i = 0; i < 10; ++i) some.push_back(pool.post(twice, i));
  async::when_any_result<std::vector<async::future<int>>> any = async::when_any(std::move(some)).get();
  const int first = any.futures[any.index].get();
  return same.get() == 21 && std::get<0>(both).get() == 4 && std::get<1>(both).get() == "no luck" &&
         first == 2 * static_cast<int>(any.index);
}

/// task_group, parallel_for, parallel_invoke, parallel_reduce; concurrent_queue.
bool ppl() {
  async::threadpool pool(2);
  std::atomic<int> sum{0};
  async::task_group group(pool);
  group.run([&] { sum += 1; });
  group.wait();
  async::parallel_for(pool, 0, 100, [&](int i) { sum += i; });

  int half = 0;
  group.run_and_wait([&] { async::parallel_invoke(pool, [&] { sum += 1; }, [&] { half = 50; }); });
  const int total = async::parallel_reduce(pool, 0, half, 0, std::plus<>(), std::plus<>());

  async::queue<int> queue;
  queue.enqueue(7);
  int x = 0;
  return sum == 4952 && total == 1225 && queue.dequeue(x) && x == 7 && !queue.dequeue(x);
}

bool d36u9_async() {
  async::threadpool pool(0);  // paused
  std::future<int> posted = pool.post(twice, 3);
  pool.configurepool(2);

  async::queue<int> queue;
  const int from[] = {1, 2, 3, 4, 5};
  queue.bulk_enqueue(std::begin(from), 5);
  std::vector<int> to;
  const std::size_t taken = queue.bulk_dequeue(std::inserter(to, to.begin()), 5);
  async::bounded_queue<int> bounded(4);
  bounded.blocking_enqueue(1);
  int x = 0;
  bounded.blocking_dequeue(x);
  return posted.get() == 6 && taken == 5 && to.size() == 5 && x == 1;
}

}  // namespace

int main() {
  const struct {
    const char* from;
    bool (*works)();
  } rows[] = {{"std::async", std_async},
              {"thread, mutex, deque", thread_mutex_deque},
              {"boost::async, create_task", continuations},
              {"PPL", ppl},
              {"d36u9/async", d36u9_async}};
  int wrong = 0;
  for (const auto& row : rows) {
    const bool works = row.works();
    if (!works) std::printf("wrong: %s\n", row.from), ++wrong;
  }
  const int all = static_cast<int>(std::size(rows));
  std::printf("%d of %d snippets do what they show\n", all - wrong, all);
  return wrong == 0 ? 0 : 1;
}
