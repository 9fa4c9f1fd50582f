// SPDX-License-Identifier: BSL-1.0
//
// Random trees of groups, loops, calls and futures, compared with a sequential walk of the same tree.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"

using async::parallel_for;
using async::parallel_invoke;
using async::parallel_reduce;
using async::task_group;
using async::threadpool;

namespace {

/// The way in which a node runs its children.
enum class way : std::uint8_t { group, group_and_self, invoke, loop, loop_of_group, reduce, posts, calls };
constexpr unsigned ways = 7;  // in a pool that is not the shared one
constexpr unsigned ways_of_shared = 8;

/// One node of a tree, and the results of a sequential walk.
struct node {
  way how = way::group;
  bool throws = false;   // after its children
  bool cancels = false;  // the group whose task it is
  bool catches = false;  // exceptions of its children, or their cancellation
  bool pauses = false;
  std::size_t grain = 0;
  std::size_t first = 0;  // its children are first, first + 1, …
  std::size_t count = 0;

  bool children_fail = false;  // one of them throws or cancels: its own value then ignores theirs
  bool fails = false;          // it throws
  bool is_certain = false;     // it is always visited
  std::uint64_t value = 0;
};

struct failure {
  std::size_t of;
};

class tree {
 public:
  tree(std::uint64_t seed, bool is_clean, bool is_of_shared)
      : random_(static_cast<std::minstd_rand::result_type>(seed)),
        is_clean_(is_clean),
        ways_(is_of_shared ? ways_of_shared : ways) {
    nodes_.emplace_back();
    grow(0, 1 + random_() % 6, 1 + random_() % 5);
    judge(0);
    nodes_[0].is_certain = true;
    mark_certain(0);
  }

  const node& operator[](std::size_t i) const { return nodes_[i]; }
  std::size_t size() const { return nodes_.size(); }

 private:
  static bool has_group(way how) {
    return how == way::group || how == way::group_and_self || how == way::loop_of_group;
  }
  bool once_in(unsigned n) { return random_() % n == 0; }

  /// Chooses what a node does, once its children are known.
  void grow(std::size_t at, std::size_t depth, std::size_t widest) {
    node n;
    n.how = static_cast<way>(random_() % ways_);
    n.throws = !is_clean_ && once_in(25);
    n.cancels = !is_clean_ && once_in(25);
    n.catches = once_in(2);
    n.pauses = once_in(16);
    n.grain = random_() % 3;
    n.count = depth == 0 ? 0 : random_() % (widest + 1);
    if (n.how == way::invoke && n.count > 5) n.count = 5;
    n.first = nodes_.size();
    nodes_[at] = n;
    nodes_.resize(nodes_.size() + n.count);
    for (std::size_t i = 0; i < n.count; ++i) {
      if (nodes_.size() > most_nodes) continue;  // leaves
      grow(n.first + i, depth - 1, widest);
      if (!has_group(n.how)) nodes_[n.first + i].cancels = false;
    }
  }

  void judge(std::size_t at) {
    node& n = nodes_[at];
    n.value = at * 2654435761U + 1;
    for (std::size_t i = n.first; i < n.first + n.count; ++i) {
      judge(i);
      n.children_fail = n.children_fail || nodes_[i].fails || nodes_[i].cancels;
      n.value += nodes_[i].value;
    }
    if (n.children_fail) n.value = ~at;
    n.fails = n.throws || (n.children_fail && !n.catches);
  }

  /// The call of a future is always made. Other children are skipped when one of them fails.
  void mark_certain(std::size_t at) {
    const node& n = nodes_[at];
    for (std::size_t i = n.first; i < n.first + n.count; ++i) {
      const bool skips_nothing = n.how == way::posts || n.how == way::calls || !n.children_fail;
      nodes_[i].is_certain = n.is_certain && skips_nothing;
      mark_certain(i);
    }
  }

  static constexpr std::size_t most_nodes = 400;
  std::minstd_rand random_;
  const bool is_clean_;
  const unsigned ways_;
  std::vector<node> nodes_;
};

/// A tree that a pool runs.
class walk {
 public:
  walk(const tree& of, threadpool& pool) : tree_(of), pool_(pool), visits_(of.size()) {}

  std::uint64_t run() { return visit(0, nullptr); }

  /// Whether each node that must be visited was, none was visited twice, and no callable is left.
  bool is_right() const {
    for (std::size_t i = 0; i < visits_.size(); ++i) {
      const unsigned visits = visits_[i].load(std::memory_order_relaxed);
      if (visits > 1 || (visits == 0 && tree_[i].is_certain)) return false;
    }
    return made_ == destroyed_;
  }
  std::uint64_t visited() const {
    std::uint64_t all = 0;
    for (const auto& visits : visits_) all += visits.load(std::memory_order_relaxed);
    return all;
  }

