// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "async/event.hpp"
#include "async/threadpool.hpp"
#include "steps/asynctool.hpp"
#include "steps/interop/detail/nats/call_table.hpp"
#include "steps/interop/nats.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/nats_server.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::noting;
using namespace std::chrono_literals;
namespace nats = steps::interop::nats;

namespace {

nats::options to(const testing::nats_server& server) { return {.url = server.url()}; }

/// The answer to one call of a flow, or its error as "code: info".
std::string outcome(async::threadpool& pool, nats::bus& bus, std::string subject, std::string request,
                    std::chrono::nanoseconds limit = 30s) {
  auto answer = steps::post<std::string>(pool, [&, limit](IAsyncSteps& asi) {
    asi.setTimeout(limit);
    bus.call(asi, subject, request);
  });
  try {
    return answer.get();
  } catch (const steps::Error& error) {
    return std::string(error.what()) + ": " + error.error_info();
  }
}

/// `count` calls of flows on one loop, all at the same time; returns the number of those that succeed.
int calls_at_once(nats::bus& bus, const std::string& subject, int count) {
  std::atomic<int> answered{0};
  steps::AsyncTool tool;
  steps::AsyncSteps flow(tool);
  flow.add([&](IAsyncSteps& asi) {
    asi.setTimeout(60s);
    auto& branches = asi.parallel();
    for (int i = 0; i < count; ++i) {
      branches.add([&bus, &subject, &answered](IAsyncSteps& branch) {
        bus.call(branch, subject, "x");
        branch.add([&answered](IAsyncSteps&, const std::string&) { ++answered; });
      });
    }
  });
  flow.promise().get();
  return answered;
}

/// The same, one call after the other, each begun when the one before has ended.
int calls_in_turn(async::threadpool& pool, nats::bus& bus, const std::string& subject, std::size_t count) {
  std::atomic<int> answered{0};
  steps::post(pool, [&, count](IAsyncSteps& asi) {
    asi.setTimeout(60s);
    asi.repeat(count, [&](IAsyncSteps& turn, std::size_t) {
      turn.add(
          [&](IAsyncSteps& step) {
            bus.call(step, subject, "x");
            step.add([&answered](IAsyncSteps&, const std::string&) { ++answered; });
          },
          [](IAsyncSteps& failed, ErrorCode code) {
            if (code == nats::errors::NoResponders) failed.success();
          });
    });
  }).get();
  return answered;
}

/// Returns when the server knows what the bus serves.
void settle(async::threadpool& pool, nats::bus& bus) {
  REQUIRE(outcome(pool, bus, "nobody", "").starts_with("NoResponders: "));
}

struct bench {
  testing::nats_server server;
  async::threadpool pool{2};
  nats::bus bus{to(server)};
  bench() { REQUIRE(bus.connected().wait_for(30s)); }
};

}  // namespace

TEST_CASE("a call is answered by a task of the pool or by a flow") {
  bench b;
  auto task = b.bus.serve("task", "g", b.pool, [](const std::string& text) { return text + " by a task"; });
  auto flow = b.bus.serve("flow", "g", b.pool, [&](IAsyncSteps& asi, std::string text) {
    asi.await(b.pool, [text] { return text + " by a flow"; });
  });
  auto none = b.bus.serve("none", "g", b.pool, [](const std::string&) {});
  CHECK(outcome(b.pool, b.bus, "task", "answered") == "answered by a task");
  CHECK(outcome(b.pool, b.bus, "flow", "answered") == "answered by a flow");
  CHECK(outcome(b.pool, b.bus, "none", "?") == "");
  const std::string bytes("\0\r\n\xff", 4);
  CHECK(outcome(b.pool, b.bus, "task", bytes) == bytes + " by a task");
}

TEST_CASE("a call that nobody serves fails at once") {
  bench b;
  const auto begin = std::chrono::steady_clock::now();
  CHECK(outcome(b.pool, b.bus, "nobody", "") == "NoResponders: nobody serves the subject");
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
}

