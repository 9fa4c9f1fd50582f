// SPDX-License-Identifier: BSL-1.0
//
// This project's flows, on its pool and on one loop; and the tasks of its pool.
#include <async/event_loop.hpp>  // for event_loop
#include <async/queue.hpp>       // for queue
#include <async/task_group.hpp>  // for task_group
#include <async/threadpool.hpp>  // for threadpool
#include <steps/steps.hpp>       // for AsyncSteps, post, completion, Mutex

#include <algorithm>  // for min
#include <atomic>     // for atomic
#include <memory>     // for make_unique, unique_ptr
#include <optional>   // for optional
#include <string>     // for string
#include <utility>    // for exchange, move
#include <vector>     // for vector

#include "../support/flows_workloads.hpp"  // for add_futures, add_fan_out, add_scaling

namespace {

using steps::IAsyncSteps;

struct tasks {
  static constexpr double nanoseconds_per_task = 200;
  explicit tasks(std::size_t workers) : pool(workers) {}
  template <class F>
  auto post(F f) {
    return pool.post(std::move(f));
  }
  template <class F>
  void execute(F f) {
    pool.execute(std::move(f));
  }
  async::threadpool pool;
};

struct flows : tasks {
  using tasks::tasks;
  template <class F>
  auto post(F f) {
    return steps::post<decltype(f())>(pool, [f](IAsyncSteps& asi) { asi.success(f()); });
  }
};

void drain(async::event_loop& loop) {
  while (loop.iterate().have_work) {
  }
}

/// The three steps of a flow.
struct three_steps {
  void operator()(IAsyncSteps& asi) const {
    asi.add([](IAsyncSteps&) { bench::tally::count(); });
    asi.add([](IAsyncSteps&) { bench::tally::count(); });
    bench::tally::count();
  }
};

bench::sample short_on_pool(std::size_t count) {
  async::threadpool pool(2);
  return bench::measure_flows(count, 3, [&pool] { static_cast<void>(steps::post(pool, three_steps{})); });
}

/// The same flows on one loop and thread, a thousand alive at a time.
bench::sample short_on_loop(std::size_t count) {
  async::event_loop loop;
  std::vector<std::optional<steps::AsyncSteps>> batch(1'000);
  bench::sample result;
  const bench::tally ran;
  const auto begin = bench::wall_clock::now();
  for (std::size_t left = count; left != 0;) {
    const std::size_t size = (std::min)(left, batch.size());
    for (std::size_t i = 0; i < size; ++i) {
      steps::AsyncSteps& flow = batch[i].emplace(loop);
      flow.add(three_steps{});
      flow.execute();
    }
    drain(loop);
    left -= size;
  }
  result.time = bench::wall_clock::now() - begin;
  result.defect = bench::missing_tasks(ran.so_far(), count * 3);
  return result;
}

/// Adds steps that fork and join `branches` branches `groups` times and measure the duration.
void fan_out(IAsyncSteps& asi, std::size_t branches, std::size_t groups, bench::nanoseconds& took) {
  asi.repeat(groups, [branches](IAsyncSteps& turn, std::size_t) {
    IAsyncSteps& all = turn.parallel();
    for (std::size_t i = 0; i < branches; ++i) all.add([](IAsyncSteps&) { bench::tally::count(); });
  });
  asi.add([&took, begin = bench::wall_clock::now()](IAsyncSteps&) { took = bench::wall_clock::now() - begin; });
}

bench::sample fan_out_on_pool(std::size_t branches, std::size_t groups) {
  async::threadpool pool(2);
  return bench::measure_fan_out(branches, groups, [&](std::size_t count) {
    bench::nanoseconds took{};
    steps::post(pool, [&](IAsyncSteps& asi) { fan_out(asi, branches, count, took); }).get();
    return took;
  });
}

bench::sample fan_out_on_loop(std::size_t branches, std::size_t groups) {
  async::event_loop loop;
  return bench::measure_fan_out(branches, groups, [&](std::size_t count) {
    bench::nanoseconds took{};
    steps::AsyncSteps flow{loop};
    flow.add([&](IAsyncSteps& asi) { fan_out(asi, branches, count, took); });
    flow.execute();
    drain(loop);
    return took;
  });
}

bench::sample fan_out_of_tasks(std::size_t branches, std::size_t groups) {
  tasks pool(2);
  return bench::measure_fan_out(branches, groups, [&](std::size_t count) {
    bench::nanoseconds took{};
    bench::run_inside(pool, [&] {
      const auto begin = bench::wall_clock::now();
      for (std::size_t i = 0; i < count; ++i) {
        async::task_group group(pool.pool);
        for (std::size_t b = 0; b < branches; ++b) group.run(bench::empty_task{});
        group.wait();
      }
      took = bench::wall_clock::now() - begin;
    });
    return took;
  });
}

/// Two flows that wait for each other in turn. Each leaves its token for the other flow, which takes it after its own
/// wait has ended, so that only one thread touches a token at a time.
struct ping_pong {
  /// The place of each of the two flows: a loop or a pool.
  template <class Place>
  ping_pong(Place& a, Place& b) : left(a), right(b) {}

  void start(std::size_t trips) {
    left.repeat(trips, [this](IAsyncSteps& asi, std::size_t i) {
      left_waits = asi.completion();
      if (i == 0) {
        right_end = right.promise();
      } else {
        end(right_waits);
      }
    });
    left.add([this](IAsyncSteps&) { end(right_waits); });
    right.repeat(trips, [this](IAsyncSteps& asi, std::size_t) {
      right_waits = asi.completion();
      end(left_waits);
    });
    left_end = left.promise();
  }
  void finish() {
    left_end.get();
    right_end.get();
  }
  void end(steps::completion<>& wait) {
    const steps::completion<> token = std::exchange(wait, {});
    if (token.success()) ends.fetch_add(1, std::memory_order_relaxed);
  }

  steps::AsyncSteps left, right;
  steps::completion<> left_waits, right_waits;
  async::future<void> left_end, right_end;
  std::atomic<std::size_t> ends{0};
};

/// Round trips of pairs that make_pair(pool) makes.
template <class MakePair>
bench::sample round_trips(std::size_t pairs, std::size_t trips, MakePair make_pair) {
  async::threadpool pool(2);
  std::string defect;
  bench::sample result = bench::measure_round_trips(pairs, trips, [&](std::size_t each) {
    std::vector<std::unique_ptr<ping_pong>> all;
    for (std::size_t i = 0; i < pairs; ++i) all.push_back(make_pair(pool));
    const auto begin = bench::wall_clock::now();
    for (const auto& pair : all) pair->start(each);
    for (const auto& pair : all) pair->finish();
    const bench::nanoseconds took = bench::wall_clock::now() - begin;
    for (const auto& pair : all) {
      if (pair->ends != 2 * each) defect = "a wait was not ended by its token";
    }
    return took;
  });
  result.defect = defect;
  return result;
}

bench::sample round_trips_of_loops(std::size_t pairs, std::size_t trips) {
  return round_trips(pairs, trips,
                     [](async::threadpool& pool) { return std::make_unique<ping_pong>(pool.loop(0), pool.loop(1)); });
}

/// The flows may run on any worker.
bench::sample round_trips_of_pool(std::size_t pairs, std::size_t trips) {
  return round_trips(pairs, trips, [](async::threadpool& pool) { return std::make_unique<ping_pong>(pool, pool); });
}

/// CPU cost of a hop: one thread runs two loops, whose flows end each other's waits in turn.
bench::sample hops(std::size_t trips) {
  async::event_loop left, right;
  bench::sample result = bench::measure_round_trips(1, trips, [&](std::size_t each) {
    ping_pong pair(left, right);
    const auto begin = bench::wall_clock::now();
    pair.start(each);
    while (pair.ends != 2 * each) {
      static_cast<void>(left.iterate());
      static_cast<void>(right.iterate());
    }
    const bench::nanoseconds took = bench::wall_clock::now() - begin;
    drain(left);
    drain(right);
    pair.finish();
    return took / 2;
  });
  result.figures.clear();
  return result;
}

/// The same without flows: callbacks that post each other.
bench::sample hops_of_posts(std::size_t hops) {
  async::event_loop left, right;
  std::size_t hops_left = hops + hops / 4 + 1;
  auto begin = bench::wall_clock::now();
  const auto hop = [&](const auto& self) -> void {
    if (--hops_left == hops) begin = bench::wall_clock::now();
    if (hops_left != 0) (hops_left % 2 == 0 ? left : right).post([&self] { self(self); });
  };
  left.post([&hop] { hop(hop); });
  while (hops_left != 0) {
    static_cast<void>(left.iterate());
    static_cast<void>(right.iterate());
  }
  bench::sample result;
  result.time = bench::wall_clock::now() - begin;
  return result;
}

/// Two flows that pass a mutex to and fro. The holder gives way before it leaves, so that the other flow waits by then.
struct passing {
  passing(async::event_loop& a, async::event_loop& b, std::size_t sections) : left(a), right(b) {
    for (steps::AsyncSteps* flow : {&left, &right}) {
      flow->repeat(sections, [this](IAsyncSteps& asi, std::size_t) {
        asi.sync(mutex, [this](IAsyncSteps& inside) {
          inside.relinquish();
          ++done;  // guarded by the mutex
        });
      });
    }
  }
  steps::Mutex mutex;
  steps::AsyncSteps left, right;
  std::size_t done = 0;
};

bench::sample hand_overs(std::size_t sections) {
  async::threadpool pool(2);
  passing pair(pool.loop(0), pool.loop(1), sections / 2);
  const auto begin = bench::wall_clock::now();
  async::future<void> left = pair.left.promise(), right = pair.right.promise();
  left.get();
  right.get();
  bench::sample result;
  result.time = bench::wall_clock::now() - begin;
  if (pair.done != sections) result.defect = "a section was lost";
  return result;
}

bench::sample hops_of_a_mutex(std::size_t sections) {
  async::event_loop left, right;
  passing pair(left, right, sections / 2);
  const auto begin = bench::wall_clock::now();
  pair.left.execute();
  pair.right.execute();
  while (pair.done != sections) {
    static_cast<void>(left.iterate());
    static_cast<void>(right.iterate());
  }
  bench::sample result;
  result.time = bench::wall_clock::now() - begin;
  drain(left);
  drain(right);
  return result;
}

/// Two flows that send each other messages by two queues. The second one ends when the first closes its queue.
struct correspondence {
  template <class Place>
  correspondence(Place& a, Place& b, std::size_t trips) : left(a), right(b) {
    left.repeat(trips, [this](IAsyncSteps& asi, std::size_t) { asi.enqueue(there, 1).await(back); });
    left.add([this](IAsyncSteps&) { there.close(); });
    right.add(
        [this](IAsyncSteps& asi) {
          asi.loop([this](IAsyncSteps& turn) {
            turn.await(there).enqueue(back, 2);
            ++turns;
          });
        },
        [](IAsyncSteps& asi, steps::ErrorCode) { asi.success(); });
  }
  async::queue<int> there, back;
  std::size_t turns = 0;  // one more than messages
  steps::AsyncSteps left, right;
};

bench::sample messages_on_loop(std::size_t messages) {
  async::event_loop loop;
  correspondence pair(loop, loop, messages / 2);
  const auto begin = bench::wall_clock::now();
  pair.left.execute();
  pair.right.execute();
  drain(loop);
  bench::sample result;
  result.time = bench::wall_clock::now() - begin;
  if (pair.turns != messages / 2 + 1) result.defect = "a message was lost";
  return result;
}

/// Trips between two places that place(pool, i) names.
template <class Place>
bench::sample trips_by_queues(std::size_t trips, Place place) {
  async::threadpool pool(2);
  std::string defect;
  bench::sample result = bench::measure_round_trips(1, trips, [&](std::size_t each) {
    correspondence pair(place(pool, 0), place(pool, 1), each);
    const auto begin = bench::wall_clock::now();
    std::future<void> right = pair.right.promise(), left = pair.left.promise();
    left.get();
    right.get();
    const bench::nanoseconds took = bench::wall_clock::now() - begin;
    if (pair.turns != each + 1) defect = "a message was lost";
    return took;
  });
  result.defect = defect;
  return result;
}

bench::sample trips_of_loops(std::size_t trips) {
  return trips_by_queues(trips, [](async::threadpool& pool, std::size_t i) -> auto& { return pool.loop(i); });
}
bench::sample trips_of_pool(std::size_t trips) {
  return trips_by_queues(trips, [](async::threadpool& pool, std::size_t) -> auto& { return pool; });
}

bench::sample busy(std::size_t workers, std::size_t count) {
  async::threadpool pool(workers);
  const auto step = [](IAsyncSteps&) {
    bench::work_for_a_microsecond();
    bench::tally::count();
  };
  return bench::measure_flows(count, 3, [&] {
    static_cast<void>(steps::post(pool, [step](IAsyncSteps& asi) {
      asi.add(step).add(step);
      step(asi);
    }));
  });
}

const bench::enroll contestants([](bench::plan& plan) {
  bench::add_futures<flows>(plan, "steps::post", 0);
  bench::add_futures<tasks>(plan, "async::threadpool", 1);
  const std::size_t short_flows = plan.size(1'000'000, 200'000);
  plan.add("flows/short", {"steps::post", 0, short_flows, short_on_pool});
  plan.add("flows/short", {"steps::AsyncSteps on one loop", 2, short_flows, short_on_loop});
  bench::add_fan_out(plan, "steps::parallel", 0, 100, fan_out_on_pool);
  bench::add_fan_out(plan, "async::task_group", 1, 60, fan_out_of_tasks);
  bench::add_fan_out(plan, "steps::AsyncSteps on one loop", 2, 40, fan_out_on_loop);
  for (const std::size_t pairs : {std::size_t{1}, std::size_t{64}}) {
    const std::string each = pairs == 1 ? "" : " x64";
    const std::size_t trips = pairs == 1 ? plan.size(200'000, 50'000) : plan.size(640'000, 128'000);
    plan.add("flows/round trip" + each, {"steps::completion", 0, trips,
                                         [pairs](std::size_t count) { return round_trips_of_loops(pairs, count); }});
    plan.add("flows/round trip pool" + each,
             {"steps::completion", 0, trips, [pairs](std::size_t count) { return round_trips_of_pool(pairs, count); }});
  }
  plan.add("flows/hand-over", {"steps::Mutex", 0, plan.size(200'000, 50'000), hand_overs});
  plan.add("flows/hop", {"steps::completion", 0, plan.size(1'000'000, 200'000), hops});
  plan.add("flows/hop", {"async::event_loop", 1, plan.size(1'000'000, 200'000), hops_of_posts});
  plan.add("flows/hop mutex", {"steps::Mutex", 0, plan.size(1'000'000, 200'000), hops_of_a_mutex});
  plan.add("flows/queues one loop", {"async::queue", 0, plan.size(1'000'000, 200'000), messages_on_loop});
  plan.add("flows/queues two loops", {"async::queue", 0, plan.size(200'000, 50'000), trips_of_loops});
  plan.add("flows/queues pool", {"async::queue", 0, plan.size(200'000, 50'000), trips_of_pool});
  bench::add_scaling(plan, "steps::post", 0, busy);
});

}  // namespace
