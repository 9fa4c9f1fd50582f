// SPDX-License-Identifier: BSL-1.0
//
// The trace of a program that is compiled with ASYNCSTEPS_TRACE: every task, flow and step is in it, once.
#define ASYNCSTEPS_TRACE 1
#include "async/trace.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/json.hpp"

using testing::json;
using namespace std::chrono_literals;

namespace {

json written(const async::trace& session) {
  std::ostringstream text;
  session.write(text);
  return json::parse(text.str());
}

/// The events with this phase, and this name if one is given.
std::vector<json> events(const json& trace, const std::string& phase, const std::string& name = {}) {
  std::vector<json> found;
  for (const json& e : trace["traceEvents"].list) {
    if (e["ph"].text == phase && (name.empty() || e["name"].text == name)) found.push_back(e);
  }
  return found;
}

std::vector<json> of_category(const json& trace, const std::string& phase, const std::string& category) {
  std::vector<json> found;
  for (const json& e : events(trace, phase)) {
    if (e.has("cat") && e["cat"].text == category) found.push_back(e);
  }
  return found;
}

/// Counts the ends of a trace's flows by kind. Checks that each flow has begun once, and not after its end.
std::map<std::string, int> flows(const json& trace) {
  std::map<double, double> begun;
  for (const json& e : of_category(trace, "b", "flow")) {
    CHECK(begun.emplace(e["id"].number, e["ts"].number).second);
  }
  std::map<std::string, int> ended;
  for (const json& e : of_category(trace, "e", "flow")) {
    REQUIRE(begun.count(e["id"].number) == 1);
    CHECK(begun[e["id"].number] <= e["ts"].number);
    begun.erase(e["id"].number);
    ++ended[e["args"]["by"].text];
  }
  CHECK(begun.empty());
  return ended;
}

struct named_step {
  void operator()(steps::IAsyncSteps&) const {}
};

}  // namespace

TEST_CASE("every task that a pool has run is in the trace, on the track of a worker") {
  async::trace session;
  std::atomic<int> ran{0};
  async::threadpool_options options;
  options.threads = 3;
  options.name = "crew";
  async::threadpool pool(std::move(options));
  for (int i = 0; i < 300; ++i) {
    pool.execute([&] {
      ++ran;
      pool.execute([&] { ++ran; });
    });
  }
  pool.post([] { return 1; }).get();
  pool.stop();
  REQUIRE(ran == 600);

  const json trace = written(session);
  const auto tasks = events(trace, "X", "task");
  CHECK(tasks.size() == 601);
  CHECK(tasks.size() == pool.stats().tasks);
  CHECK(events(trace, "i", "steal").size() == pool.stats().steals);
  CHECK(events(trace, "X", "park").size() >= pool.stats().parks);
  CHECK(events(trace, "X", "wake").size() == pool.stats().wakes);
  std::map<double, std::string> names;
  for (const json& e : events(trace, "M", "thread_name")) names[e["tid"].number] = e["args"]["name"].text;
  for (const json& task : tasks) {
    CHECK(names[task["tid"].number].substr(0, 5) == "crew/");
    CHECK(task["dur"].number >= 0);
  }
  CHECK(trace["otherData"]["dropped"].number == 0);
  CHECK(session.dropped() == 0);
}

TEST_CASE("tasks of groups and helpers of loops are in the trace, also those that run on a thread outside the pool") {
  async::trace session;
  async::threadpool pool(0);
  async::task_group group(pool);
  for (int i = 0; i < 10; ++i) group.run([] {});
  CHECK(group.wait());
  CHECK(events(written(session), "X", "task").size() == 10);
}

TEST_CASE("a span lies within the session and has the length of its operation") {
  async::threadpool pool(1);
  const async::trace session;
  const auto before = std::chrono::steady_clock::now();
  pool.execute([] {
    const auto until = std::chrono::steady_clock::now() + 3ms;
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  });
  pool.wait_idle();
  const std::chrono::duration<double, std::micro> all = std::chrono::steady_clock::now() - before;
  const auto tasks = events(written(session), "X", "task");
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[0]["ts"].number >= 0);
  CHECK(tasks[0]["dur"].number >= 3000);
  CHECK(tasks[0]["dur"].number <= all.count());
}

