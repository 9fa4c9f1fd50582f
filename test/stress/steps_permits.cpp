// SPDX-License-Identifier: BSL-1.0
//
// Permits of one Semaphore: acquired by flows and coroutines of a pool, under time limits and cancels, and by threads;
// destroyed by other threads. Never are more out than there are, and none is lost.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "steps/interop/coroutine.hpp"
#include "steps/interop/sync.hpp"
#include "steps/steps.hpp"
#include "support/scale.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::Semaphore;
using steps::interop::acquire;
using steps::interop::co;
using steps::interop::task;

namespace {

constexpr std::size_t most = 3;

}  // namespace

TEST_CASE("permits go from flows, coroutines and threads to threads, beside timeouts, cancels and sync()") {
  const std::size_t rounds = testing::rounds(20000);
  Semaphore semaphore(most);
  std::atomic<std::size_t> out{0}, handed{0}, late{0};
  std::atomic<bool> is_exceeded{false};
  async::queue<Semaphore::Permit> given;
  const auto hand_on = [&](Semaphore::Permit permit) {
    if (++out > most) is_exceeded = true;
    ++handed;
    given.enqueue(std::move(permit));
  };
  std::vector<std::thread> releasing;
  for (int i = 0; i < 2; ++i) {
    releasing.emplace_back([&] {
      for (Semaphore::Permit next; given.blocking_dequeue(next); next.release()) --out;
    });
  }
  {
    async::threadpool pool(2);
    std::vector<async::future<void>> flows;
    for (int i = 0; i < 4; ++i) {
      flows.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
        asi.repeat(rounds, [&](IAsyncSteps& turn, std::size_t) {
          semaphore.acquire(turn);
          turn.add([&](IAsyncSteps&, Semaphore::Permit permit) { hand_on(std::move(permit)); });
        });
      }));
      flows.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
        asi.repeat(rounds, [&](IAsyncSteps& turn, std::size_t number) {
          turn.add(
              [&, number](IAsyncSteps& step) {
                step.setTimeout(std::chrono::microseconds(number % 50));
                semaphore.acquire(step);
                step.add([&](IAsyncSteps&, Semaphore::Permit permit) { hand_on(std::move(permit)); });
              },
              [&late](IAsyncSteps& step, ErrorCode code) {
                if (code == steps::errors::Timeout) ++late, step.success();
              });
        });
      }));
      flows.push_back(steps::post(pool, co([&](IAsyncSteps&) -> task<> {
                                    for (std::size_t left = rounds; left != 0; --left)
                                      hand_on(co_await acquire(semaphore));
                                  })));
      flows.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
        asi.repeat(rounds, [&](IAsyncSteps& turn, std::size_t) {
          turn.sync(semaphore, [&](IAsyncSteps& inside) {
            if (++out > most) is_exceeded = true;
            inside.relinquish();
            inside.add([&out](IAsyncSteps&) { --out; });
          });
        });
      }));
    }
    for (std::size_t left = rounds; left != 0; --left) {
      if (Semaphore::Permit one = semaphore.try_acquire()) hand_on(std::move(one));
      steps::AsyncSteps cancelled(pool);
      semaphore.acquire(cancelled);
      cancelled.add([&](IAsyncSteps&, Semaphore::Permit permit) { hand_on(std::move(permit)); });
      cancelled.execute();
    }
    for (async::future<void>& each : flows) each.get();
  }
  given.close();
  for (std::thread& each : releasing) each.join();
  CHECK(!is_exceeded);
  CHECK(out == 0);
  std::vector<Semaphore::Permit> all;
  while (Semaphore::Permit one = semaphore.try_acquire()) all.push_back(std::move(one));
  CHECK(all.size() == most);
  CHECK(handed + late >= 12 * rounds);
  std::printf("count: %zu permits handed on, %zu waits too late\n", handed.load(), late.load());
}
