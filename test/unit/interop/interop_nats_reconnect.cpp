// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/event.hpp"
#include "async/threadpool.hpp"
#include "steps/asynctool.hpp"
#include "steps/interop/nats.hpp"
#include "steps/steps.hpp"
#include "support/nats_server.hpp"
#include "support/process_cpu_time.hpp"
#include "support/scale.hpp"

using steps::IAsyncSteps;
using namespace std::chrono_literals;
namespace nats = steps::interop::nats;

namespace {

nats::options to(const testing::nats_server& server) { return {.url = server.url()}; }

async::future<std::string> call(async::threadpool& pool, nats::bus& bus, const std::string& request) {
  return steps::post<std::string>(pool, [&bus, request](IAsyncSteps& asi) {
    asi.setTimeout(30s);
    bus.call(asi, "serve", request);
  });
}

template <class T>
std::string code_of(async::future<T> f) {
  try {
    f.get();
    return "";
  } catch (const steps::Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a bus connects when a server comes, and says why there is no connection") {
  auto server = std::make_unique<testing::nats_server>();
  server->kill();
  async::threadpool pool(1);
  nats::bus bus(to(*server));
  CHECK(code_of(call(pool, bus, "")) == "ConnectError");
  while (bus.failure() == "not connected yet") std::this_thread::yield();
  CHECK(bus.failure() != "");
  CHECK_FALSE(bus.connected().is_set());
  server->restart();
  REQUIRE(bus.connected().wait_for(30s));
  CHECK(bus.failure() == "");
  CHECK(code_of(call(pool, bus, "")) == "NoResponders");
}

TEST_CASE("configure() is called on a thread of the blocking pool before each attempt, and may throw") {
  testing::nats_server server;
  async::threadpool pool(1);
  std::atomic<int> attempts{0};
  std::atomic<bool> is_elsewhere{true};
  const auto here = std::this_thread::get_id();
  nats::options how = to(server);
  how.configure = [&](natsOptions*) {
    is_elsewhere = is_elsewhere && std::this_thread::get_id() != here && async::event_loop::current() == nullptr;
    const int now = ++attempts;
    if (now == 1) throw std::runtime_error("no credentials");
    if (now == 3) throw 7;
  };
  nats::bus bus(std::move(how));
  while (bus.failure() == "not connected yet") std::this_thread::yield();
  REQUIRE(bus.connected().wait_for(30s));
  CHECK(attempts == 2);
  server.kill();
  server.restart();
  while (attempts < 4) std::this_thread::yield();
  REQUIRE(bus.connected().wait_for(30s));
  CHECK(code_of(call(pool, bus, "")) == "NoResponders");
  CHECK(is_elsewhere);
}

TEST_CASE("when the server dies, sent calls fail with CommError and later ones with ConnectError; services go on") {
  testing::nats_server server;
  async::threadpool pool(2);
  nats::bus caller(to(server)), serving(to(server));
  for (nats::bus* each : {&caller, &serving}) REQUIRE(each->connected().wait_for(30s));
  async::event never, taken;
  auto service = serving.serve("serve", "g", pool, [&](IAsyncSteps& asi, std::string request) {
    if (request == "wait") {
      taken.set();
      asi.await(never);
    }
    asi.successStep(request);
  });
  for (int round = 0; round < 3; ++round) {
    while (code_of(call(pool, caller, "")) != "") {  // "NoResponders" until the service has connected, too
    }
    for (int i = 0; i < 100; ++i) CHECK(code_of(call(pool, caller, "")) == "");
    taken.reset();
    auto sent = call(pool, caller, "wait");
    taken.wait();
    server.kill();
    CHECK(code_of(std::move(sent)) == "CommError");
    CHECK(code_of(call(pool, caller, "")) == "ConnectError");
    server.restart();
    for (nats::bus* each : {&caller, &serving}) REQUIRE(each->connected().wait_for(30s));
  }
  never.set();
}

TEST_CASE("retry() repeats calls that have not been sent, through a restart") {
  testing::nats_server server;
  async::threadpool pool(2);
  nats::bus bus(to(server));
  auto service = bus.serve("serve", "g", pool, [](const std::string& request) { return request; });
  REQUIRE(bus.connected().wait_for(30s));
  server.kill();
  auto answer = steps::post<std::string>(pool, [&](IAsyncSteps& asi) {
    const steps::Retry patience{.attempts = steps::Retry::unlimited, .delay = 5ms, .max_delay = 50ms};
    asi.retry(patience.on(steps::errors::ConnectError, steps::errors::CommError),
              [&](IAsyncSteps& attempt) { bus.call(attempt, "serve", "again"); });
  });
  server.restart();
  CHECK(answer.get() == "again");
}

TEST_CASE("a server that takes nothing blocks no thread of a pool, and gets nothing that nobody waits for") {
  testing::nats_server server;
  async::threadpool pool(1);
  nats::bus bus(to(server));
  std::atomic<int> arrived{0};
  auto service = bus.serve("serve", "g", pool, [&](const std::string& request) {
    if (!request.empty()) ++arrived;
    return std::string();
  });
  REQUIRE(bus.connected().wait_for(30s));
  REQUIRE(code_of(call(pool, bus, "")) == "");
  server.pause();
  std::vector<async::future<std::string>> calls;
  const std::string large(100'000, 'x');
  for (int i = 0; i < 400; ++i) {  // 40 MB: far more than sockets take
    calls.push_back(steps::post<std::string>(pool, [&bus, &large](IAsyncSteps& asi) {
      asi.setTimeout(1s);
      bus.call(asi, "serve", large);
    }));
  }
  for (int i = 0; i < 1'000; ++i) CHECK(pool.post([i] { return i; }).get() == i);  // the only worker is free
  for (auto& each : calls) CHECK(code_of(std::move(each)) == "Timeout");
  server.resume();
  CHECK(code_of(call(pool, bus, "")) == "");  // goes on
  CHECK(arrived < 300);                       // what had not been written when its call timed out is not sent
}

TEST_CASE("a bus that waits uses no CPU") {
  testing::nats_server server;
  async::threadpool pool(1);
  nats::bus bus(to(server));
  async::event never;
  auto service = bus.serve("serve", "g", pool, [&](IAsyncSteps& asi, const std::string& request) {
    if (!request.empty()) asi.await(never);
    asi.successStep(request);
  });
  REQUIRE(bus.connected().wait_for(30s));
  auto waiting = call(pool, bus, "wait");
  for (int i = 0; i < 100; ++i) CHECK(code_of(call(pool, bus, "")) == "");
  std::this_thread::sleep_for(50ms);
  const auto begin = testing::process_cpu_time();
  std::this_thread::sleep_for(1s);
  CHECK(testing::process_cpu_time() - begin < 10ms);
  never.set();
  CHECK(waiting.get() == "wait");
}
