// SPDX-License-Identifier: BSL-1.0
//
// A graph of tasks on a task_group: each task counts the ones before it that are not done, and the last of these runs
// it.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "async/task_group.hpp"
#include "async/threadpool.hpp"

namespace {

// [graph]
class task_graph {
 public:
  /// Adds a task to be run after those of `before`, which are numbers that this function has returned.
  std::size_t add(std::function<void()> work, const std::vector<std::size_t>& before = {}) {
    node& added = nodes_.emplace_back(std::move(work), before.size());
    for (const std::size_t each : before) nodes_[each].after.push_back(&added);
    return nodes_.size() - 1;
  }
  /// Runs all; can be called again. Throws what a task has thrown: those after it are not run then.
  void run(async::threadpool& pool) {
    async::task_group group(pool);
    for (node& n : nodes_) n.open = n.before;
    for (node& n : nodes_) {
      if (n.before == 0) group.run([&group, &n] { run(group, n); });
    }
    group.wait();
  }

 private:
  struct node {
    node(std::function<void()> f, std::size_t count) : work(std::move(f)), before(count) {}
    std::function<void()> work;
    std::size_t before;
    std::atomic<std::size_t> open{0};  // of those before it, how many are not done
    std::vector<node*> after;
  };
  static void run(async::task_group& group, node& n) {
    n.work();
    for (node* next : n.after) {
      if (--next->open == 0) group.run([&group, next] { run(group, *next); });
    }
  }

  std::deque<node> nodes_;  // which do not move
};
// [/graph]

/// The edit distance of two texts in tiles: each tile needs those above, on its left, and between these two.
std::size_t distance(async::threadpool& pool, const std::string& a, const std::string& b, std::size_t tile) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  task_graph graph;
  std::vector<std::size_t> above;
  for (std::size_t i = 0; i < a.size(); i += tile) {
    std::vector<std::size_t> row;
    for (std::size_t j = 0; j < b.size(); j += tile) {
      std::vector<std::size_t> before;
      if (!above.empty()) before.push_back(above[j / tile]);
      if (!row.empty()) before.push_back(row.back());
      row.push_back(graph.add(
          [&cost, &a, &b, tile, i, j] {
            for (std::size_t x = i; x < (std::min)(i + tile, a.size()); ++x) {
              for (std::size_t y = j; y < (std::min)(j + tile, b.size()); ++y) {
                const std::size_t change = cost[x][y] + (a[x] == b[y] ? 0 : 1);
                cost[x + 1][y + 1] = (std::min)({change, cost[x][y + 1] + 1, cost[x + 1][y] + 1});
              }
            }
          },
          before));
    }
    above = std::move(row);
  }
  graph.run(pool);
  return cost[a.size()][b.size()];
}

}  // namespace

int main() {
  async::threadpool pool;
  std::string a, b;
  for (std::size_t i = 0; i < 3'000; ++i) a += static_cast<char>('a' + i * i % 7);
  b = a.substr(0, 1'000) + "xyz" + a.substr(1'010);  // ten letters less, three more
  const std::size_t found = distance(pool, a, b, 64);
  std::printf("two texts of 3,000 letters are %zu edits apart, found by 2,209 tasks\n", found);
  return found == 10 ? 0 : 1;
}
