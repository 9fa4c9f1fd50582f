// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for min, max
#include <array>      // for array
#include <atomic>     // for atomic
#include <chrono>     // for microseconds
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <memory>     // for make_unique
#include <string>     // for string
#include <thread>     // for sleep_for
#include <vector>     // for vector

#include "busy.hpp"            // for work_for_a_microsecond
#include "curves.hpp"          // for rounds_of
#include "fork_workloads.hpp"  // for add_fork_join, no_part, run_inside
#include "harness.hpp"         // for plan, sample
#include "machine.hpp"         // for run_together, counted_allocations
#include "quantiles.hpp"       // for note_quantiles
#include "tally.hpp"           // for tally

/// The pool workloads, for any adapter. An adapter skips workloads whose calls it lacks:
///
///   struct adapter {
///     static constexpr double nanoseconds_per_task = 300;   // a guess: slow pools get fewer tasks
///     static constexpr bool has_threads = true;             // its threads start and end with it
///     explicit adapter(std::size_t workers);
///     auto post(F);               // a future with get()
///     void execute(F);            // fire and forget; also called from inside tasks
///     void fork_join(F, G);       // see fork_workloads.hpp
///     void loop(count, F);        // called inside or outside a task: F(i) for each i below count
///     void fork_many(count, F);   // called outside: runs count copies of F and waits
///     std::size_t workers();      // optional: the number of threads, if not as requested
///   };
namespace bench {

struct empty_task {
  void operator()() const noexcept { tally::count(); }
};
struct value_task {
  std::uint64_t value;
  std::uint64_t operator()() const noexcept { return value; }
};
struct busy_task {
  void operator()() const noexcept {
    work_for_a_microsecond();
    tally::count();
  }
};

template <class P>
concept can_post = requires(P& pool) { pool.post(value_task{}).get(); };
template <class P>
concept can_execute = requires(P& pool) { pool.execute(empty_task{}); };
template <class P>
concept can_loop = requires(P& pool) { pool.loop(std::size_t{1}, [](std::size_t) {}); };
template <class P>
concept can_fork_many = requires(P& pool) { pool.fork_many(std::size_t{1}, no_part{}); };

inline std::string missing_tasks(std::uint64_t ran, std::uint64_t posted) {
  return ran == posted ? "" : std::to_string(posted) + " tasks posted, " + std::to_string(ran) + " ran";
}

/// Each producer posts its share of a batch and gets every future, batch after batch.
template <class P>
sample measure_futures(std::size_t producers, std::size_t workers, std::size_t batch, std::size_t items) {
  const auto pool = std::make_unique<P>(workers);
  const std::size_t share = batch / producers, batches = items / batch;
  std::vector<std::uint64_t> sums(producers);
  const auto produce = [&](std::size_t which, std::size_t count) {
    std::vector<decltype(pool->post(value_task{}))> futures;
    futures.reserve(share);
    std::uint64_t sum = 0;
    for (std::size_t b = 0; b < count; ++b) {
      for (std::uint64_t i = 0; i < share; ++i) futures.push_back(pool->post(value_task{i}));
      for (auto& future : futures) sum += future.get();
      futures.clear();
    }
    sums[which] = sum;
  };
  sample result;
  result.time = run_together(
      producers, [&](std::size_t i) { produce(i, batches > 4 ? batches / 4 : 0); },
      [&](std::size_t i) { produce(i, batches); }, placing::free);
  for (const std::uint64_t sum : sums) {
    if (sum != batches * (share * (share - 1) / 2)) result.defect = "a future held a wrong value";
  }
  return result;
}

/// One thread outside the pool posts tasks as fast as it can. Measured until the last one has run.
template <class P, class Task = empty_task>
sample measure_flood(std::size_t workers, std::size_t items) {
  const auto pool = std::make_unique<P>(workers);
  sample result;
  const auto flood = [&](std::size_t count) {
    const tally ran;
    for (std::size_t i = 0; i < count; ++i) pool->execute(Task{});
    if (!ran.wait_for(count)) result.defect = missing_tasks(ran.so_far(), count);
  };
  result.time =
      run_together(1, [&](std::size_t) { flood(items / 4); }, [&](std::size_t) { flood(items); }, placing::free);
  return result;
}

/// A task that posts two more, down to depth 0.
template <class P>
struct tree_task {
  P* pool;
  unsigned depth;
  void operator()() const {
    tally::count();
    if (depth == 0) return;
    pool->execute(tree_task{pool, depth - 1});
    pool->execute(tree_task{pool, depth - 1});
  }
};

/// A binary tree of tasks, posted from inside.
template <class P>
sample measure_tree(std::size_t workers, std::size_t items) {
  const auto pool = std::make_unique<P>(workers);
  unsigned depth = 0;
  while ((std::size_t{2} << (depth + 1)) <= items + 1) ++depth;
  sample result;
  const auto grow = [&](unsigned levels) {
    const std::uint64_t tasks = (std::uint64_t{2} << levels) - 1;
    const tally ran;
    pool->execute(tree_task<P>{pool.get(), levels});
    if (!ran.wait_for(tasks)) result.defect = missing_tasks(ran.so_far(), tasks);
  };
  result.time =
      run_together(1, [&](std::size_t) { grow(depth - 2); }, [&](std::size_t) { grow(depth); }, placing::free);
  return result;
}

/// Parallel loops over cheap calls, one loop after the other.
template <class P>
sample measure_loop(std::size_t workers, std::size_t count, bool inside, std::size_t items) {
  const auto pool = std::make_unique<P>(workers);
  std::vector<double> values(count);
  const auto loops = [&](std::size_t rounds) {
    for (std::size_t r = 0; r < rounds; ++r) {
      pool->loop(count, [&values, r](std::size_t i) { values[i] = static_cast<double>(i + r); });
    }
  };
  const auto run = [&](std::size_t rounds) {
    if (inside) {
      run_inside(*pool, [&] { loops(rounds); });
    } else {
      loops(rounds);
    }
  };
  sample result;
  result.time =
      run_together(1, [&](std::size_t) { run(items / 4 + 1); }, [&](std::size_t) { run(items); }, placing::free);
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] != static_cast<double>(i + items - 1)) result.defect = "a call was not made";
  }
  return result;
}

