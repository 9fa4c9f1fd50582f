// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>   // for atomic
#include <chrono>   // for duration
#include <cstddef>  // for size_t
#include <cstdint>  // for uint64_t
#include <memory>   // for make_unique
#include <string>   // for string
#include <tuple>    // for ignore

#include "harness.hpp"  // for plan, sample
#include "machine.hpp"  // for run_together, wall_clock
#include "tally.hpp"    // for tally

/// Fork and join, and a search that its first hit cancels. An adapter has the members of pool_workloads.hpp that start
/// tasks, and one or more of these:
///
///   void fork_join(F, G);  // runs both, possibly at the same time, and returns when both have ended
///   void enter(F);         // optional: a thread outside calls F so that its fork_join() is one of this pool
///   std::uint64_t fibonacci(unsigned n);  // called outside, instead of fork_join(): all of the recursion
///   struct group;          // made from the adapter by a task: run(F), cancel() and wait()
namespace bench {

struct no_part {
  void operator()() const noexcept {}
};

template <class P>
concept can_fork_join = requires(P& pool) { pool.fork_join(no_part{}, no_part{}); };

/// Runs a body as a task and waits until it ends.
template <class P, class Body>
void run_inside(P& pool, Body body) {
  std::atomic<bool> done{false};
  pool.execute([&] {
    body();
    done.store(true, std::memory_order_release);
    done.notify_one();
  });
  done.wait(false, std::memory_order_acquire);
}

// --- Fibonacci without a cut-off -------------------------------------------------------------------------------------

/// The thread of the first call.
enum class caller { inside, outside };

template <class P>
std::uint64_t fibonacci(P& pool, unsigned n) {
  if (n < 2) return n;
  std::uint64_t a = 0, b = 0;
  pool.fork_join([&] { a = fibonacci(pool, n - 1); }, [&] { b = fibonacci(pool, n - 2); });
  return a + b;
}

template <class P>
std::uint64_t fibonacci_from(caller where, P& pool, unsigned n) {
  if constexpr (requires { pool.fibonacci(n); }) {
    return pool.fibonacci(n);
  } else {
    std::uint64_t found = 0;
    const auto call = [&] { found = fibonacci(pool, n); };
    if (where == caller::inside) {
      run_inside(pool, call);
    } else if constexpr (requires { pool.enter(call); }) {
      pool.enter(call);
    } else {
      call();
    }
    return found;
  }
}

/// Each call spawns one half and calls the other half itself.
template <class P>
sample measure_fork_join(caller where, std::size_t workers, unsigned n, std::uint64_t expected) {
  const auto pool = std::make_unique<P>(workers);
  std::uint64_t found = 0;
  sample result;
  result.time = run_together(
      1, [&](std::size_t) { fibonacci_from(where, *pool, n - 4); },
      [&](std::size_t) { found = fibonacci_from(where, *pool, n); }, placing::free);
  if (found != expected) result.defect = "a wrong Fibonacci number";
  return result;
}

/// Adds an adapter to the workloads of fork_join().
template <class P>
void add_fork_join(plan& to, const std::string& name, int rank) {
  // fib(27) is 196418; it spawns fib(28) - 1 times. fib(23) is 28657 and spawns fib(24) - 1 times.
  const std::size_t spawns = to.size(317'810, 46'367);
  const unsigned n = to.quick() ? 23 : 27;
  const std::uint64_t expected = to.size(196'418, 28'657);
  const auto add = [&](const char* workload, caller where) {
    to.add(workload, {name, rank, spawns, [=](std::size_t) { return measure_fork_join<P>(where, 2, n, expected); }});
  };
  add("pool/fork-join", caller::inside);
  add("pool/fork-join outside", caller::outside);
  to.add_to_curve("scaling/fork-join", [&](std::size_t workers) {
    return entry{name, rank, 46'367,
                 [workers](std::size_t) { return measure_fork_join<P>(caller::inside, workers, 23, 28'657); }};
  });
}

// --- search ----------------------------------------------------------------------------------------------------------

/// A search for the only leaf that has a certain key. Computing the key of a leaf takes about 100 ns.
class leaf_search {
 public:
  explicit leaf_search(std::size_t hit) : wanted_(key(hit)) {}

  /// Looks at a leaf.
  bool is_hit(std::size_t leaf) {
    tally::count();
    if (key(leaf) != wanted_) return false;
    found_ = leaf;
    when_ = wall_clock::now();
    return true;
  }
  /// For the thread that has waited for the search.
  std::size_t found() const noexcept { return found_; }
  wall_clock::time_point when() const noexcept { return when_; }

  static constexpr std::size_t nothing = ~std::size_t{0};

 private:
  /// A different one for each leaf: each round is a bijection.
  static std::uint64_t key(std::uint64_t leaf) noexcept {
    for (int round = 0; round < 32; ++round) {
      leaf = (leaf ^ (leaf >> 30)) * 0xbf58476d1ce4e5b9 + 1;
    }
    return leaf;
  }
  const std::uint64_t wanted_;
  std::size_t found_ = nothing;
  wall_clock::time_point when_;
};

/// Looks at `count` leaves: a task of the group for each half, down to one leaf.
template <class Group>
void search_leaves(Group& group, leaf_search& search, std::size_t first, std::size_t count) {
  while (count > 1) {
    const std::size_t half = count / 2;
    group.run([&group, &search, at = first + half, rest = count - half] { search_leaves(group, search, at, rest); });
    count = half;
  }
  if (search.is_hit(first)) group.cancel();
}

/// The leaf to find in a search, the same ones for all contestants.
inline std::size_t hit_of(std::size_t search, std::size_t leaves) { return search * 2'654'435'761U % leaves; }

/// Searches one after the other inside a task, each until its first hit. First one without a hit, which looks at every
/// leaf.
template <class P>
sample measure_search(std::size_t workers, std::size_t leaves, std::size_t searches) {
  const auto pool = std::make_unique<P>(workers);
  sample result;
  double after = 0;
  const auto search_for = [&](std::size_t hit, std::size_t expected) {
    leaf_search search(hit);
    typename P::group group(*pool);
    group.run([&] { search_leaves(group, search, 0, leaves); });
    std::ignore = group.wait();
    if (search.found() != expected) result.defect = "a wrong leaf";
    if (search.found() != leaf_search::nothing) {
      after += std::chrono::duration<double, std::micro>(wall_clock::now() - search.when()).count();
    }
  };
  run_inside(*pool, [&] {
    const tally whole;
    search_for(leaves, leaf_search::nothing);
    if (whole.so_far() != leaves) result.defect = "a search without a hit has not looked at each leaf once";
    for (std::size_t s = 0; s < searches / 4; ++s) search_for(hit_of(s, leaves), hit_of(s, leaves));
    after = 0;
    const tally visited;
    const wall_clock::time_point begin = wall_clock::now();
    for (std::size_t s = 0; s < searches; ++s) search_for(hit_of(s, leaves), hit_of(s, leaves));
    result.time = wall_clock::now() - begin;
    const double looked = static_cast<double>(visited.so_far()) / static_cast<double>(searches * leaves);
    if (looked > 1) result.defect = "a search has looked at a leaf twice";
    result.figures["% visited"] = 100 * looked;
    result.figures["us after the hit"] = after / static_cast<double>(searches);
  });
  return result;
}

/// Adds an adapter to the workloads of groups that can be cancelled.
template <class P>
void add_search(plan& to, const std::string& name, int rank) {
  to.add("pool/search",
         {name, rank, to.size(400, 100), [](std::size_t searches) { return measure_search<P>(2, 4'096, searches); }});
}

}  // namespace bench
