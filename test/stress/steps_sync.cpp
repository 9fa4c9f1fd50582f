// SPDX-License-Identifier: BSL-1.0
//
// Flows of several loops, each with its own thread, meet at one Mutex, Throttle or Limiter. Each enters once or is
// refused once, and never more are inside than allowed. A flow that is cancelled, times out or loses its loop gives its
// place on.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "async/event_loop.hpp"
#include "async/threadpool.hpp"
#include "steps/asynctool.hpp"
#include "steps/steps.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

/// A section that counts the flows inside. A flow that is alone touches `unguarded`, which ThreadSanitizer checks.
struct section {
  explicit section(int most) : limit(most) {}
  void enter() {
    if (inside.fetch_add(1) >= limit) ++wrong;
    if (limit == 1) ++unguarded;
    ++entered;
  }
  void leave() {
    if (limit == 1) ++unguarded;
    inside.fetch_sub(1);
  }
  const int limit;
  std::atomic<int> inside{0};
  std::atomic<int> wrong{0};
  std::atomic<std::size_t> entered{0};
  std::size_t unguarded = 0;
};

/// Leaves the section however the step ends.
struct stay {
  explicit stay(section& s) : where(s) { where.enter(); }
  stay(const stay&) = delete;
  stay& operator=(const stay&) = delete;
  ~stay() { where.leave(); }
  section& where;
};

/// Counts of the ends of flows.
struct outcomes {
  std::atomic<std::size_t> passed{0};
  std::atomic<std::size_t> refused{0};
  std::atomic<std::size_t> failed{0};
  std::atomic<std::size_t> cancelled{0};

  std::size_t sum() const { return passed + refused + failed + cancelled; }
};

/// One pass through the section, in a random way.
void pass(IAsyncSteps& asi, steps::ISync& object, section& where, unsigned lot) {
  asi.sync(object, [&where, lot, &object](IAsyncSteps& in) {
    in.stack<stay>(where);
    switch (lot % 8) {
      case 0:
        in.add([](IAsyncSteps& sub) { sub.relinquish(); });
        break;
      case 1:
        in.add([](IAsyncSteps& sub) {
          auto done = sub.completion<>();
          sub.tool().post([done] { done.success(); });
        });
        break;
      case 2:
        in.add([&object](IAsyncSteps& sub) { sub.sync(object, [](IAsyncSteps&) {}); });
        break;
      case 3:
        in.errorNoThrow("Intended");
        break;
      default:
        in.add([](IAsyncSteps&) {});
    }
  });
}

/// `threads` loops with `flows` flows each that pass `rounds` times.
template <class Flow>
void crowd(steps::ISync& object, section& where, std::size_t threads, std::size_t flows, std::size_t rounds,
           outcomes& result) {
  testing::run_threads(threads, [&](std::size_t index) {
    std::minstd_rand engine(static_cast<unsigned>(testing::seed() + index));
    const auto random = [&engine] { return static_cast<unsigned>(engine() >> 4); };
    async::event_loop loop;
    std::size_t left = flows;
    std::vector<std::unique_ptr<Flow>> all;
    for (std::size_t i = 0; i < flows; ++i) {
      all.push_back(std::make_unique<Flow>(loop));
      all.back()->repeat(rounds, [&](IAsyncSteps& asi, std::size_t) {
        const unsigned lot = random();
        asi.add(
            [&, lot](IAsyncSteps& inner) {
              pass(inner, object, where, lot);
              inner.add([&](IAsyncSteps&) { ++result.passed; });
            },
            [&](IAsyncSteps& inner, ErrorCode code) {
              ++(code == "Intended" ? result.failed : result.refused);
              inner.success();
            });
      });
      all.back()->add([&](IAsyncSteps&) {
        if (--left == 0) loop.stop();
      });
      all.back()->execute();
    }
    loop.run();
  });
}

using nitro = steps::NitroSteps<steps::nitro::MaxSteps<32>, steps::nitro::ArenaBytes<4096>>;

}  // namespace

