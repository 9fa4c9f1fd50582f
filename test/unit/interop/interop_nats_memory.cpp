// SPDX-License-Identifier: BSL-1.0
// A bus whose threads, the client's among them, do not always get memory, or whose client gets no threads.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "async/threadpool.hpp"
#include "steps/interop/detail/nats/call_table.hpp"
#include "steps/interop/nats_jobs.hpp"
#include "steps/steps.hpp"
#include "support/alloc_counter.hpp"
#include "support/nats_server.hpp"
#include "support/thread_failure.hpp"

using steps::IAsyncSteps;
using namespace std::chrono_literals;
namespace nats = steps::interop::nats;

namespace {

/// The calling thread gets memory in any case.
void exempt() { testing::alloc::spares_thread = true; }

async::threadpool_options exempt_threads() {
  async::threadpool_options o;
  o.threads = 2;
  o.on_thread_start = [](std::size_t) { exempt(); };
  return o;
}

struct bench {
  testing::nats_server server;
  async::threadpool pool{exempt_threads()};
  nats::bus bus{{.url = server.url()}};

  /// Some calls at the same time, without a time limit, which nobody answers. Passes their errors on.
  std::vector<std::string> errors() {
    std::vector<async::future<void>> calls;
    std::vector<std::string> found;
    for (int i = 0; i < 20; ++i) {
      calls.push_back(steps::post(
          pool, [this](IAsyncSteps& asi) { bus.call(asi, "nobody", "a text that needs memory of its own"); }));
    }
    for (auto& each : calls) {
      REQUIRE(each.wait_for(30s) == std::future_status::ready);
      try {
        each.get();
      } catch (const std::exception& error) {
        found.push_back(error.what());
      }
    }
    return found;
  }
};

}  // namespace

TEST_CASE("each call ends, whichever memory a bus's threads lack") {
  exempt();
  bench b;
  REQUIRE(b.bus.connected().wait_for(30s));
  for (std::size_t k = 0; k < 100; ++k) {
    {
      testing::fail_alloc failing(k, testing::fail_alloc::scope::all_threads);
      CHECK(b.errors().size() == 20);
    }
    REQUIRE(b.bus.connected().wait_for(30s));
  }
  while (b.errors() != std::vector<std::string>(20, "NoResponders")) {
  }
}

TEST_CASE("a call without memory for its place leaves places for others") {
  nats::detail::call_table calls;
  std::vector<std::uint64_t> numbers;
  numbers.reserve(200);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    try {
      testing::fail_alloc failing(0);
      numbers.push_back(calls.begin({}).number);
    } catch (const std::bad_alloc&) {
      ++refused;
      numbers.push_back(calls.begin({}).number);
    }
    REQUIRE(calls.mark_sent(numbers.back()));
  }
  CHECK(refused > 1);
  CHECK(calls.in_flight() == 200);
  for (const std::uint64_t each : numbers) CHECK(!calls.take(each));
  CHECK(calls.in_flight() == 0);
}

TEST_CASE("without memory a bus goes on to connect") {
  exempt();
  bench b;
  for (std::size_t k = 0; k < 24; ++k) {
    b.server.kill();
    {
      testing::fail_alloc failing(k, testing::fail_alloc::scope::all_threads);
      b.server.restart();
      CHECK(b.errors().size() == 20);
    }
    REQUIRE(b.bus.connected().wait_for(30s));
  }
}

TEST_CASE("a worker that has lacked memory goes on") {
  exempt();
  bench b;
  nats::jobs jobs(b.bus, {.stream = "WORK", .subject = "work"});
  steps::post(b.pool, [&](IAsyncSteps& asi) { jobs.open(asi); }).get();
  std::atomic<int> ran{0};
  for (std::size_t k = 0; k < 24; ++k) {
    const int before = ran;
    testing::fail_alloc failing(k, testing::fail_alloc::scope::all_threads);
    auto worker = jobs.work(b.pool, {.ack_wait = 300ms}, [&](IAsyncSteps&, const nats::job&) { ++ran; });
    for (bool is_stored = false; !is_stored;) {
      try {
        steps::post(b.pool, [&](IAsyncSteps& asi) { jobs.publish(asi, "x"); }).get();
        is_stored = true;
      } catch (const std::bad_alloc&) {
      }
    }
    while (ran == before) std::this_thread::yield();
  }
}

TEST_CASE("a service begins and ends though the client gets no thread for a while") {
  exempt();
  bench b;
  REQUIRE(b.bus.connected().wait_for(30s));
  std::optional<nats::service> service;
  {
    testing::fail_thread failing(0);
    service.emplace(b.bus.serve("echo", "", b.pool, [](std::string request) { return request; }));
    for (int i = 0; i < 1'000 && b.bus.connected().is_set(); ++i) std::this_thread::sleep_for(1ms);
  }
  std::string answer;
  for (int i = 0; i < 1'000 && answer != "x"; ++i) {
    std::this_thread::sleep_for(10ms);
    try {
      answer = steps::post<std::string>(b.pool, [&](IAsyncSteps& asi) {
                 asi.setTimeout(100ms);
                 b.bus.call(asi, "echo", "x");
               }).get();
    } catch (const steps::Error&) {
    }
  }
  CHECK(answer == "x");
  {
    testing::fail_thread failing(0);
    service->stop();
    for (int i = 0; i < 1'000 && b.bus.connected().is_set(); ++i) std::this_thread::sleep_for(1ms);
  }
  REQUIRE(service->stopped().wait_for(10s));
}

TEST_CASE("a handler that lacks memory for its error costs an answer") {
  exempt();
  bench b;
  async::threadpool own(1);
  const auto fails = [](const std::string&) {
    testing::alloc::none_for_thread = true;
    throw steps::Error("TheMachineHasNoMemory", "a text that needs memory of its own");
  };
  auto service = b.bus.serve("fails", "", own, fails);
  REQUIRE(b.bus.connected().wait_for(30s));
  auto answer = steps::post<std::string>(b.pool, [&](IAsyncSteps& asi) {
    asi.setTimeout(500ms);
    b.bus.call(asi, "fails", "x");
  });
  CHECK_THROWS_WITH(answer.get(), "Timeout");
  own.execute([] { testing::alloc::none_for_thread = false; });
}