TEST_CASE("every flow is in the trace with its kind of end, and every step with the type of its function") {
  async::trace session;
  async::event_loop loop;
  steps::AsyncSteps good{loop};
  good.add(named_step{}).add([](steps::IAsyncSteps& asi) {
    asi.add(named_step{});
    asi.add(named_step{});
  });
  steps::AsyncSteps bad{loop};
  bad.add([](steps::IAsyncSteps&) { throw std::runtime_error("Bad"); }, [](steps::IAsyncSteps&, steps::ErrorCode) {});
  bad.state().set_unhandled_error([](steps::ErrorCode) {});
  steps::AsyncSteps stuck{loop};
  stuck.add([](steps::IAsyncSteps& asi) { asi.waitExternal(); });
  steps::AsyncSteps split{loop};
  auto& branches = split.parallel();
  branches.add(named_step{});
  branches.add(named_step{});
  for (steps::AsyncSteps* flow : {&good, &bad, &stuck, &split}) flow->execute();
  loop.run_for(0ms);
  for (int i = 0; i < 100; ++i) loop.iterate();
  stuck.cancel();

  const json trace = written(session);
  CHECK(flows(trace) == std::map<std::string, int>{{"success", 4}, {"error", 1}, {"cancel", 1}});
  int named = 0;
  for (const json& step : of_category(trace, "X", "step")) {
    CHECK(step["args"].has("flow"));
    const std::string name = step["name"].text;
    if (name.size() >= 10 && name.compare(name.size() - 10, 10, "named_step") == 0) ++named;
    if (name != step["args"]["type"].text) CHECK(step["args"]["type"].text.find(name) != std::string::npos);
  }
  CHECK(named == 5);
  CHECK(of_category(trace, "X", "step").size() == 9);
  REQUIRE(of_category(trace, "X", "handler").size() == 1);
  CHECK(of_category(trace, "X", "handler")[0]["name"].text.find("error handler") != std::string::npos);
}

TEST_CASE("flows of a pool, with branches on all workers, are in the trace") {
  async::trace session;
  constexpr int count = 50;
  {
    async::threadpool pool(3);
    std::vector<std::future<void>> ends;
    for (int i = 0; i < count; ++i) {
      ends.push_back(steps::post(pool, [](steps::IAsyncSteps& asi) {
        auto& branches = asi.parallel();
        for (int b = 0; b < 3; ++b) branches.add(named_step{});
      }));
    }
    for (auto& end : ends) end.get();
  }
  const json trace = written(session);
  CHECK(flows(trace) == std::map<std::string, int>{{"success", 4 * count}});
  CHECK(events(trace, "X", "task").size() == 4 * count);
  std::set<double> of;  // the flows whose steps there are
  for (const json& step : of_category(trace, "X", "step")) of.insert(step["args"]["flow"].number);
  CHECK(of.size() == 4 * count);
}

TEST_CASE("a flow that is cancelled before it begins has an end and no start") {
  async::trace session;
  async::threadpool pool(0);
  {
    steps::AsyncSteps flow{pool};
    flow.add(named_step{});
    flow.execute();
  }
  const json trace = written(session);
  CHECK(flows(trace).empty());
  CHECK(events(trace, "i", "flow ends").size() == 1);
  CHECK(of_category(trace, "X", "step").empty());
}

TEST_CASE("an arrow leads from a wake-up to the end of the sleep") {
  async::trace session;
  async::threadpool pool(1);
  while (pool.idlesize() != 1) std::this_thread::yield();
  pool.execute([] {});
  pool.stop();
  const json trace = written(session);
  const auto sent = of_category(trace, "s", "wake");
  const auto came = of_category(trace, "f", "wake");
  CHECK(sent.size() == events(trace, "X", "wake").size());
  REQUIRE(!came.empty());
  CHECK(came.size() <= sent.size());
  CHECK(came[0]["id"].number == sent[0]["id"].number);
  CHECK(came[0]["tid"].number != sent[0]["tid"].number);
  CHECK(came[0]["ts"].number >= sent[0]["ts"].number);
}

TEST_CASE("callbacks and sleeps of an event loop are in the trace") {
  async::trace session;
  async::event_loop loop;
  std::size_t rounds = 0;
  json trace;
  for (auto pause = 1ms; pause < 10s; pause *= 4) {  // the time may be up before a slow machine sleeps
    loop.deferred(pause, [&] { loop.stop(); });
    loop.run();
    ++rounds;
    trace = written(session);
    if (!events(trace, "X", "park").empty()) break;
  }
  CHECK(events(trace, "X", "callback").size() == rounds);
  CHECK(!events(trace, "X", "park").empty());
}

TEST_CASE("a full ring drops the oldest events and counts them") {
  async::trace session(async::trace_options{.events_per_thread = 10});
  async::event_loop loop;
  for (int i = 0; i < 25; ++i) {
    steps::AsyncSteps flow{loop};
    flow.add(named_step{});
    flow.execute();
    loop.iterate();
  }
  CHECK(session.dropped() == 65);  // of 25 starts, steps and ends
  const json trace = written(session);
  CHECK(trace["otherData"]["dropped"].number == 65);
  CHECK(events(trace, "M", "thread_name").at(0)["args"]["dropped"].number == 65);
  const std::size_t ends = of_category(trace, "e", "flow").size() + events(trace, "i", "flow ends").size();
  CHECK(ends == 4);  // e [b s e] [b s e] [b s e]
  CHECK(of_category(trace, "b", "flow").size() == 3);
  CHECK(of_category(trace, "X", "step").size() == 3);
}

