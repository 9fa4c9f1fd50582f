// SPDX-License-Identifier: BSL-1.0
//
// Flows that await and fill queues. Rules 38 to 40 of steps/RULES.md.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using testing::noting;
using testing::noting_code;
using namespace std::chrono_literals;

namespace {

using numbers = async::queue<int>;
using ring = async::bounded_queue<int>;

/// Flows that each take one element and note it with their own number.
template <class Queue>
struct takers {
  takers(bench& b, Queue& q, int count) {
    for (int i = 0; i < count; ++i) {
      all.push_back(std::make_unique<steps::AsyncSteps>(b.loop));
      all.back()->await(q, noting_code(seen)).add([this, i](IAsyncSteps&, int v) {
        seen.push_back(std::to_string(i) + ":" + std::to_string(v));
      });
      all.back()->state().set_unhandled_error([](ErrorCode) {});
      all.back()->execute();
    }
    b.drain();
  }
  lines seen;
  std::vector<std::unique_ptr<steps::AsyncSteps>> all;
};

/// An element that does not fit into the flow, and cannot be copied.
struct large : testing::live_count<large> {
  explicit large(int n) : number(std::make_unique<int>(n)) {}
  std::unique_ptr<int> number;
  std::array<char, 100> more{};
};

struct picky {
  explicit picky(int n) : number(n) {
    if (n < 0) throw std::invalid_argument("negative");
  }
  int number;
};

}  // namespace

TEST_CASE_TEMPLATE("rule 38: await passes the oldest element on, at once or when it comes", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  numbers q;
  q.enqueue(1);
  q.enqueue(2);
  Flow flow{b.loop};
  flow.repeat(3, [&](IAsyncSteps& asi, std::size_t) {
    asi.await(q).add([&](IAsyncSteps&, int v) { seen.push_back(std::to_string(v)); });
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"1", "2"});
  CHECK(!b.loop.iterate().have_work);  // the wait needs no timer
  q.enqueue(3);
  b.drain();
  CHECK(seen == lines{"1", "2", "3"});
  CHECK(static_cast<bool>(flow));
}

TEST_CASE_TEMPLATE("rule 38: elements of any size are moved, and neither they nor handlers are left behind", Flow,
                   STEPS_FLOWS) {
  {
    bench b;
    std::vector<int> seen;
    async::bounded_queue<large> q(2);
    Flow flow{b.loop};
    flow.repeat(2, [&](IAsyncSteps& asi, std::size_t) {
      asi.await(q, [handled = testing::counted()](IAsyncSteps&, ErrorCode) {});
      asi.add([&](IAsyncSteps&, large&& v) { seen.push_back(*v.number); });
    });
    flow.enqueue(q, large(3));
    q.enqueue(1);
    flow.execute();
    b.drain();
    q.enqueue(2);
    b.drain();
    CHECK(seen == std::vector<int>{1, 2});
    CHECK(q.approx_size() == 1);
    CHECK(testing::counted::alive == 0);
  }
  CHECK(large::live() == 0);
}

TEST_CASE_TEMPLATE("rule 38: a queue that is closed and drained is QueueClosed at the step", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  numbers q;
  q.enqueue(1);
  q.close();
  Flow flow{b.loop};
  flow.await(q, noting(seen)).add([&](IAsyncSteps&, int v) { seen.push_back(std::to_string(v)); });
  flow.await(q, [&](IAsyncSteps& asi, ErrorCode code) {
    seen.emplace_back(code);
    asi.success(7);
  });
  flow.add([&](IAsyncSteps&, int v) { seen.push_back(std::to_string(v)); });
  flow.add([&](IAsyncSteps& asi) { asi.enqueue(q, 5); }, noting_code(seen));
  flow.execute();
  b.drain();
  CHECK(seen == lines{"1", "QueueClosed", "7", "QueueClosed"});
  CHECK(steps::errors::QueueClosed == "QueueClosed");
}

