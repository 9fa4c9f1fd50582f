// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "async/queue.hpp"
#include "steps/steps.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

// Flows on a pool under all that can happen to them at once: each must end exactly once.

using async::threadpool;
using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::rounds;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

/// A thread that ends the wait of each token that it gets.
class completer {
 public:
  completer()
      : thread_([this] {
          steps::completion<int> token;
          while (!end_ || !tokens_.empty()) {
            tokens_.dequeue(token) ? static_cast<void>(token.success(1)) : std::this_thread::yield();
          }
        }) {}
  ~completer() {
    end_ = true;
    thread_.join();
  }
  void add(steps::completion<int> token) { tokens_.enqueue(std::move(token)); }

 private:
  async::queue<steps::completion<int>> tokens_;
  std::atomic<bool> end_{false};
  std::thread thread_;
};

/// Resizes a pool all the time; leaves it at `last`.
class resizer {
 public:
  resizer(threadpool& pool, std::size_t most, std::size_t last)
      : thread_([this, &pool, most, last] {
          std::minstd_rand random(static_cast<unsigned>(testing::seed()));
          while (!end_) {
            pool.configurepool(random() % (most + 1));
            ++count_;
            for (unsigned i = random() % 8; i != 0; --i) std::this_thread::yield();
          }
          pool.configurepool(last);
        }) {}
  ~resizer() { stop(); }
  int stop() {
    end_ = true;
    if (thread_.joinable()) thread_.join();
    return count_;
  }

 private:
  std::atomic<bool> end_{false};
  int count_ = 0;
  std::thread thread_;
};

/// Steps of all kinds; passes 1 on.
void live(IAsyncSteps& asi, unsigned kind, threadpool& pool, completer& outside, steps::Mutex& mutex) {
  asi.relinquish();
  switch (kind % 6) {
    case 0:
      asi.add([kind](IAsyncSteps& step) { step.setTimeout(std::chrono::microseconds(kind % 400)); },
              [](IAsyncSteps& step, ErrorCode code) {
                if (code == steps::errors::Timeout) step.success(1);
              });
      break;
    case 1:
      asi.add([&outside](IAsyncSteps& step) { outside.add(step.completion<int>()); });
      break;
    case 2:
      asi.sync(mutex, [&outside](IAsyncSteps& section) {
        section.relinquish();
        section.add([&outside](IAsyncSteps& step) { outside.add(step.completion<int>()); });
      });
      break;
    case 3:
      asi.await(pool, [] { return 1; });
      break;
    case 4: {
      auto& branches = asi.parallel();
      for (unsigned i = 0; i < 4; ++i) {
        branches.add([&, i](IAsyncSteps& branch) { live(branch, i, pool, outside, mutex); });
      }
      asi.add([](IAsyncSteps& step) { step.success(1); });
      break;
    }
    default: {
      auto& branches = asi.parallel([](IAsyncSteps& handler, ErrorCode code) {
        if (code == "Expected") handler.success(1);
      });
      for (unsigned i = 0; i < 4; ++i) {
        branches.add([&, i](IAsyncSteps& branch) {
          live(branch, i, pool, outside, mutex);
          if (i == 2) branch.add([](IAsyncSteps& step) { step.error("Expected"); });
        });
      }
    }
  }
}

}  // namespace

TEST_CASE("flows of all kinds end while the pool is resized") {
  threadpool pool(2);
  completer outside;
  steps::Mutex mutex;
  resizer changes(pool, 4, 2);
  std::size_t ended = 0;
  const std::size_t waves = rounds(20);
  constexpr unsigned wave = 1'500;
  for (std::size_t w = 0; w < waves; ++w) {
    std::vector<std::future<int>> results;
    for (unsigned i = 0; i < wave; ++i) {
      results.push_back(steps::post<int>(pool, [&, i, h = held()](IAsyncSteps& asi) {
        live(asi, i, pool, outside, mutex);
        asi.add([](IAsyncSteps& step, int one) { step.success(one); });
      }));
    }
    for (auto& result : results) ended += static_cast<std::size_t>(result.get());
  }
  CHECK(ended == waves * wave);
  std::printf("figures: %zu flows, %d resizes\n", ended, changes.stop());
  pool.wait_idle();
  CHECK(held::live() == 0);
}