/// Tasks that capture an array.
template <class P, std::size_t Bytes>
sample measure_captures(std::size_t workers, std::size_t items) {
  const auto pool = std::make_unique<P>(workers);
  struct task {
    std::array<unsigned char, Bytes> bytes;
    std::atomic<std::uint64_t>* sum;
    void operator()() const { sum->fetch_add(bytes[Bytes / 2], std::memory_order_relaxed); }
  };
  std::atomic<std::uint64_t> sum{0};
  const auto one = std::make_unique<task>();
  one->bytes.fill(1);
  one->sum = &sum;
  sample result;
  result.time = run_together(
      1, [&](std::size_t) { pool->fork_many(items / 4 + 1, *one); },
      [&](std::size_t) {
        sum = 0;
        pool->fork_many(items, *one);
      },
      placing::free);
  if (sum != items) result.defect = missing_tasks(sum, items);
  return result;
}

/// Latency of a task for an idle pool: from the call that posts it until its future has woken the caller.
template <class P>
sample measure_latency(std::size_t workers, std::size_t items, std::chrono::microseconds idle) {
  const auto pool = std::make_unique<P>(workers);
  std::vector<double> delays;
  std::uint64_t wrong = 0;
  const std::size_t warm_up = items / 10;
  for (std::uint64_t i = 0; i < items + warm_up; ++i) {
    std::this_thread::sleep_for(idle);
    const wall_clock::time_point start = wall_clock::now();
    if (pool->post(value_task{i}).get() != i) ++wrong;
    const wall_clock::time_point end = wall_clock::now();
    if (i >= warm_up) delays.push_back(nanoseconds(end - start).count() * 1e-3);
  }
  sample result;
  note_quantiles(result, delays);
  if (wrong != 0) result.defect = "a future held a wrong value";
  return result;
}