TEST_CASE("rule 38: close ends all waits") {
  bench b;
  {
    numbers q;
    takers<numbers> waiting(b, q, 100);
    CHECK(waiting.seen.empty());
    q.close();
    b.drain();
    CHECK(waiting.seen == lines(100, "QueueClosed"));
  }
  ring q(1);
  q.enqueue(1);
  lines seen;
  std::vector<std::unique_ptr<steps::AsyncSteps>> waiting;
  for (int i = 0; i < 40; ++i) {
    waiting.push_back(std::make_unique<steps::AsyncSteps>(b.loop));
    waiting.back()->add([&](IAsyncSteps& asi) { asi.enqueue(q, 2); }, noting_code(seen));
    waiting.back()->execute();
  }
  b.drain();
  CHECK(seen.empty());
  q.close();
  b.drain();
  CHECK(seen == lines(40, "QueueClosed"));
  CHECK(q.dequeue() == 1);
  CHECK(q.dequeue() == std::nullopt);
}

TEST_CASE("rule 38: waiting flows are served first come, first served") {
  bench b;
  ring q(4);
  takers<ring> waiting(b, q, 4);
  q.enqueue(10);
  q.enqueue(11);
  b.drain();
  CHECK(waiting.seen == lines{"0:10", "1:11"});
  const std::array<int, 2> more{12, 13};
  q.bulk_enqueue(more.begin(), more.size());
  b.drain();
  CHECK(waiting.seen == lines{"0:10", "1:11", "2:12", "3:13"});
}

TEST_CASE("rule 38: a flow whose element another has taken stays first in the line") {
  bench b;
  numbers q;
  takers<numbers> waiting(b, q, 3);
  q.enqueue(1);
  CHECK(q.dequeue() == 1);  // before the flow that has been called runs
  b.drain();
  CHECK(waiting.seen.empty());
  for (int i = 2; i < 5; ++i) q.enqueue(i);
  b.drain();
  CHECK(waiting.seen == lines{"0:2", "1:3", "2:4"});
}

TEST_CASE_TEMPLATE("rule 38: cancel or timeout ends the wait, and the element stays in the queue", Flow, STEPS_FLOWS) {
  for (const bool cancels : {true, false}) {
    bench b;
    lines seen;
    numbers q;
    Flow flow{b.loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          if (!cancels) asi.setTimeout(5ms);
          asi.await(q).add([&](IAsyncSteps&, int) { seen.push_back("taken"); });
        },
        noting_code(seen));
    flow.execute();
    b.pass(1ms);
    CHECK(!flow);
    if (cancels) flow.cancel();
    b.pass(10ms);
    CHECK(static_cast<bool>(flow));
    CHECK(seen == (cancels ? lines{} : lines{"Timeout"}));
    q.enqueue(1);
    b.drain();
    CHECK(q.dequeue() == 1);
  }
}

TEST_CASE_TEMPLATE("rule 38: a flow that has been called and ends before it looks calls the next", Queue, numbers,
                   ring) {
  for (const bool cancels : {true, false}) {
    bench b;
    std::optional<Queue> q;
    if constexpr (std::is_same_v<Queue, ring>) {
      q.emplace(4U);
    } else {
      q.emplace();
    }
    lines seen;
    steps::AsyncSteps first{b.loop};
    first.add(
        [&](IAsyncSteps& asi) {
          if (!cancels) asi.setTimeout(5ms);
          asi.await(*q).add([&](IAsyncSteps&, int) { seen.push_back("taken"); });
        },
        noting_code(seen));
    first.execute();
    b.drain();
    takers<Queue> next(b, *q, 1);
    if (cancels) {
      q->enqueue(1);  // calls `first`
      first.cancel();
    } else {
      steps::AsyncSteps other{b.loop};
      other.add([&](IAsyncSteps& asi) { asi.setTimeout(5ms); },
                [&](IAsyncSteps& asi, ErrorCode) {
                  q->enqueue(1);
                  asi.success();
                });
      other.execute();
      b.drain();
      b.clock.advance(6ms);  // both timers are due in the same turn, that of `first` before or after the call
      b.drain();
    }
    b.drain();
    CHECK(next.seen == lines{"0:1"});
    CHECK(seen == (cancels ? lines{} : lines{"Timeout"}));
  }
}