TEST_CASE("flows that are cancelled and destroyed while others end their waits end once each") {
  threadpool pool(3);
  completer outside;
  resizer changes(pool, 4, 2);
  std::minstd_rand random(static_cast<unsigned>(testing::seed()));
  std::atomic<std::size_t> begun{0}, ended{0}, cancelled{0};
  const std::size_t count = rounds(20'000);
  std::vector<std::unique_ptr<steps::AsyncSteps>> flows(64);
  for (std::size_t i = 0; i < count; ++i) {
    auto& flow = flows[random() % flows.size()];
    flow = std::make_unique<steps::AsyncSteps>(pool);  // destroys another one
    flow->add([&, branched = i % 4 == 0](IAsyncSteps& asi) {
      ++begun;
      asi.setCancel([&] { ++cancelled; });
      asi.add([&, branched, h = held()](IAsyncSteps& step) {
        if (!branched) return outside.add(step.completion<int>());
        auto& branches = step.parallel();
        for (int k = 0; k < 3; ++k) {
          branches.add([&, inner = held()](IAsyncSteps& branch) { outside.add(branch.completion<int>()); });
        }
      });
      asi.add([&](IAsyncSteps&) { ++ended; });
    });
    flow->execute();
    if (random() % 3 == 0) flow->cancel();
    if (random() % 5 == 0) flows[random() % flows.size()].reset();
  }
  changes.stop();
  pool.wait_idle();  // the remaining ones have begun
  flows.clear();
  CHECK(begun == ended + cancelled);
  CHECK(begun > 0);
  pool.wait_idle();
  CHECK(held::live() == 0);
  std::printf("figures: %zu flows\n", count);
}

TEST_CASE("a pool may be destroyed at any moment: every flow has an end, every future is ready") {
  completer outside;
  steps::Mutex mutex;
  std::minstd_rand random(static_cast<unsigned>(testing::seed()));
  std::size_t values = 0, broken = 0;
  const std::size_t pools = rounds(400);
  constexpr unsigned flows = 40;
  for (std::size_t p = 0; p < pools; ++p) {
    std::vector<std::future<int>> results;
    {
      threadpool pool(random() % 3);
      for (unsigned i = 0; i < flows; ++i) {
        results.push_back(steps::post<int>(pool, [&, i, h = held()](IAsyncSteps& asi) {
          live(asi, i, pool, outside, mutex);
          if (i % 10 == 9) asi.add([inner = held()](IAsyncSteps& step) { step.waitExternal(); });
          asi.add([](IAsyncSteps& step) { step.success(1); });
        }));
      }
      for (unsigned i = random() % 64; i != 0; --i) std::this_thread::yield();
    }
    for (auto& result : results) {
      REQUIRE(result.wait_for(0s) == std::future_status::ready);
      try {
        values += static_cast<std::size_t>(result.get());
      } catch (const std::future_error&) {
        ++broken;
      } catch (const steps::Error& e) {  // a call of await() on a pool that refuses
        CHECK(std::string(e.code().c_str()) == async::stopped().what());
        ++broken;
      }
    }
    CHECK(held::live() == 0);
  }
  CHECK(values + broken == pools * flows);
  CHECK(broken >= pools * flows / 10);
  std::printf("figures: %zu pools, %zu flows\n", pools, values + broken);
}

TEST_CASE("timeouts of the parent, errors of branches and cancels race; all branches have ended at the end") {
  threadpool pool(3);
  std::atomic<int> alive{0};
  std::size_t by_error = 0, by_timeout = 0, by_cancel = 0;
  const std::size_t count = rounds(3'000);
  for (std::size_t i = 0; i < count; ++i) {
    steps::AsyncSteps flow{pool};
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(std::chrono::microseconds(i % 200));
          auto& branches = asi.parallel();
          for (unsigned k = 0; k < 6; ++k) {
            branches.add([&, k](IAsyncSteps& branch) {
              branch.add([k](IAsyncSteps& step) { step.setTimeout(std::chrono::microseconds(k * 30)); },
                         [](IAsyncSteps& step, ErrorCode) { step.success(); });
              branch.add([&, k](IAsyncSteps& step) {
                if (k == 3) step.errorNoThrow("Three");
                if (k == 3) return;
                ++alive;
                step.setCancel([&alive] { --alive; });
              });
            });
          }
        },
        [&](IAsyncSteps& asi, ErrorCode code) {
          if (alive != 0) asi.error("Alive");
          asi.success(code == "Three" ? 3 : code == steps::errors::Timeout ? 4 : 0);
        });
    auto result = flow.promise<int>();
    if (i % 3 == 0) {
      for (std::size_t k = i % 50; k != 0; --k) std::this_thread::yield();
      flow.cancel();
    }
    try {
      const int how = result.get();
      CHECK((how == 3 || how == 4));
      ++(how == 3 ? by_error : by_timeout);
    } catch (const std::future_error&) {
      ++by_cancel;
    }
    CHECK(alive == 0);
  }
  CHECK(by_error + by_timeout + by_cancel == count);
}

