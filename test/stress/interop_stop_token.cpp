// SPDX-License-Identifier: BSL-1.0
#include "steps/interop/stop_token.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "async/threadpool.hpp"
#include "steps/asyncsteps.hpp"
#include "steps/asynctool.hpp"
#include "support/busy_pool.hpp"
#include "support/scale.hpp"

#if defined(__cpp_lib_jthread)

using steps::IAsyncSteps;
using steps::interop::cancel_on_stop;
using steps::interop::stop_token_of;

namespace {

/// Lets a stop request race with the end of each of many flows on `where`.
template <class Where>
void race_with_ends(Where& where) {
  std::size_t values = 0;
  std::size_t cancelled = 0;
  const std::size_t rounds = testing::rounds(20'000);
  std::atomic<std::stop_source*> next{nullptr};
  std::atomic<bool> over{false};
  std::thread stopper([&] {
    while (!over.load(std::memory_order_acquire)) {
      if (std::stop_source* const source = next.exchange(nullptr, std::memory_order_acq_rel)) {
        source->request_stop();
        delete source;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (std::size_t i = 0; i < rounds; ++i) {
    auto* const source = new std::stop_source;
    const std::stop_token token = source->get_token();
    std::stop_token inner;
    steps::AsyncSteps flow{where};
    flow.add([&inner](IAsyncSteps& asi) { inner = stop_token_of(asi); });
    flow.repeat(i % 64, [](IAsyncSteps& asi, std::size_t) { asi.add([](IAsyncSteps&) {}); });
    const bool only_stopped = i % 24 == 5, never_stopped = i % 24 == 7;  // the others: whoever is first
    flow.add([only_stopped](IAsyncSteps& asi) { only_stopped ? asi.waitExternal() : asi.success(7); });
    std::future<int> end = flow.promise<int>();
    std::optional<cancel_on_stop> link;
    link.emplace(flow, token);
    if (never_stopped) link.reset();
    next.store(source, std::memory_order_release);
    if (i % 3 == 0) link.reset();  // the link's end races, too
    try {
      const int value = end.get();
      CHECK(value == 7);
      ++values;
    } catch (const std::future_error& error) {
      CHECK(error.code() == std::future_errc::broken_promise);
      ++cancelled;
    }
    while (next.load(std::memory_order_acquire) == source) std::this_thread::yield();
  }
  over.store(true, std::memory_order_release);
  stopper.join();
  CHECK(values + cancelled == rounds);
  CHECK(values >= rounds / 24);
  CHECK(cancelled >= rounds / 24);
}

}  // namespace

TEST_CASE("a stop request that races with the flow's end leaves a value or a broken promise, and nothing behind") {
  steps::AsyncTool tool;
  race_with_ends(tool);
}

TEST_CASE("so it does when the flow moves between the workers of a pool, which block and are resized") {
  async::threadpool pool(2);
  const testing::busy_pool others(pool);
  race_with_ends(pool);
}

TEST_CASE("a worker that watches a step's token ends when the step times out") {
  steps::AsyncTool tool;
  const std::size_t rounds = testing::rounds(200);
  std::atomic<std::size_t> seen{0};
  for (std::size_t i = 0; i < rounds; ++i) {
    std::thread worker;
    steps::AsyncSteps flow{tool};
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(std::chrono::microseconds(i));
          worker = std::thread([&seen, token = stop_token_of(asi), done = asi.completion<>()] {
            while (!token.stop_requested()) std::this_thread::yield();
            seen.fetch_add(1, std::memory_order_relaxed);
            CHECK_FALSE(done.success());
          });
        },
        [](IAsyncSteps& asi, steps::ErrorCode code) {
          if (code == steps::errors::Timeout) asi.success();
        });
    flow.promise().get();
    worker.join();
  }
  CHECK(seen.load() == rounds);
}

#else

TEST_CASE("this standard library has no stop_token: the header is empty") { CHECK(true); }

#endif