/// CPU time of a pool that has run tasks and is idle.
template <class P>
sample measure_idle_cpu(std::size_t workers, std::size_t milliseconds) {
  const auto pool = std::make_unique<P>(workers);
  const tally ran;
  for (int i = 0; i < 1000; ++i) pool->execute(empty_task{});
  ran.wait_for(1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const nanoseconds before = process_cpu_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  sample result;
  result.figures["value"] = (process_cpu_time() - before).count() * 1e-6 * 1000 / static_cast<double>(milliseconds);
  return result;
}

/// Resident memory of tasks that wait because every worker is busy.
template <class P>
sample measure_backlog(std::size_t workers, std::size_t items) {
  const auto pool = std::make_unique<P>(workers);
  if constexpr (requires { pool->workers(); }) workers = pool->workers();
  sample result;
  std::atomic<std::size_t> busy{0};
  std::atomic<bool> go{false};
  for (std::size_t i = 0; i < workers; ++i) {
    pool->execute([&] {
      busy.fetch_add(1, std::memory_order_acq_rel);
      go.wait(false, std::memory_order_acquire);
      tally::count();
    });
  }
  const tally ran;
  while (busy.load(std::memory_order_acquire) != workers) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::size_t before = resident_bytes();
  for (std::size_t i = 0; i < items; ++i) pool->execute(empty_task{});
  result.figures["value"] = static_cast<double>(resident_bytes() - before) / static_cast<double>(items);
  go.store(true, std::memory_order_release);
  go.notify_all();
  if (!ran.wait_for(items + workers)) result.defect = missing_tasks(ran.so_far(), items + workers);
  const std::size_t after = resident_bytes();
  result.figures["MB after they ran"] = after > before ? static_cast<double>(after - before) * 1e-6 : 0.0;
  return result;
}

/// Posts `waiting` tasks while the only worker is busy, then lets it run them. Measures both, without the time for
/// holding and releasing the worker.
template <class P>
sample measure_waiting(std::size_t waiting, std::size_t rounds) {
  const auto pool = std::make_unique<P>(1);
  sample result;
  nanoseconds total{};
  for (std::size_t r = 0; r < rounds + (rounds + 3) / 4; ++r) {
    if (r == (rounds + 3) / 4) total = {};  // the rounds before are the warm-up
    std::atomic<bool> held{false}, go{false}, done{false};
    wall_clock::time_point released, ended;
    std::size_t left = waiting;  // used by the worker only
    pool->execute([&] {
      held.store(true, std::memory_order_release);
      held.notify_one();
      go.wait(false, std::memory_order_acquire);
      released = wall_clock::now();
    });
    held.wait(false, std::memory_order_acquire);
    const auto task = [&left, &ended, &done] {
      if (--left != 0) return;
      ended = wall_clock::now();
      done.store(true, std::memory_order_release);
      done.notify_one();
    };
    const wall_clock::time_point begin = wall_clock::now();
    for (std::size_t i = 0; i < waiting; ++i) pool->execute(task);
    total += wall_clock::now() - begin;
    go.store(true, std::memory_order_release);
    go.notify_one();
    done.wait(false, std::memory_order_acquire);
    total += ended - released - 2 * clock_cost();
  }
  result.time = (std::max)(total, nanoseconds(0));
  return result;
}

template <class P>
sample measure_construction(std::size_t workers, std::size_t items) {
  sample result;
  result.time = run_together(
      1, [&](std::size_t) { P pool(workers); },
      [&](std::size_t) {
        for (std::size_t i = 0; i < items; ++i) P pool(workers);
      },
      placing::free);
  return result;
}

/// Calls of operator new per task once the pool is warm.
template <class P, class Round>
sample measure_allocations(std::size_t items, Round round) {
  const auto pool = std::make_unique<P>(2);
  for (int i = 0; i < 4; ++i) round(*pool, items);
  sample result;
  const counted_allocations counter;
  round(*pool, items);
  result.figures["value"] = static_cast<double>(counter.calls()) / static_cast<double>(items);
  return result;
}

/// Adds an adapter to those workloads that it can run.
template <class P>
void add_pool(plan& to, const std::string& name, int rank) {
  const auto add = [&](const std::string& workload, std::size_t items, auto run) {
    to.add("pool/" + workload, {name, rank, items, run});
  };
  // The number of tasks for a sample, at most `most`.
  const auto sized = [&](std::size_t most) {
    const double budget = to.quick() ? 5e7 : 3e8;
    return (std::min)(most, static_cast<std::size_t>(budget / P::nanoseconds_per_task));
  };
  if constexpr (can_post<P>) {
    const std::size_t batch = to.quick() && P::nanoseconds_per_task > 10'000 ? 4'200 : 21'000;
    const std::size_t items = (sized(100 * batch) + batch - 1) / batch * batch;
    for (const auto& [label, producers, workers] :
         {std::tuple("futures 1:2", 1, 2), std::tuple("futures 2:2", 2, 2), std::tuple("futures 4:4", 4, 4)}) {
      add(label, items, [batch, p = std::size_t(producers), w = std::size_t(workers)](std::size_t tasks) {
        return measure_futures<P>(p, w, batch, tasks);
      });
    }
  }
  if constexpr (can_execute<P>) {
    const std::size_t tasks = sized(1'000'000);
    add("flood 2", tasks, [](std::size_t items) { return measure_flood<P>(2, items); });
    add("flood 4", tasks, [](std::size_t items) { return measure_flood<P>(4, items); });
    std::size_t nodes = std::size_t{1} << 12;
    while (nodes * 2 <= sized(std::size_t{1} << 20)) nodes *= 2;
    add("tree", nodes - 1, [](std::size_t items) { return measure_tree<P>(2, items); });
    add("idle", to.size(2000, 500), [](std::size_t milliseconds) { return measure_idle_cpu<P>(8, milliseconds); });
    add("backlog", to.size(1'000'000, 200'000), [](std::size_t items) { return measure_backlog<P>(2, items); });
    add("allocations execute", 2'000, [](std::size_t items) {
      return measure_allocations<P>(items, [](P& pool, std::size_t count) {
        const tally ran;
        for (std::size_t i = 0; i < count; ++i) pool.execute(empty_task{});
        ran.wait_for(count);
      });
    });
  }
  if constexpr (can_execute<P> && P::nanoseconds_per_task < 5'000) {
    to.add_to_curve("scaling/pool", [&](std::size_t workers) {
      return entry{name, rank, to.size(100'000, 20'000),
                   [workers](std::size_t items) { return measure_flood<P, busy_task>(workers, items); }};
    });
    to.add_to_curve("growth/threads", [&](std::size_t workers) {
      return entry{name, rank, sized(200'000),
                   [workers](std::size_t items) { return measure_flood<P>(workers, items); }};
    });
  }
  if constexpr (can_execute<P> && P::has_threads && P::nanoseconds_per_task <= 500) {
    to.add_to_curve("growth/tasks", [&](std::size_t waiting) {
      const std::size_t rounds = rounds_of(waiting, to.size(500'000, 100'000), 2'000);
      return entry{name, rank, rounds * waiting, [=](std::size_t) { return measure_waiting<P>(waiting, rounds); }};
    });
  }
  if constexpr (can_fork_join<P>) add_fork_join<P>(to, name, rank);
  if constexpr (can_loop<P>) {
    add("loop 100", to.size(100'000, 10'000), [](std::size_t items) { return measure_loop<P>(2, 100, true, items); });
    add("loop 100 outside", to.size(100'000, 10'000),
        [](std::size_t items) { return measure_loop<P>(2, 100, false, items); });
    add("loop 10 k", to.size(10'000, 1'000), [](std::size_t items) { return measure_loop<P>(2, 10'000, true, items); });
    add("loop 10 k outside", to.size(10'000, 1'000),
        [](std::size_t items) { return measure_loop<P>(2, 10'000, false, items); });
  }
  if constexpr (can_fork_many<P>) {
    add("captures 1 KiB", to.size(20'000, 5'000),
        [](std::size_t items) { return measure_captures<P, 1024>(2, items); });
    add("captures 1 MiB", 100, [](std::size_t items) { return measure_captures<P, 1024 * 1024>(2, items); });
  }
  if constexpr (can_post<P>) {
    add("latency 50 us", to.size(2000, 1000),
        [](std::size_t items) { return measure_latency<P>(4, items, std::chrono::microseconds(50)); });
    add("latency 5 ms", to.size(200, 30),
        [](std::size_t items) { return measure_latency<P>(4, items, std::chrono::milliseconds(5)); });
    add("allocations post", 2'000, [](std::size_t items) {
      return measure_allocations<P>(items, [](P& pool, std::size_t count) {
        std::vector<decltype(pool.post(value_task{}))> futures;
        futures.reserve(count);
        for (std::size_t i = 0; i < count; ++i) futures.push_back(pool.post(value_task{i}));
        for (auto& future : futures) future.get();
      });
    });
  }
  if constexpr (P::has_threads) {
    add("construct", to.size(100, 30), [](std::size_t items) { return measure_construction<P>(4, items); });
  }
}

}  // namespace bench
