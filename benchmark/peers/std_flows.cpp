// SPDX-License-Identifier: BSL-1.0
//
// std::async, a thread for each call; and two threads that wait for each other on a mutex and condition variables.
#include <condition_variable>  // for condition_variable
#include <future>              // for async
#include <mutex>               // for mutex
#include <thread>              // for thread
#include <vector>              // for vector

#include "../support/flows_workloads.hpp"  // for add_futures, add_fan_out

namespace {

struct std_async {
  static constexpr double nanoseconds_per_task = 46'000;
  explicit std_async(std::size_t) {}
  template <class F>
  auto post(F f) {
    return std::async(std::launch::async, std::move(f));
  }
  template <class F>
  void execute(F f) {
    last = post(std::move(f));
  }
  std::future<void> last;
};

bench::sample fan_out(std::size_t branches, std::size_t groups) {
  return bench::measure_fan_out(branches, groups, [&](std::size_t count) {
    const auto begin = bench::wall_clock::now();
    std::vector<std::future<void>> all(branches);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::future<void>& each : all) each = std::async(std::launch::async, bench::empty_task{});
      for (std::future<void>& each : all) each.get();
    }
    return bench::nanoseconds(bench::wall_clock::now() - begin);
  });
}

bench::sample round_trips(std::size_t trips) {
  std::mutex mutex;
  std::condition_variable changed[2];
  std::size_t hops = 0;
  bench::sample result = bench::measure_round_trips(1, trips, [&](std::size_t each) {
    hops = 0;
    const auto side = [&](std::size_t mine) {
      for (std::size_t i = 0; i < each; ++i) {
        std::unique_lock lock(mutex);
        changed[mine].wait(lock, [&] { return hops % 2 == mine; });
        ++hops;
        lock.unlock();
        changed[1 - mine].notify_one();
      }
    };
    const auto begin = bench::wall_clock::now();
    std::thread left(side, 0), right(side, 1);
    left.join();
    right.join();
    return bench::nanoseconds(bench::wall_clock::now() - begin);
  });
  if (hops != 2 * trips) result.defect = "a turn was lost";
  return result;
}

const bench::enroll contestants([](bench::plan& plan) {
  bench::add_futures<std_async>(plan, "std::async", 5);
  bench::add_fan_out(plan, "std::async", 5, 12'000, fan_out, 8);
  plan.add("flows/round trip", {"mutex + condition_variable", 90, plan.size(20'000, 5'000), round_trips});
});

}  // namespace
