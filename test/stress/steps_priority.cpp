// SPDX-License-Identifier: BSL-1.0
//
// Flows of all priorities that give way, wait, wake each other and run branches, under resizes and stops: each ends
// once.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <future>
#include <random>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

using async::priority;
using async::threadpool;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

struct counted : testing::live_count<counted> {};

priority level(unsigned way) { return static_cast<priority>(way % 3); }

/// What flows share.
struct place {
  explicit place(std::size_t threads) : pool(threads) {}
  async::queue<int> queue;
  std::atomic<std::uint64_t> ended{0};
  threadpool pool;
};

/// Steps of a flow; each way is another kind of wait.
void live(IAsyncSteps& asi, place& in, unsigned way) {
  asi.repeat(1 + way % 4, [&in, way](IAsyncSteps& turn, std::size_t i) {
    switch ((way + i) % 6) {
      case 0:
        turn.relinquish();
        return;
      case 1:
        turn.tool().deferred(10us, [t = turn.completion<>()] { t.success(); });
        return;
      case 2:
        in.pool.execute(level(way + 1), [t = turn.completion<>()] { t.success(); });
        return;
      case 3:
        in.queue.enqueue(1);
        turn.await(in.queue);
        turn.add([](IAsyncSteps&, int) {});
        return;
      case 4:
        turn.await(in.pool, [] { return 1; });
        turn.add([](IAsyncSteps&, int) {});
        return;
      default: {
        auto& branches = turn.parallel();
        for (int b = 0; b < 3; ++b) {
          branches.add([c = counted()](IAsyncSteps& branch) { branch.relinquish(); });
        }
      }
    }
  });
}

/// Posts flows from two threads and from flows while a third one resizes the pool, then calls end(place, futures).
template <class End>
void run(unsigned round, End end) {
  place in(1 + round % 3);
  std::atomic<bool> is_over{false};
  std::vector<std::vector<async::future<void>>> futures(2);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      try {
        for (unsigned way = i; way < 600; way += 2) {
          futures[i].push_back(steps::post(in.pool, level(way), [&in, way, c = counted()](IAsyncSteps& asi) {
            asi.onEnd([&in] { ++in.ended; });
            live(asi, in, way / 3);
          }));
        }
      } catch (const async::stopped&) {
      }
    });
  }
  std::thread resizer([&, wanted = round]() mutable {
    try {
      while (!is_over) {
        in.pool.configurepool(wanted++ % 4);
        std::this_thread::yield();
      }
      in.pool.configurepool(2);
    } catch (const async::stopped&) {
    }
  });
  end(in, threads, futures);
  is_over = true;
  resizer.join();
}

void join(std::vector<std::thread>& threads) {
  for (std::thread& each : threads) each.join();
}

}  // namespace

TEST_CASE("each flow of any priority ends once while the pool is resized") {
  std::uint64_t flows = 0;
  const std::size_t count = testing::rounds(60);
  for (std::size_t round = 0; round < count; ++round) {
    run(static_cast<unsigned>(round), [&](place& in, auto& threads, auto& futures) {
      join(threads);
      for (auto& half : futures) {
        for (auto& each : half) each.get();
      }
      REQUIRE(in.ended == 600);
      flows += 600;
    });
    REQUIRE(counted::live() == 0);
  }
  std::printf("count: %llu flows\n", static_cast<unsigned long long>(flows));
}

TEST_CASE("stop() and stop(discard) at any moment end each flow of any priority") {
  std::uint64_t flows = 0;
  std::mt19937 random(static_cast<std::mt19937::result_type>(testing::seed()));
  const std::size_t count = testing::rounds(200);
  for (std::size_t round = 0; round < count; ++round) {
    run(static_cast<unsigned>(round), [&](place& in, auto& threads, auto& futures) {
      for (auto spins = random() % 50; spins != 0; --spins) std::this_thread::yield();
      if (round % 2 == 0) {
        in.pool.stop();
      } else {
        in.pool.stop(async::discard);
      }
      join(threads);
      for (auto& half : futures) {
        for (auto& each : half) {
          try {
            each.get();
          } catch (const std::future_error&) {  // cancelled, or not started
          } catch (const async::stopped&) {     // a call that it has waited for was dropped
          }
          ++flows;
        }
      }
    });
    REQUIRE(counted::live() == 0);
  }
  std::printf("count: %llu flows\n", static_cast<unsigned long long>(flows));
}