TEST_CASE_TEMPLATE("flows of several loops pass a mutex one at a time, each once", Flow, steps::AsyncSteps, nitro) {
  const std::size_t flows = 20;
  const std::size_t rounds = testing::rounds(5000);
  for (const std::size_t threads : {2U, 4U}) {
    steps::Mutex mutex;
    section where(1);
    outcomes result;
    crowd<Flow>(mutex, where, threads, flows, rounds, result);
    CHECK(where.wrong == 0);
    CHECK(where.inside == 0);
    CHECK(where.entered == threads * flows * rounds);
    CHECK(where.unguarded == 2 * where.entered);
    CHECK(result.passed + result.failed == threads * flows * rounds);
    CHECK(result.refused == 0);
  }
}

TEST_CASE("a mutex for three with a queue for five refuses the others, and loses no flow") {
  const std::size_t flows = 20;
  const std::size_t rounds = testing::rounds(5000);
  steps::Mutex mutex(3, 5);
  section where(3);
  outcomes result;
  crowd<steps::AsyncSteps>(mutex, where, 3, flows, rounds, result);
  CHECK(where.wrong == 0);
  CHECK(where.inside == 0);
  CHECK(result.sum() == 3 * flows * rounds);
  CHECK(where.entered == result.passed + result.failed);
  CHECK(result.refused > 0);
}

TEST_CASE("flows that are cancelled or time out while they wait for a mutex leave it usable") {
  const std::size_t rounds = testing::rounds(30000);
  steps::Mutex mutex;
  section where(1);
  outcomes result;
  testing::run_threads(3, [&](std::size_t index) {
    std::minstd_rand engine(static_cast<unsigned>(testing::seed() + index));
    const auto random = [&engine] { return static_cast<unsigned>(engine() >> 4); };
    async::event_loop loop;
    for (std::size_t round = 0; round < rounds; ++round) {
      std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
      for (int i = 0; i < 4; ++i) {
        flows.push_back(std::make_unique<steps::AsyncSteps>(loop));
        const unsigned lot = random();
        flows.back()->add(
            [&, lot](IAsyncSteps& asi) {
              if (lot / 8 % 4 == 0) asi.setTimeout(std::chrono::microseconds(lot % 200));
              pass(asi, mutex, where, lot);
              asi.add([&](IAsyncSteps&) { ++result.passed; });
            },
            [&](IAsyncSteps& asi, ErrorCode) {
              ++result.failed;
              asi.success();
            });
        flows.back()->execute();
      }
      for (unsigned turns = random() % 3; turns != 0; --turns) static_cast<void>(loop.iterate());
      // Some are destroyed on their loop while they wait, or when they have just been let in by another loop's flow.
      if (random() % 2 == 0) {
        flows.erase(flows.begin() + static_cast<std::ptrdiff_t>(random() % 4));
        for (unsigned turns = random() % 3; turns != 0; --turns) static_cast<void>(loop.iterate());
      }
      flows.clear();
    }
  });
  CHECK(where.wrong == 0);
  CHECK(where.inside == 0);
  // No flow is left: the mutex is free.
  async::event_loop loop;
  steps::AsyncSteps last(loop);
  bool in = false;
  last.sync(mutex, [&](IAsyncSteps&) { in = true; });
  last.execute();
  static_cast<void>(loop.iterate());
  CHECK(in);
}