TEST_CASE("rule 38: the error handler of the step runs when it has left the line") {
  bench b;
  numbers q;
  lines seen;
  steps::AsyncSteps first{b.loop};
  first.add([&](IAsyncSteps& asi) {
    asi.setTimeout(5ms);
    asi.await(q, [&](IAsyncSteps& handler, ErrorCode code) {
      seen.emplace_back(code);
      handler.add([](IAsyncSteps& wait) { wait.waitExternal(); });
    });
  });
  first.execute();
  b.drain();
  takers<numbers> next(b, q, 1);
  b.pass(6ms);
  CHECK(seen == lines{"Timeout"});
  q.enqueue(1);
  b.drain();
  CHECK(next.seen == lines{"0:1"});
  first.cancel();
}

TEST_CASE_TEMPLATE("rule 39: enqueue waits for room, and keeps its element until then", Flow, STEPS_FLOWS) {
  bench b;
  async::bounded_queue<std::unique_ptr<int>> q(2);
  int in = 0;
  Flow flow{b.loop};
  for (int i = 0; i < 4; ++i) flow.enqueue(q, std::make_unique<int>(i)).add([&](IAsyncSteps&) { ++in; });
  flow.execute();
  b.drain();
  CHECK(in == 2);
  for (int i = 0; i < 4; ++i) {
    std::unique_ptr<int> out;
    REQUIRE(q.dequeue(out));
    CHECK(*out == i);
    b.drain();
  }
  CHECK(in == 4);
}

TEST_CASE_TEMPLATE("rule 39: enqueue makes the element from its arguments, and raises what that throws", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  async::queue<std::string> texts;
  async::bounded_queue<picky> pickies(1);
  Flow flow{b.loop};
  flow.enqueue(texts, std::size_t{3}, 'x').enqueue(texts, "text");
  flow.add([&](IAsyncSteps& asi) { asi.enqueue(pickies, -1); }, noting_code(seen));
  flow.enqueue(pickies, 1);
  flow.add([&](IAsyncSteps& asi) { asi.enqueue(pickies, -2); }, noting_code(seen));
  flow.execute();
  b.drain();
  CHECK(texts.dequeue() == "xxx");
  CHECK(texts.dequeue() == "text");
  CHECK(seen == lines{"negative"});
  CHECK(pickies.dequeue()->number == 1);
  b.drain();
  CHECK(seen == lines{"negative", "negative"});  // thrown when it was called
  CHECK(pickies.empty());
}

TEST_CASE("rule 39: flows that wait for room are served in order, and one that ends enqueues nothing") {
  bench b;
  ring q(1);
  std::vector<std::unique_ptr<steps::AsyncSteps>> waiting;
  for (int i = 0; i < 50; ++i) {
    waiting.push_back(std::make_unique<steps::AsyncSteps>(b.loop));
    waiting.back()->enqueue(q, i);
    waiting.back()->execute();
  }
  b.drain();
  std::vector<int> seen, expected;
  for (int i = 0; i < 50; ++i) {
    if (i % 3 == 1) {
      waiting[static_cast<std::size_t>(i)]->cancel();
    } else {
      expected.push_back(i);
    }
  }
  for (int out = 0; q.dequeue(out); b.drain()) {
    seen.push_back(out);
    // The flow that has been called for this place ends before it looks: the next one gets it.
    if (out == 6) waiting[8]->cancel();
  }
  std::erase(expected, 8);
  CHECK(seen == expected);
}

TEST_CASE_TEMPLATE("rule 39: an unbounded queue never makes a flow wait, and results do not pass through", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  numbers q;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(5); }).enqueue(q, 1).add([](IAsyncSteps&, int) {}, noting_code(seen));
  flow.repeat(1000, [&](IAsyncSteps& asi, std::size_t) { asi.enqueue(q, 2); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"InternalError"});
  CHECK(q.approx_size() == 1001);
}

TEST_CASE_TEMPLATE("rule 38: branches await queues", Flow, STEPS_FLOWS) {
  bench b;
  ring q(1);
  int sum = 0;
  bool ended = false;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    auto& all = asi.parallel();
    all.add([&](IAsyncSteps& s) {
      s.repeat(100, [&](IAsyncSteps& one, std::size_t) { one.await(q).add([&](IAsyncSteps&, int v) { sum += v; }); });
    });
    all.repeat(100, [&](IAsyncSteps& s, std::size_t i) { s.enqueue(q, static_cast<int>(i)); });
    all.await(q);
    all.enqueue(q, 1000);
  });
  flow.add([&](IAsyncSteps&) { ended = true; });
  flow.execute();
  b.drain();
  CHECK(ended);
  CHECK(q.empty());
  CHECK(sum > 4000);
}