TEST_CASE("a subject with blanks or of great length, and too much data, are refused") {
  bench b;
  for (const char* subject : {"", "a b", "a\r\nb", "a\tb"}) {
    CHECK(outcome(b.pool, b.bus, subject, "").starts_with("InvalidRequest: "));
  }
  CHECK(outcome(b.pool, b.bus, std::string(5'000, 's'), "").starts_with("InvalidRequest: "));
  CHECK(outcome(b.pool, b.bus, "a", std::string(2'000'000, 'x')).starts_with("InvalidRequest: "));
  b.bus.send(std::string(5'000, 's'), "dropped");
  CHECK(outcome(b.pool, b.bus, "a", "").starts_with("NoResponders: "));  // the bus is as before
  CHECK(b.bus.connected().is_set());
  const std::string longest(nats::detail::longest_subject, 's');
  CHECK(outcome(b.pool, b.bus, longest, "").starts_with("NoResponders: "));
}

TEST_CASE("errors of the other side are errors of the step") {
  bench b;
  auto task = b.bus.serve("task", "g", b.pool, [](const std::string& text) -> std::string {
    if (text == "Error") throw steps::Error("NotFound", "no such\nuser");
    if (text == "exception") throw std::runtime_error("what");
    throw 1;
  });
  auto flow = b.bus.serve("flow", "g", b.pool, [](IAsyncSteps& asi, std::string text) {
    if (text == "error") asi.error("NotFound", "no such user");
    asi.success(42);
  });
  CHECK(outcome(b.pool, b.bus, "task", "Error") == "NotFound: no such user");
  CHECK(outcome(b.pool, b.bus, "task", "exception") == "what: ");
  CHECK(outcome(b.pool, b.bus, "task", "1").starts_with("InternalError: "));
  CHECK(outcome(b.pool, b.bus, "flow", "error") == "NotFound: no such user");
  CHECK(outcome(b.pool, b.bus, "flow", "not a text").starts_with("InternalError: "));
}

TEST_CASE("an error without a text is an error of the step") {
  bench b;
  auto task = b.bus.serve("task", "g", b.pool, [](const std::string& text) -> std::string {
    if (text == "Error") throw steps::Error("", "info");
    if (text == "blank info") throw steps::Error("NotFound", "\n");
    throw std::runtime_error(text);
  });
  auto flow = b.bus.serve("flow", "g", b.pool, [](IAsyncSteps& asi, const std::string&) { asi.error(""); });
  CHECK(outcome(b.pool, b.bus, "task", "Error") == "InternalError: info");
  CHECK(outcome(b.pool, b.bus, "task", "blank info") == "NotFound: ");
  for (const char* text : {"", " ", "\n", "\r\n\t"}) CHECK(outcome(b.pool, b.bus, "task", text) == "InternalError: ");
  CHECK(outcome(b.pool, b.bus, "flow", "") == "InternalError: ");
}

TEST_CASE("an answer with too much data is the caller's InvalidRequest; long texts of errors are cut") {
  bench b;
  const std::string large(2'000'000, 'x');
  auto answers =
      b.bus.serve("answers", "g", b.pool, [&](const std::string& text) { return text.empty() ? large : text; });
  auto infos = b.bus.serve("infos", "g", b.pool,
                           [&](const std::string&) -> std::string { throw steps::Error("NotFound", large); });
  auto codes =
      b.bus.serve("codes", "g", b.pool, [&](const std::string&) -> std::string { throw std::runtime_error(large); });
  auto blanks = b.bus.serve("blanks", "g", b.pool, [&](const std::string&) -> std::string {
    throw std::runtime_error(std::string(2'000, ' ') + "x");
  });
  const std::string refused = "InvalidRequest: the answer has too much data";
  CHECK(outcome(b.pool, b.bus, "answers", "") == refused);
  std::vector<async::future<std::string>> many;  // not written by the threads that make them
  for (int i = 0; i < 20; ++i) {
    many.push_back(steps::post<std::string>(b.pool, [&](IAsyncSteps& asi) {
      asi.setTimeout(30s);
      b.bus.call(asi, "answers", "");
    }));
  }
  for (auto& each : many) CHECK_THROWS_WITH(each.get(), "InvalidRequest");
  CHECK(outcome(b.pool, b.bus, "answers", "after it") == "after it");
  CHECK(outcome(b.pool, b.bus, "infos", "").starts_with("NotFound: xxxx"));
  CHECK(outcome(b.pool, b.bus, "codes", "").starts_with("xxxx"));
  CHECK(outcome(b.pool, b.bus, "blanks", "") == "InternalError: ");
}

TEST_CASE("a message with too much data is dropped, and nobody gets another one for it") {
  bench b;
  std::atomic<int> arrived{0};
  auto service = b.bus.serve("serve", "g", b.pool, [&](const std::string&) { ++arrived; });
  b.bus.send("serve", std::string(2'000'000, 'x'));
  CHECK(outcome(b.pool, b.bus, "serve", "x") == "");
  CHECK(arrived == 1);
}

TEST_CASE("messages that are sent all at once arrive, however many bytes they have") {
  bench b;
  std::atomic<int> arrived{0};
  auto service = b.bus.serve("log", "", b.pool, [&](const std::string&) { ++arrived; });
  settle(b.pool, b.bus);
  nats::bus other(to(b.server));
  REQUIRE(other.connected().wait_for(30s));
  const std::string large(100'000, 'x');
  for (int i = 0; i < 200; ++i) other.send("log", large);
  for (int i = 0; i < 10'000 && arrived < 200; ++i) std::this_thread::sleep_for(1ms);
  CHECK(arrived == 200);
}

TEST_CASE("lengths that the client would count in an int are refused") {
  constexpr std::size_t gib = std::size_t{1} << 30;
  CHECK(nats::detail::is_size(1'000'000));
  for (const std::size_t n : {2 * gib, 2 * gib + 5, 4 * gib - 1, 4 * gib, 4 * gib + 5}) {
    CHECK_FALSE(nats::detail::is_size(n));
  }
}

TEST_CASE("texts for headers are lines, and are cut between characters") {
  CHECK(nats::detail::line_of("a\nb", 3) == "a b");
  CHECK(nats::detail::line_of("abcd", 3) == "abc");
  CHECK(nats::detail::line_of("ab\xC3\xA4", 3) == "ab");
  CHECK(nats::detail::line_of("ab\xC3\xA4", 4) == "ab\xC3\xA4");
}

TEST_CASE("serve() refuses subjects and groups with blanks; a service that the client refuses has stopped") {
  bench b;
  const auto echo = [](const std::string& text) { return text; };
  for (const char* bad : {"a b", "a\r\nb", "a\t", " "}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(b.bus.serve(bad, "", b.pool, echo)), "InvalidRequest", steps::Error);
    CHECK_THROWS_WITH_AS(static_cast<void>(b.bus.serve("a", bad, b.pool, echo)), "InvalidRequest", steps::Error);
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(b.bus.serve("", "", b.pool, echo)), "InvalidRequest", steps::Error);
  const std::string half(1'025, 's');
  CHECK_THROWS_WITH_AS(static_cast<void>(b.bus.serve(half, half, b.pool, echo)), "InvalidRequest", steps::Error);
  for (const char* bad : {"a..b", ".a", "a."}) {
    auto service = b.bus.serve(bad, "g", b.pool, echo);
    CHECK(service.stopped().wait_for(30s));
  }
  auto good = b.bus.serve("a.b", "g.h", b.pool, echo);
  CHECK(outcome(b.pool, b.bus, "a.b", "served") == "served");
  CHECK_FALSE(good.stopped().is_set());
}

TEST_CASE("limits are numbers of messages, one at least, also beyond an int") {
  bench b;
  for (const std::size_t backlog : {std::size_t{0}, std::size_t{1} << 32}) {
    async::event release;
    std::atomic<int> arrived{0};
    auto service = b.bus.serve("serve", "g", b.pool,
                               [&](IAsyncSteps& asi, const std::string&) {
                                 ++arrived;
                                 asi.await(release);
                                 asi.successStep(std::string());
                               },
                               {.limit = std::size_t{backlog != 0}, .backlog = backlog});
    settle(b.pool, b.bus);
    for (int i = 0; i < 20; ++i) b.bus.send("serve", "");
    settle(b.pool, b.bus);  // all have come
    release.set();
    service.stop();
    service.stopped().wait();
    CHECK((arrived == 20) == (backlog != 0));
  }
}

TEST_CASE("an answer that does not come is a Timeout; one that comes late does nothing") {
  bench b;
  async::event release;
  auto slow = b.bus.serve("slow", "g", b.pool, [&](IAsyncSteps& asi, std::string text) {
    asi.await(release);
    asi.successStep(std::move(text));
  });
  CHECK(outcome(b.pool, b.bus, "slow", "first", 20ms) == "Timeout: ");
  auto cancelled = steps::post<std::string>(b.pool, [&](IAsyncSteps& asi) { b.bus.call(asi, "slow", "second"); });
  auto third = steps::post<std::string>(b.pool, [&](IAsyncSteps& asi) { b.bus.call(asi, "slow", "third"); });
  cancelled.cancel();
  CHECK_THROWS_AS(cancelled.get(), std::future_error);
  release.set();
  CHECK(third.get() == "third");
}

TEST_CASE("a group shares requests over its members; without a group each member gets all") {
  testing::nats_server server;
  async::threadpool pool(2);
  nats::bus caller(to(server)), first(to(server)), second(to(server));
  for (nats::bus* each : {&caller, &first, &second}) REQUIRE(each->connected().wait_for(30s));
  std::atomic<int> by_first{0}, by_second{0}, heard{0};
  auto one = first.serve("work.a", "group", pool, [&](const std::string&) { ++by_first; });
  auto two = second.serve("work.a", "group", pool, [&](const std::string&) { ++by_second; });
  auto ear = first.serve("work.a", "", pool, [&](const std::string&) { ++heard; });
  auto all = second.serve("work.*", "", pool, [&](const std::string&) { ++heard; });
  settle(pool, first);
  settle(pool, second);
  CHECK(calls_at_once(caller, "work.a", 400) == 400);
  while (by_first + by_second < 400 || heard < 800) std::this_thread::yield();
  CHECK(by_first + by_second == 400);
  CHECK(by_first > 50);
  CHECK(by_second > 50);
  CHECK(heard == 800);
}

TEST_CASE("ten thousand calls of flows on one loop are in flight at once") {
  bench b;
  constexpr int count = 10'000;
  std::atomic<int> arrived{0};
  async::event all;
  auto slow = b.bus.serve("slow", "g", b.pool,
                          [&](IAsyncSteps& asi, std::string text) {
                            if (++arrived == count) all.set();
                            asi.await(all);
                            asi.successStep(std::move(text));
                          },
                          {.limit = count});
  CHECK(calls_at_once(b.bus, "slow", count) == count);
}

TEST_CASE("a service takes as many requests at a time as it may; others wait") {
  bench b;
  std::atomic<int> inside{0}, most{0};
  auto limited = b.bus.serve(
      "limited", "g", b.pool,
      [&](IAsyncSteps& asi, const std::string&) {
        most = (std::max)(most.load(), ++inside);
        asi.add([](IAsyncSteps& wait) { wait.tool().deferred(2ms, [done = wait.completion()] { done.success(); }); });
        asi.add([&inside](IAsyncSteps& end) {
          --inside;
          end.success(std::string());
        });
      },
      {.limit = 3});
  CHECK(calls_at_once(b.bus, "limited", 300) == 300);
  CHECK(most <= 3);
}

TEST_CASE("threads that poll while there is one call at a time do not hold up others") {
  bench b;
  auto echo =
      std::make_unique<nats::service>(b.bus.serve("echo", "g", b.pool, [](const std::string& text) { return text; }));
  auto outer =
      b.bus.serve("outer", "g", b.pool,
                  [&b](IAsyncSteps& asi, std::string text) { b.bus.call(asi, "echo", std::move(text)); }, {.limit = 1});
  for (int round = 0; round < 3; ++round) {
    for (const char* subject : {"echo", "outer", "nobody"}) {
      const int answered = calls_in_turn(b.pool, b.bus, subject, 200);
      CHECK(answered == (std::string_view(subject) == "nobody" ? 0 : 200));
      CHECK(calls_at_once(b.bus, "outer", 20) == 20);  // these wait for room, and for answers
    }
    b.bus.send("echo", "");
    CHECK(outcome(b.pool, b.bus, "echo", "after it") == "after it");
    CHECK(calls_in_turn(b.pool, b.bus, "echo", 100) == 100);
    echo.reset();  // its thread may poll
    CHECK(outcome(b.pool, b.bus, "echo", "").starts_with("NoResponders: "));
    echo =
        std::make_unique<nats::service>(b.bus.serve("echo", "g", b.pool, [](const std::string& text) { return text; }));
    CHECK(outcome(b.pool, b.bus, "echo", "at once") == "at once");  // not before the server knows of it
  }
  CHECK(calls_in_turn(b.pool, b.bus, "echo", 100) == 100);  // so a thread polls when the bus ends
}

TEST_CASE("a full pool that rejects is the caller's QueueFull; one that blocks delays its own service only") {
  testing::nats_server server;
  async::threadpool callers(2);
  nats::bus bus(to(server));
  REQUIRE(bus.connected().wait_for(30s));
  for (const auto policy : {async::threadpool_options::overflow::reject, async::threadpool_options::overflow::block}) {
    async::threadpool small({.threads = 1, .max_queue = 2, .when_full = policy});
    async::event entered, release;
    small.execute([&] {
      entered.set();
      release.wait();
    });
    entered.wait();
    auto service = bus.serve("small", "g", small, [](const std::string& text) { return text; });
    auto other = bus.serve("other", "g", callers, [](const std::string& text) { return text; });
    std::vector<async::future<std::string>> answers;
    for (int i = 0; i < 20; ++i) {
      answers.push_back(steps::post<std::string>(callers, [&](IAsyncSteps& asi) { bus.call(asi, "small", "answer"); }));
    }
    if (policy == async::threadpool_options::overflow::reject) {
      const auto is_ready = [](auto& each) { return each.wait_for(0s) == std::future_status::ready; };
      while (std::none_of(answers.begin(), answers.end(), is_ready)) std::this_thread::yield();
    }
    CHECK(outcome(callers, bus, "other", "free") == "free");
    release.set();
    int refused = 0;
    for (auto& each : answers) {
      try {
        const std::string answer = each.get();
        CHECK(answer == "answer");
      } catch (const steps::Error& error) {
        CHECK(error.code() == steps::errors::QueueFull);
        ++refused;
      }
    }
    CHECK((refused != 0) == (policy == async::threadpool_options::overflow::reject));
  }
}

TEST_CASE("a service that stops has answered what it has taken; the others of the group go on") {
  testing::nats_server server;
  async::threadpool pool(2);
  nats::bus caller(to(server)), first(to(server)), second(to(server));
  for (nats::bus* each : {&caller, &first, &second}) REQUIRE(each->connected().wait_for(30s));
  std::atomic<int> by_first{0};
  auto stays = second.serve("work", "group", pool, [&](const std::string&) {});
  settle(pool, second);
  for (int round = 0; round < 20; ++round) {
    const int before = by_first;
    auto leaves = first.serve("work", "group", pool, [&](const std::string&) { ++by_first; });
    auto stopper = pool.post([&] {
      while (by_first == before) std::this_thread::yield();
      leaves.stop();
    });
    int answered = 0;
    while (by_first == before) answered += calls_at_once(caller, "work", 100) - 100;
    answered += calls_at_once(caller, "work", 100) - 100;
    CHECK(answered == 0);  // none is missing
    stopper.get();
    leaves.stopped().wait();
    const int at_end = by_first;
    CHECK(calls_at_once(caller, "work", 20) == 20);
    CHECK(by_first == at_end);
  }
}

TEST_CASE("a bus that ends fails calls under way with CommError") {
  bench b;
  async::event never, taken;
  auto silent = b.bus.serve("silent", "g", b.pool, [&](IAsyncSteps& asi, const std::string&) {
    taken.set();
    asi.await(never);
  });
  settle(b.pool, b.bus);
  async::future<std::string> answer;
  {
    nats::bus ends(to(b.server));
    REQUIRE(ends.connected().wait_for(30s));
    answer = steps::post<std::string>(b.pool, [&](IAsyncSteps& asi) { ends.call(asi, "silent", ""); });
    taken.wait();
  }
  CHECK_THROWS_WITH(answer.get(), "CommError");
  never.set();
}

TEST_CASE("a bus that ends writes what is to be sent") {
  bench b;
  std::atomic<int> arrived{0};
  auto service = b.bus.serve("log", "", b.pool, [&](const std::string&) { ++arrived; });
  settle(b.pool, b.bus);
  const std::string large(100'000, 'x');
  {
    nats::bus ends(to(b.server));
    REQUIRE(ends.connected().wait_for(30s));
    for (int i = 0; i < 100; ++i) ends.send("log", large);
  }
  for (int i = 0; i < 10'000 && arrived < 100; ++i) std::this_thread::sleep_for(1ms);
  CHECK(arrived == 100);
}

TEST_CASE("calls that have not been sent outlive the connection, and end with the bus") {
  testing::bench loop;
  testing::lines seen;
  nats::detail::call_table calls;
  std::uint64_t number = 0;
  steps::AsyncSteps sent(loop.loop), waiting(loop.loop);
  sent.add([&](IAsyncSteps& asi) { number = calls.begin(asi.completion<std::string>()).number; }, noting(seen));
  waiting.add([&](IAsyncSteps& asi) { calls.begin(asi.completion<std::string>()); }, noting(seen));
  sent.execute();
  waiting.execute();
  loop.drain();
  REQUIRE(calls.mark_sent(number));
  calls.fail_sent(steps::errors::CommError, "lost");
  loop.drain();
  CHECK(seen == testing::lines{"CommError: lost"});
  CHECK(calls.in_flight() == 1);
  calls.close(steps::errors::CommError, "closed");
  loop.drain();
  CHECK(seen == testing::lines{"CommError: lost", "CommError: closed"});
  CHECK(calls.in_flight() == 0);
}

TEST_CASE("requests that a pool has not answered at its end get the answer Stopped") {
  bench b;
  async::event never, taken;
  async::threadpool own(1);
  auto service = b.bus.serve("silent", "g", own, [&](IAsyncSteps& asi, const std::string&) {
    taken.set();
    asi.await(never);
  });
  auto answer = steps::post<std::string>(b.pool, [&](IAsyncSteps& asi) { b.bus.call(asi, "silent", ""); });
  taken.wait();
  own.stop();
  CHECK_THROWS_WITH(answer.get(), "Stopped");
  CHECK(outcome(b.pool, b.bus, "silent", "").starts_with("Stopped: "));  // the pool takes no more
}