namespace {

/// True when exactly one flow at a time gets into the mutex, which no other flow uses.
bool has_one_place(steps::Mutex& mutex) {
  async::event_loop loop;
  steps::AsyncSteps first(loop);
  steps::AsyncSteps second(loop);
  int in = 0;
  for (steps::AsyncSteps* flow : {&first, &second}) {
    flow->sync(mutex, [&](IAsyncSteps& asi) {
      ++in;
      asi.waitExternal();
    });
    flow->execute();
  }
  for (int turn = 0; turn < 3; ++turn) static_cast<void>(loop.iterate());
  return in == 1;
}

/// A flow waits for the mutex, and `end(loop, flow)` is called on its thread when another thread is letting it in.
template <class End>
void meet(End end) {
  const std::size_t rounds = testing::rounds(3000);
  steps::Mutex mutex;
  std::atomic<std::size_t> step{0};
  const auto reach = [&step](std::size_t number) {
    ++step;
    while (step < number) std::this_thread::yield();
  };
  std::size_t wrong = 0;
  testing::run_threads(2, [&](std::size_t index) {
    std::minstd_rand random(static_cast<unsigned>(testing::seed() + index));
    for (std::size_t round = 0; round < rounds; ++round) {
      auto loop = std::make_unique<async::event_loop>();
      auto flow = std::make_unique<steps::AsyncSteps>(*loop);
      flow->sync(mutex, [](IAsyncSteps& asi) { asi.waitExternal(); });
      if (index == 1) reach(round * 8 + 2);
      flow->execute();
      static_cast<void>(loop->iterate());
      if (index == 0) reach(round * 8 + 2);  // it is inside
      reach(round * 8 + 4);                  // the other one waits
      if (index == 1) {
        for (auto pauses = random() % 64; pauses != 0; --pauses) step.load();
        end(loop, flow);
      } else {
        for (auto pauses = random() % 64; pauses != 0; --pauses) step.load();
        flow->cancel();
      }
      flow.reset();
      reach(round * 8 + 6);
      if (index == 0 && !has_one_place(mutex)) ++wrong;
      reach(round * 8 + 8);
    }
  });
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("a loop that ends as its flow is let in loses no place and gives none twice") {
  meet([](std::unique_ptr<async::event_loop>& loop, std::unique_ptr<steps::AsyncSteps>&) { loop.reset(); });
}

TEST_CASE("a flow that is destroyed as it is let in loses no place and gives none twice") {
  meet([](std::unique_ptr<async::event_loop>&, std::unique_ptr<steps::AsyncSteps>& flow) { flow.reset(); });
}

TEST_CASE("flows of several loops pass a throttle, never more in a period than it lets in") {
  const std::size_t flows = 10;
  const std::size_t rounds = testing::rounds(20);
  constexpr std::size_t most = 50;
  constexpr auto period = 2ms;
  steps::Throttle throttle(most, period, 1000);
  std::mutex guard;
  std::vector<std::chrono::steady_clock::time_point> times;
  testing::run_threads(3, [&](std::size_t) {
    async::event_loop loop;
    std::size_t left = flows;
    std::vector<std::unique_ptr<steps::AsyncSteps>> all;
    for (std::size_t i = 0; i < flows; ++i) {
      all.push_back(std::make_unique<steps::AsyncSteps>(loop));
      all.back()->repeat(rounds, [&](IAsyncSteps& asi, std::size_t) {
        asi.sync(throttle, [&](IAsyncSteps&) {
          const std::lock_guard lock(guard);
          times.push_back(std::chrono::steady_clock::now());
        });
      });
      all.back()->add([&](IAsyncSteps&) {
        if (--left == 0) loop.stop();
      });
      all.back()->execute();
    }
    const auto start = std::chrono::steady_clock::now();
    loop.run();
    const auto needed = std::chrono::steady_clock::now() - start;
    CHECK(needed < 60s);
  });
  CHECK(times.size() == 3 * flows * rounds);
  // Periods follow each other, so the last entry is in the period that the number of entries asks for, or a later one.
  const auto [first, last] = std::minmax_element(times.begin(), times.end());
  CHECK(*last - *first >= period * static_cast<int>((times.size() - 1) / most) - period);
}

TEST_CASE("flows on a pool time out at a throttle or limiter as they are let in: none enters too early, none is lost") {
  const std::size_t flows = testing::rounds(4000);
  constexpr std::size_t most = 20;
  constexpr auto period = 1ms;
  steps::Throttle throttle(most, period);
  steps::Limiter limiter({.concurrent = 100, .rate = most, .period = period});
  for (steps::ISync* object : {static_cast<steps::ISync*>(&throttle), static_cast<steps::ISync*>(&limiter)}) {
    async::threadpool pool(3);
    std::mutex guard;
    std::vector<std::chrono::steady_clock::time_point> times;
    std::atomic<std::size_t> late{0};
    std::minstd_rand random(static_cast<unsigned>(testing::seed()));
    std::vector<async::future<void>> ends;
    for (std::size_t i = 0; i < flows; ++i) {
      const bool may_end = i % 2 == 0;
      const auto limit = std::chrono::microseconds(random() % 4000);
      ends.push_back(steps::post(pool, [&, may_end, limit](IAsyncSteps& flow) {
        flow.add(
            [&, may_end, limit](IAsyncSteps& asi) {
              if (may_end) asi.setTimeout(limit);
              asi.sync(*object, [&](IAsyncSteps&) {
                const std::lock_guard lock(guard);
                times.push_back(std::chrono::steady_clock::now());
              });
            },
            [&](IAsyncSteps& asi, ErrorCode) {
              ++late;
              asi.success();
            });
      }));
    }
    for (auto& end : ends) end.get();
    CHECK(times.size() + late == flows);
    CHECK(times.size() >= flows / 2);
    const auto [first, last] = std::minmax_element(times.begin(), times.end());
    CHECK(*last - *first >= period * static_cast<int>((times.size() - 1) / most) - period);
  }
}

TEST_CASE("flows on a pool are cancelled at random moments as they wait for a throttle or limiter: none is lost") {
  const std::size_t rounds = testing::rounds(1000);
  constexpr auto period = 300us;
  async::threadpool pool(2);
  steps::Throttle throttle(2, period);
  steps::Limiter limiter({.concurrent = 9, .rate = 2, .period = period});
  for (steps::ISync* object : {static_cast<steps::ISync*>(&throttle), static_cast<steps::ISync*>(&limiter)}) {
    std::atomic<std::size_t> lost{0};
    std::atomic<std::size_t> entered{0};
    std::atomic<std::size_t> passed{0};
    testing::run_threads(2, [&](std::size_t index) {
      std::minstd_rand engine(static_cast<unsigned>(testing::seed() + index));
      const auto random = [&engine] { return static_cast<unsigned>(engine() >> 4); };
      for (std::size_t round = 0; round < rounds; ++round) {
        std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
        std::vector<async::future<void>> ends;
        for (int i = 0; i < 8; ++i) {
          flows.push_back(std::make_unique<steps::AsyncSteps>(pool));
          flows.back()->sync(*object, [&entered](IAsyncSteps&) { ++entered; });
          ends.push_back(flows.back()->promise());
        }
        for (unsigned left = 1 + random() % 6; left != 0; --left) {
          for (unsigned pauses = random() % 4096; pauses != 0; --pauses) entered.load();
          const unsigned which = random() % 8;
          if (flows[which] == nullptr) continue;
          if (random() % 2 == 0) {
            flows[which]->cancel();
          } else {
            flows[which].reset();
          }
        }
        for (auto& end : ends) {
          if (end.wait_for(20s) != std::future_status::ready) {
            ++lost;
            continue;
          }
          try {
            end.get();
            ++passed;
          } catch (const std::future_error&) {  // cancelled
          }
        }
        if (lost != 0) return;
      }
    });
    CHECK(lost == 0);
    CHECK(passed <= entered);
    CHECK(passed >= 2 * rounds * 2);  // at most six of eight are cancelled
  }
}

TEST_CASE("flows of several loops pass a limiter: those inside, those in a period, those refused") {
  const std::size_t flows = 12;
  const std::size_t rounds = testing::rounds(2000);
  steps::Limiter::Params params;
  params.concurrent = 2;
  params.max_queue = 8;
  params.rate = 100;
  params.period = 1ms;
  params.burst = 2;
  steps::Limiter limiter(params);
  section where(2);
  outcomes result;
  crowd<steps::AsyncSteps>(limiter, where, 3, flows, rounds, result);
  CHECK(where.wrong == 0);
  CHECK(where.inside == 0);
  CHECK(result.sum() == 3 * flows * rounds);
  CHECK(result.refused > 0);
  CHECK(result.passed > 0);
}