 private:
  /// A member of each callable, made once and destroyed once.
  class captured {
   public:
    explicit captured(walk& w) : walk_(&w) { w.made_.fetch_add(1, std::memory_order_relaxed); }
    captured(captured&& other) noexcept : walk_(std::exchange(other.walk_, nullptr)) {}
    captured& operator=(captured&&) = delete;
    ~captured() {
      if (walk_ != nullptr) walk_->destroyed_.fetch_add(1, std::memory_order_relaxed);
    }

   private:
    walk* walk_;
  };

  /// `around`: the group whose task this node is, or null.
  std::uint64_t visit(std::size_t at, task_group* around) {
    const node& n = tree_[at];
    visits_[at].fetch_add(1, std::memory_order_relaxed);
    if (n.cancels && n.pauses && around != nullptr) around->cancel();
    if (n.pauses) std::this_thread::yield();
    std::vector<std::uint64_t> values(n.count);
    std::uint64_t value = at * 2654435761U + 1;
    bool all_done = false;
    try {
      all_done = n.count == 0 || visit_children(at, values, value);
      for (const std::uint64_t v : values) value += v;
    } catch (const failure&) {
    }
    if (n.cancels && around != nullptr) around->cancel();
    if (n.throws) throw failure{at};
    if (!all_done) {
      if (!n.catches) throw failure{at};
      return ~at;
    }
    return value;
  }

  /// Whether all have been visited. Each puts its value in its place, or adds it to `sum`.
  bool visit_children(std::size_t at, std::vector<std::uint64_t>& values, std::uint64_t& sum) {
    const node& n = tree_[at];
    const std::size_t first = n.first;
    const auto child = [&, first](std::size_t i, task_group* group = nullptr) { values[i] = visit(first + i, group); };
    switch (n.how) {
      case way::group: {
        task_group group(pool_);
        for (std::size_t i = 0; i < n.count; ++i) {
          group.run([&child, &group, i, c = captured(*this)] { child(i, &group); });
        }
        return group.wait();
      }
      case way::group_and_self: {
        task_group group(pool_);
        for (std::size_t i = 1; i < n.count; ++i) {
          group.run([&child, &group, i, c = captured(*this)] { child(i, &group); });
        }
        return group.run_and_wait([&] { child(0, &group); });
      }
      case way::invoke: {
        const auto a = [&, c = captured(*this)] { child(0); };
        const auto b = [&] { child(1); };
        const auto c = [&] { child(2); };
        const auto d = [&] { child(3); };
        const auto e = [&] { child(4); };
        switch (n.count) {
          case 1:
            return parallel_invoke(pool_, a);
          case 2:
            return parallel_invoke(pool_, a, b);
          case 3:
            return parallel_invoke(pool_, a, b, c);
          case 4:
            return parallel_invoke(pool_, a, b, c, d);
          default:
            return parallel_invoke(pool_, a, b, c, d, e);
        }
      }
      case way::loop:
        return parallel_for(
            pool_, std::size_t{0}, n.count, [&child, c = captured(*this)](std::size_t i) { child(i); }, n.grain);
      case way::loop_of_group: {
        task_group group(pool_);
        const bool all_made = parallel_for(
            group, std::size_t{0}, n.count, [&child, &group, c = captured(*this)](std::size_t i) { child(i, &group); },
            n.grain);
        return all_made && !group.is_cancelling();  // the last one may have cancelled the group
      }
      case way::reduce: {
        sum += parallel_reduce(
            pool_, std::size_t{0}, n.count, std::uint64_t{0},
            [this, first, c = captured(*this)](std::uint64_t so_far, std::size_t i) {
              return so_far + visit(first + i, nullptr);
            },
            std::plus<>(), n.grain);
        return !async::current_group_is_cancelling();  // otherwise some may be missing
      }
      case way::posts: {
        std::vector<std::future<void>> futures;
        for (std::size_t i = 0; i < n.count; ++i) {
          futures.push_back(pool_.post([&child, i, c = captured(*this)] { child(i); }));
        }
        return all_of(futures, n.grain, [this](std::future<void>& each) { pool_.wait(each); });
      }
      case way::calls: {
        std::vector<std::future<void>> futures;
        for (std::size_t i = 0; i < n.count; ++i) {
          futures.push_back(async::async([&child, i, c = captured(*this)] { child(i); }));
        }
        return all_of(futures, n.grain, [](std::future<void>& each) { each.get(); });
      }
    }
    return false;
  }

