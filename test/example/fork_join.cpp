// SPDX-License-Identifier: BSL-1.0
//
// Fork and join, called from main: calls, tasks, loops and a search that ends early.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "async/parallel_for.hpp"
#include "async/parallel_invoke.hpp"
#include "async/parallel_reduce.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"

namespace {

int snippets = 0, failures = 0;
void expect(bool condition, const char* what) {
  ++snippets;
  if (condition) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

// [parallel_invoke]
std::uint64_t fibonacci(async::threadpool& pool, unsigned n) {
  if (n < 2) return n;
  std::uint64_t a = 0, b = 0;
  async::parallel_invoke(
      pool, [&] { a = fibonacci(pool, n - 1); },  // on this thread
      [&] { b = fibonacci(pool, n - 2); });       // on a thread that is idle, else on this one, too
  return a + b;
}
// [/parallel_invoke]

// [fork_join]
void sort(async::threadpool& pool, int* first, int* last) {
  async::task_group group(pool);
  while (last - first > 1'000) {
    const int pivot = first[(last - first) / 2];
    int* const middle = std::partition(first, last, [pivot](int x) { return x < pivot; });
    int* const upper = std::partition(middle, last, [pivot](int x) { return x == pivot; });
    group.run([&pool, upper, last] { sort(pool, upper, last); });  // for a thread that is idle
    last = middle;
  }
  std::sort(first, last);
  group.wait();  // runs what no other thread has taken; throws what a task has thrown
}
// [/fork_join]

void cancel() {
  async::threadpool pool;
  std::vector<int> haystack(1'000'000);
  haystack[654'321] = 1;
  // [cancel]
  std::atomic<std::size_t> found{haystack.size()};
  async::task_group search(pool);
  search.run_and_wait([&] {
    async::parallel_for(pool, std::size_t{0}, haystack.size(), [&](std::size_t i) {
      if (haystack[i] == 0) return;
      found = i;
      search.cancel();  // ends the loop, and all that was made inside the group
    });
  });
  // [/cancel]
  expect(found == 654'321, "cancel");
}

void loops() {
  async::threadpool pool;
  // [parallel_for]
  std::vector<double> squares(100'000);
  async::parallel_for(pool, std::size_t{0}, squares.size(),
                      [&](std::size_t i) { squares[i] = static_cast<double>(i) * static_cast<double>(i); });

  const double sum = async::parallel_reduce(pool, squares, 0.0, std::plus<>(), std::plus<>());
  // [/parallel_for]
  expect(squares[1000] == 1e6 && squares.back() == 99'999.0 * 99'999.0, "parallel_for");
  expect(sum > 3.3332e14 && sum < 3.3334e14, "parallel_reduce");
}

}  // namespace

int main() {
  async::threadpool pool;
  expect(fibonacci(pool, 30) == 832'040, "parallel_invoke");
  std::vector<int> numbers(3'000'000);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937(1));
  sort(pool, numbers.data(), numbers.data() + numbers.size());
  expect(std::is_sorted(numbers.begin(), numbers.end()), "fork_join");
  loops();
  cancel();
  std::printf("%d of %d snippets do what they show\n", snippets - failures, snippets);
  return failures == 0 ? 0 : 1;
}