TEST_CASE("rule 38: a loop that is destroyed while a flow waits takes it out of the line") {
  numbers q;
  ring full(1);
  full.enqueue(1);
  {
    bench b;
    steps::AsyncSteps getter{b.loop}, putter{b.loop};
    getter.await(q);
    putter.enqueue(full, 2);
    getter.execute();
    putter.execute();
    b.drain();
  }
  {
    async::threadpool pool(2);
    std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
    for (int i = 0; i < 20; ++i) {
      flows.push_back(std::make_unique<steps::AsyncSteps>(pool));
      i % 2 == 0 ? flows.back()->await(q) : flows.back()->enqueue(full, 2);
      flows.back()->execute();
    }
    std::this_thread::yield();
  }
  CHECK(full.dequeue() == 1);
  q.enqueue(5);
  CHECK(q.dequeue() == 5);
  CHECK(full.dequeue() == std::nullopt);
}

TEST_CASE("rule 40: flows of a pool hand elements over, from threads and from other flows, once each") {
  for (const std::size_t workers : {1U, 2U, 4U}) {
    async::threadpool pool(workers);
    numbers in;
    ring out(3);
    const int count = static_cast<int>(testing::scale() * (testing::sanitized ? 1000 : 3000));
    constexpr int movers = 8;
    std::vector<std::future<void>> ends;
    for (int m = 0; m < movers; ++m) {
      ends.push_back(steps::post<void>(pool, [&](IAsyncSteps& asi) {
        asi.add(
            [&](IAsyncSteps& mover) {
              mover.loop([&](IAsyncSteps& one) {
                one.await(in).add([&](IAsyncSteps& next, int v) { next.enqueue(out, v); });
              });
            },
            [](IAsyncSteps& handler, ErrorCode code) {
              if (code == steps::errors::QueueClosed) handler.success();
            });
      }));
    }
    std::thread source([&] {
      for (int i = 1; i <= count; ++i) in.enqueue(i);
      in.close();
    });
    std::vector<int> seen(static_cast<std::size_t>(count) + 1);
    for (int i = 0; i < count; ++i) {
      int v = 0;
      REQUIRE(out.blocking_dequeue(v));
      ++seen[static_cast<std::size_t>(v)];
    }
    source.join();
    for (auto& end : ends) end.get();
    CHECK(out.empty());
    seen[0] = 1;
    CHECK(seen == std::vector<int>(seen.size(), 1));
  }
}

TEST_CASE("rule 40: an element passes through a thousand flows, there and back") {
  async::threadpool pool(2);
  constexpr std::size_t flows = 1000;
  std::vector<std::unique_ptr<numbers>> queues;
  for (std::size_t i = 0; i <= flows; ++i) queues.push_back(std::make_unique<numbers>());
  std::vector<std::future<void>> ends;
  for (std::size_t i = 0; i < flows; ++i) {
    ends.push_back(steps::post<void>(pool, [from = queues[i].get(), to = queues[i + 1].get()](IAsyncSteps& asi) {
      asi.repeat(3, [from, to](IAsyncSteps& one, std::size_t) {
        one.await(*from).add([to](IAsyncSteps& next, int v) { next.enqueue(*to, v + 1); });
      });
    }));
  }
  for (int i = 0; i < 3; ++i) {
    queues.front()->enqueue(i);
    int out = 0;
    REQUIRE(queues.back()->blocking_dequeue(out));
    CHECK(out == i + 1000);
  }
  for (auto& end : ends) end.get();
}