TEST_CASE("without room every event is dropped and counted") {
  constexpr auto most = static_cast<std::size_t>(-1);
  for (const std::size_t room : {std::size_t{0}, most, most - 1, most / 2, most / sizeof(async::detail::trace_event)}) {
    async::trace session(async::trace_options{.events_per_thread = room});
    async::threadpool pool(0);
    async::task_group group(pool);
    group.run([] {});
    CHECK(group.wait());
    CHECK(session.dropped() == 1);
    CHECK(events(written(session), "X").empty());
  }
}

TEST_CASE("a session records only what happens between its start and its end") {
  async::threadpool pool(0);
  const auto run_one = [&pool] {
    async::task_group group(pool);
    group.run([] {});
    return group.wait();
  };
  run_one();
  {
    async::trace session;
    CHECK(written(session)["traceEvents"].list.empty());
    run_one();
    session.stop();
    run_one();
    CHECK(events(written(session), "X", "task").size() == 1);
    CHECK_THROWS_AS(async::trace(), std::logic_error);
  }
  run_one();
  async::trace next(async::trace_options{.events_per_thread = 3});
  CHECK(written(next)["traceEvents"].list.empty());
  for (int i = 0; i < 5; ++i) run_one();
  CHECK(events(written(next), "X", "task").size() == 3);
}

TEST_CASE("threads that end leave their events, each on a track of its own") {
  async::trace session(async::trace_options{.events_per_thread = 16});
  async::threadpool pool(0);
  for (int i = 0; i < 20; ++i) {
    std::thread([&pool, i] {
      async::trace::name_thread("short \"lived\"", static_cast<std::size_t>(i));
      async::task_group group(pool);
      group.run([] {});
      group.wait();
    }).join();
  }
  const json trace = written(session);
  CHECK(events(trace, "X", "task").size() == 20);
  std::set<std::string> names;
  for (const json& e : events(trace, "M", "thread_name")) names.insert(e["args"]["name"].text);
  CHECK(names.size() == 20);
  CHECK(names.count("short \"lived\"/7") == 1);
}

TEST_CASE("events that are read from a ring while its thread writes are whole and in order") {
  async::detail::trace_log log;
  char name[async::detail::trace_log::name_size] = "writer";
  log.begin(1, 4, name);
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (std::int64_t i = 1; !over; ++i) {
      log.append({i, i, static_cast<std::uint64_t>(i), "event", async::detail::trace_kind::task});
    }
  });
  bool is_whole = true;
  for (std::uint64_t dropped = 0; dropped < 3000000;) {
    std::int64_t before = 0;
    std::uint64_t kept = 0;
    dropped = log.read([&](const async::detail::trace_event& e) {
      is_whole = is_whole && e.start == e.end && e.about == static_cast<std::uint64_t>(e.start) && e.name == "event";
      is_whole = is_whole && e.start > before;
      before = e.start;
      ++kept;
    });
    is_whole = is_whole && kept <= 4 && (before == 0 || dropped + kept >= static_cast<std::uint64_t>(before));
  }
  over = true;
  writer.join();
  CHECK(is_whole);
}

TEST_CASE("a trace that is written while threads record is whole") {
  async::trace session(async::trace_options{.events_per_thread = 64});
  async::threadpool pool(2);
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> ran{0};
  for (int i = 0; i < 2; ++i) {
    pool.execute([&] {
      while (!over) {
        async::task_group group(pool);
        for (int n = 0; n < 8; ++n) group.run([&] { ++ran; });
        group.wait();
      }
    });
  }
  for (int i = 0; i < 50 || ran < 500; ++i) {
    const json trace = written(session);
    for (const json& task : events(trace, "X", "task")) {
      if (task["ts"].number < 0 || task["dur"].number < 0 || task["dur"].number > 1e9) FAIL("a torn event");
    }
  }
  over = true;
  pool.stop();
  const json trace = written(session);
  // starts of flows there are none; each ring is full, and what it has dropped is counted
  std::size_t kept = 0;
  for (const char* phase : {"X", "i"}) kept += events(trace, phase).size();
  CHECK(kept <= 3 * 64);
  CHECK(static_cast<double>(kept) + trace["otherData"]["dropped"].number >= static_cast<double>(ran));
}

TEST_CASE("the name of a step's type is shortened to that of its function") {
  using async::detail::short_name;
  CHECK(short_name("function_step<steps::IAsyncSteps, my::job, no_handler>") == "my::job");
  CHECK(short_name("f<A<x, y>, main()::<lambda(B<1, 2>)>, C>") == "main()::<lambda(B<1, 2>)>");
  CHECK(short_name("f<A, (lambda at x.cpp:1:2) (int) -> B, C>") == "(lambda at x.cpp:1:2) (int) -> B");
  CHECK(short_name("f<A, B>") == "B");
  CHECK(short_name("loop_step<A, no_label, counted<main()::<lambda(B)> > >") == "counted<main()::<lambda(B)> >");
  CHECK(short_name("parallel_step<A, steps::detail::no_handler>") == "parallel_step");
  CHECK(short_name("await_step<A, std::future<int>, no_handler>") == "std::future<int>");
  CHECK(short_name("yield_step<A>") == "yield_step<A>");
  CHECK(short_name("") == "");
}