TEST_CASE("flows on different loops that lock two mutexes in both orders by turns do not block each other's loops") {
  threadpool pool(4);
  steps::Mutex first, second;
  std::atomic<int> inside{0}, passed{0};
  const std::size_t count = rounds(5'000);
  std::vector<std::future<void>> done;
  for (std::size_t i = 0; i < count; ++i) {
    done.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
      asi.sync(first, [&](IAsyncSteps& a) {
        a.relinquish();
        a.sync(second, [&](IAsyncSteps& b) {
          if (++inside != 1) b.error("Shared");
          b.relinquish();
          b.add([&](IAsyncSteps&) {
            --inside;
            ++passed;
          });
        });
      });
      asi.sync(second, [](IAsyncSteps& b) { b.relinquish(); });
    }));
  }
  for (auto& d : done) d.get();
  CHECK(passed == static_cast<int>(count));
}

TEST_CASE("posted flows that two threads cancel at any time end once each, and release what they hold") {
  threadpool pool(3);
  std::atomic<int> open{0};
  std::size_t values = 0, broken = 0, dropped = 0;
  const std::size_t waves = rounds(40);
  constexpr std::size_t wave = 300;
  for (std::size_t w = 0; w < waves; ++w) {
    std::vector<async::shared_future<int>> ends;
    for (std::size_t i = 0; i < wave; ++i) {
      ends.emplace_back(steps::post<int>(pool, [&open, i, h = held()](IAsyncSteps& asi) {
        asi.add(
            [&open, i](IAsyncSteps& step) {
              ++open;
              step.setCancel([&open] { --open; });
              step.setTimeout(std::chrono::microseconds(i % 50));
            },
            [](IAsyncSteps& step, ErrorCode) { step.success(); });
        if (i % 2 == 0) asi.add([](IAsyncSteps& step) { step.relinquish(); });
        asi.add([](IAsyncSteps& step) { step.success(1); });
      }));
    }
    std::size_t there = 0;
    std::thread other([&there, &ends] {
      for (std::size_t i = 0; i < wave; i += 2) there += ends[i].cancel() ? 1U : 0U;
    });
    for (std::size_t i = 0; i < wave; i += 3) dropped += ends[wave - 1 - i].cancel() ? 1U : 0U;
    other.join();
    dropped += there;
    for (auto& end : ends) {
      try {
        values += static_cast<std::size_t>(end.get());
      } catch (const std::future_error&) {
        ++broken;
      }
    }
    CHECK(open == 0);
  }
  CHECK(values + broken == waves * wave);
  CHECK(broken >= dropped);
  std::printf("figures: %zu flows ended, %zu cancelled, %zu before their start\n", values, broken, dropped);
  pool.wait_idle();
  CHECK(held::live() == 0);
}

TEST_CASE("a posted flow is cancelled while its pool stops") {
  for (std::size_t i = 0; i < rounds(500); ++i) {
    std::vector<async::shared_future<void>> ends;
    auto pool = std::make_unique<threadpool>(2);
    for (int k = 0; k < 8; ++k) {
      ends.emplace_back(steps::post(*pool, [h = held()](IAsyncSteps& asi) { asi.waitExternal(); }));
    }
    std::thread canceller([&ends] {
      for (auto& end : ends) static_cast<void>(end.cancel());
    });
    pool.reset();
    canceller.join();
    for (auto& end : ends) CHECK_THROWS_AS(end.get(), std::future_error);
    CHECK(held::live() == 0);
  }
}