  /// Waits for all of them, in some order, before it rethrows the exception of one.
  template <class Wait>
  static bool all_of(std::vector<std::future<void>>& futures, std::size_t order, Wait wait) {
    std::exception_ptr thrown;
    for (std::size_t i = 0; i < futures.size(); ++i) {
      try {
        wait(futures[order == 0 ? i : futures.size() - 1 - i]);
      } catch (const failure&) {
        thrown = std::current_exception();
      }
    }
    if (thrown != nullptr) std::rethrow_exception(thrown);
    return true;
  }

  const tree& tree_;
  threadpool& pool_;
  std::vector<std::atomic<unsigned char>> visits_;
  std::atomic<std::uint64_t> made_{0};
  std::atomic<std::uint64_t> destroyed_{0};
};

struct sums {
  std::atomic<std::uint64_t> trees{0};
  std::atomic<std::uint64_t> nodes{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> first_wrong{0};
};

/// Compares one tree, run from outside or inside, with its sequential walk.
void check_tree(threadpool& pool, std::uint64_t seed, bool is_of_shared, sums& all) {
  const tree expected(seed, seed % 3 == 0, is_of_shared);
  walk actual(expected, pool);
  std::uint64_t value = 0;
  bool has_failed = false;
  try {
    switch (seed % 4) {
      case 0:
        value = actual.run();
        break;
      case 1:
        value = pool.post([&actual] { return actual.run(); }).get();
        break;
      case 2: {
        task_group group(pool);
        group.run([&] { value = actual.run(); });
        group.wait();
        break;
      }
      default: {
        const auto result = std::make_shared<std::promise<std::uint64_t>>();
        pool.execute([&actual, result] {
          try {
            result->set_value(actual.run());
          } catch (...) {
            result->set_exception(std::current_exception());
          }
        });
        value = result->get_future().get();
      }
    }
  } catch (const failure&) {
    has_failed = true;
  }
  const node& root = expected[0];
  // the root's own cancel has no group
  const bool is_right = has_failed == root.fails && (has_failed || value == root.value) && actual.is_right();
  all.trees.fetch_add(1, std::memory_order_relaxed);
  all.nodes.fetch_add(actual.visited(), std::memory_order_relaxed);
  if (has_failed) all.failed.fetch_add(1, std::memory_order_relaxed);
  if (!is_right && all.wrong.fetch_add(1) == 0) all.first_wrong = seed;
}

/// Changes a pool's number of threads, from 1 to 6, until it is destroyed.
class resizer {
 public:
  explicit resizer(threadpool& pool)
      : thread_([this, &pool] {
          std::minstd_rand random(3);
          while (!is_over_) {
            pool.configurepool(1 + random() % 6);
            resizes_.fetch_add(1, std::memory_order_relaxed);
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
          }
        }) {}
  ~resizer() { stop(); }
  std::uint64_t stop() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
    return resizes_;
  }

 private:
  std::atomic<bool> is_over_{false};
  std::atomic<std::uint64_t> resizes_{0};
  std::thread thread_;
};

void check_trees(threadpool& pool, std::size_t trees, bool is_of_shared) {
  sums all;
  constexpr std::size_t threads = 3;
  resizer other(pool);
  testing::run_threads(threads, [&](std::size_t t) {
    for (std::size_t i = t; i < trees; i += threads) check_tree(pool, testing::seed() + i, is_of_shared, all);
  });
  const std::uint64_t resizes = other.stop();
  pool.wait_idle();
  CAPTURE(all.first_wrong.load());  // the seed of the tree: ASYNCSTEPS_TEST_SEED
  CHECK(all.wrong == 0);
  CHECK(all.trees == trees);
  if (trees > 100) CHECK(all.failed > trees / 100);
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf("count: %llu fork-join trees\n", number(all.trees));
  std::printf("count: %llu nodes of fork-join trees\n", number(all.nodes));
  std::printf("count: %llu resizes under fork-join trees\n", number(resizes));
}

}  // namespace

TEST_CASE("random trees of groups, calls, loops and futures in a pool that is resized match a sequential walk") {
  threadpool pool(2);
  check_trees(pool, testing::rounds(12'000), false);
}

TEST_CASE("random trees with async::async in the shared pool while it is resized match a sequential walk") {
  check_trees(threadpool::shared(), testing::rounds(8'000), true);
  threadpool::shared().configurepool(async::usable_concurrency());
}