TEST_CASE("rule 40: no element is lost or doubled by cancels and timeouts that meet it") {
  const std::size_t rounds = testing::scale() * (testing::sanitized ? 300 : 1000);
  async::threadpool pool(2);
  std::size_t met = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    numbers q;
    std::atomic<int> taken{0};
    {
      std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
      for (int i = 0; i < 3; ++i) {
        flows.push_back(std::make_unique<steps::AsyncSteps>(pool));
        flows.back()->add([&, i](IAsyncSteps& asi) {
          if (i == 1) asi.setTimeout(std::chrono::microseconds(20 + round % 50));
          asi.await(q).add([&](IAsyncSteps&, int) { taken.fetch_add(1, std::memory_order_relaxed); });
        });
        flows.back()->state().set_unhandled_error([](ErrorCode) {});
        flows.back()->execute();
      }
      for (std::size_t spin = 0; spin < round % 64; ++spin) std::this_thread::yield();
      q.enqueue(1);
      flows[0]->cancel();
      q.enqueue(2);
      if (round % 2 == 0) {  // the last flow stays, so that an element that the others have not taken reaches it
        while (!*flows[2] && taken.load(std::memory_order_relaxed) != 2) std::this_thread::yield();
      }
    }
    int left = 0;
    while (q.dequeue()) ++left;
    REQUIRE(taken.load() + left == 2);
    met += static_cast<std::size_t>(left);
  }
  MESSAGE("elements that their flow has not taken: ", met);
}

TEST_CASE("rule 40: a flow on another loop that ends when it has been called calls the next") {
  const std::size_t rounds = testing::scale() * (testing::sanitized ? 200 : 2000);
  for (std::size_t round = 0; round < rounds; ++round) {
    async::event_loop left, right;
    ring q(1);
    int got = 0;
    steps::AsyncSteps first{left}, second{right};
    first.await(q).add([&](IAsyncSteps&, int v) { got += v; });
    second.await(q).add([&](IAsyncSteps&, int v) { got += v; });
    first.execute();
    left.iterate();
    second.execute();
    right.iterate();
    std::thread([&q] { q.enqueue(1); }).join();  // calls `first`, by a message
    if (round % 2 == 0) {
      first.cancel();
    } else {
      left.iterate();
      CHECK(got == 1);
      std::thread([&q] { q.enqueue(1); }).join();
    }
    left.iterate();
    right.iterate();
    right.iterate();
    REQUIRE(got == (round % 2 == 0 ? 1 : 2));
  }
}

TEST_CASE("rule 40: stop() of a pool amid waits for queues ends each of its flows and tasks, and doubles no element") {
  std::size_t passed_on = 0, cancelled = 0;
  for (std::size_t round = testing::rounds(500); round != 0; --round) {
    numbers q;
    ring full(1);
    full.enqueue(-1);
    std::vector<async::future<int>> ends;
    int put = 0;
    {
      async::threadpool pool(1 + round % 3);
      for (int i = 0; i < 8; ++i) {
        ends.push_back(steps::post<int>(pool, [&q](IAsyncSteps& asi) { asi.await(q); }));
        ends.push_back(steps::post<int>(pool, [&full](IAsyncSteps& asi) {
          asi.enqueue(full, -1);  // has no room until the end
        }));
        ends.push_back(steps::post<int>(pool, [&q](IAsyncSteps& asi) {
          auto& race = asi.race();
          race.add([&q](IAsyncSteps& branch) { branch.await(q); });
          race.add([](IAsyncSteps& branch) { branch.waitExternal(); });
        }));
      }
      ends.push_back(pool.post([&q] {
        int got = -1;
        async::select(async::on_pop(q, [&got](int n) { got = n; }), async::after(200us));
        return got;
      }));
      std::thread feeder([&] {
        for (; put < 12; ++put) {
          q.enqueue(put);
          if (put % 4 == 0) std::this_thread::sleep_for(20us);
        }
      });
      std::this_thread::sleep_for(std::chrono::microseconds(round % 8 * 30));
      pool.stop();
      feeder.join();
    }
    std::vector<int> times_seen(12);
    for (auto& end : ends) {
      REQUIRE(end.is_ready());
      try {
        const int n = end.get();
        if (n >= 0) ++times_seen[static_cast<std::size_t>(n)];
        ++passed_on;
      } catch (const std::future_error& e) {
        CHECK(e.code() == std::future_errc::broken_promise);
        ++cancelled;
      }
    }
    for (int left = 0; q.dequeue(left);) ++times_seen[static_cast<std::size_t>(left)];
    for (const int times : times_seen) CHECK(times <= 1);
    int in_ring = 0, n = 0;
    while (full.dequeue(n)) ++in_ring;
    CHECK(in_ring == 1);
  }
  CHECK(passed_on != 0);
  CHECK(cancelled != 0);
}
