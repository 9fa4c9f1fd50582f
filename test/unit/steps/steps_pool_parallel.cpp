// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "steps/steps.hpp"
#include "support/live_count.hpp"

// parallel() of flows on a pool: branches on several threads. Rules 25, 27 and 28 of steps/RULES.md.

using async::threadpool;
using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

/// Waits until `count` threads are here at the same time.
void meet(std::atomic<int>& missing) {
  --missing;
  while (missing > 0) std::this_thread::yield();
}

/// A value that looks into the state whenever it is copied or moved.
struct curious {
  curious(IAsyncSteps& asi, int value) : of(&asi), number(value) {}
  curious(const curious& other) : of(other.of), number(other.number) { look(); }
  curious(curious&& other) : of(other.of), number(other.number) { look(); }
  ~curious() = default;
  curious& operator=(const curious&) = delete;
  curious& operator=(curious&&) = delete;

  void look() const { CHECK(of->state<int>("before") == 1); }

  IAsyncSteps* of;
  int number;
};

}  // namespace

TEST_CASE("branches run at the same time on several workers, each on one loop") {
  threadpool pool(3);
  std::atomic<int> missing{3};
  std::mutex mutex;
  std::set<async::event_loop*> loops;
  bool after = false;
  auto done = steps::post<int>(pool, [&](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 3; ++i) {
      branches.add([&](IAsyncSteps& branch) {
        async::event_loop* const loop = &branch.tool();
        meet(missing);  // never ends unless all three run at the same time
        branch.add([](IAsyncSteps& step) { step.setTimeout(1ms); },
                   [](IAsyncSteps& step, ErrorCode) { step.success(); });
        branch.add([&, loop](IAsyncSteps& step) {
          const std::lock_guard lock(mutex);
          if (&step.tool() == loop && async::event_loop::current() == loop) loops.insert(loop);
        });
      });
    }
    asi.add([&](IAsyncSteps& step) {
      after = missing == 0;
      step.success(static_cast<int>(loops.size()));
    });
  });
  CHECK(done.get() == 3);
  CHECK(after);
}

TEST_CASE("no branch, one branch, thousands of branches, and branches that add branches") {
  threadpool pool(2);
  for (const int count : {0, 1, 2, 5'000}) {
    std::atomic<int> ran{0};
    const int sum = steps::post<int>(pool, [&](IAsyncSteps& asi) {
                      auto& branches = asi.parallel();
                      for (int i = 0; i < count; ++i) {
                        branches.add([&, h = held()](IAsyncSteps&) { ++ran; });
                      }
                      asi.add([&](IAsyncSteps& step) { step.success(ran.load()); });
                    }).get();
    CHECK(sum == count);
  }
  std::atomic<int> leaves{0};
  const std::function<void(IAsyncSteps&, int)> grow = [&](IAsyncSteps& asi, int depth) {
    if (depth == 0) {
      ++leaves;
      return;
    }
    auto& branches = asi.parallel();
    for (int i = 0; i < 3; ++i) branches.add([&grow, depth](IAsyncSteps& branch) { grow(branch, depth - 1); });
  };
  steps::post(pool, [&](IAsyncSteps& asi) { grow(asi, 6); }).get();
  CHECK(leaves == 729);
  pool.wait_idle();
  CHECK(held::live() == 0);
}

TEST_CASE("branches share state(), and look it up at the same time") {
  threadpool pool(4);
  const int distinct = steps::post<int>(pool, [](IAsyncSteps& asi) {
                         asi.state()["before"] = 1;
                         auto& branches = asi.parallel();
                         for (int i = 0; i < 200; ++i) {
                           branches.add([i](IAsyncSteps& branch) {
                             for (int k = 0; k < 20; ++k) {
                               branch.state<int>("key " + std::to_string(i) + "/" + std::to_string(k), i);
                               branch.state<std::string>("common " + std::to_string(k), "made by one of them");
                               if (branch.state<int>("before") != 1) branch.error("Lost");
                             }
                           });
                         }
                         asi.add([](IAsyncSteps& step) {
                           int found = 0;
                           for (int i = 0; i < 200; ++i) {
                             for (int k = 0; k < 20; ++k) {
                               const std::string key = "key " + std::to_string(i) + "/" + std::to_string(k);
                               if (step.state().contains(key) && step.state<int>(key) == i) ++found;
                             }
                           }
                           step.success(found);
                         });
                       }).get();
  CHECK(distinct == 4000);
}

TEST_CASE("a value may look into the state of branches while it is kept there") {
  threadpool pool(2);
  const int kept = steps::post<int>(pool, [](IAsyncSteps& asi) {
                     asi.state()["before"] = 1;
                     auto& branches = asi.parallel();
                     for (int i = 0; i < 8; ++i) {
                       branches.add([](IAsyncSteps& branch) {
                         if (branch.state("kept", curious(branch, 7)).number != 7) branch.error("Lost");
                       });
                     }
                     asi.add([](IAsyncSteps& step) { step.success(step.state<curious>("kept").number); });
                   }).get();
  CHECK(kept == 7);
}

TEST_CASE("the first error of a branch cancels the others on their loops; the handler runs once, after all") {
  threadpool pool(3);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> alive{0}, wrong_loop{0};
    std::atomic<int> missing{round % 2 == 0 ? 3 : 0};  // of the branches that run at the same time
    int handled = 0;
    auto result = steps::post<std::string>(pool, [&](IAsyncSteps& asi) {
      asi.add([&](IAsyncSteps& step) {
        auto& branches = step.parallel([&](IAsyncSteps& handler, ErrorCode code) {
          ++handled;
          if (alive == 0) handler.success(code.c_str() + (":" + std::string(handler.state().error_info())));
        });
        for (int i = 0; i < 20; ++i) {
          branches.add([&, i, h = held()](IAsyncSteps& branch) {
            if (i < 3) meet(missing);
            if (i == 1) branch.error("First", "its info");
            ++alive;
            branch.setCancel([&, loop = &branch.tool()] {
              if (async::event_loop::current() != loop) ++wrong_loop;
              --alive;
            });
          });
        }
      });
    });
    CHECK(result.get() == "First:its info");
    CHECK(handled == 1);
    CHECK(alive == 0);
    CHECK(wrong_loop == 0);
  }
  pool.wait_idle();
  CHECK(held::live() == 0);
}

TEST_CASE("an exception of a branch reaches the handler, and the future") {
  threadpool pool(2);
  auto thrown = steps::post(pool, [](IAsyncSteps& asi) {
    auto& branches = asi.parallel([](IAsyncSteps& handler, ErrorCode) {
      if (handler.state().last_exception() == nullptr) handler.error("Lost");
    });
    for (int i = 0; i < 4; ++i) {
      branches.add([i](IAsyncSteps& branch) {
        if (i == 2) throw std::range_error("Range");
        branch.waitExternal();
      });
    }
  });
  CHECK_THROWS_AS(thrown.get(), std::range_error);
  pool.wait_idle();
}

TEST_CASE("a timeout of the step around waits for all branches to be cancelled") {
  threadpool pool(3);
  for (int round = 0; round < 30; ++round) {
    std::atomic<int> alive{0};
    auto result = steps::post<int>(pool, [&](IAsyncSteps& asi) {
      asi.add(
          [&](IAsyncSteps& step) {
            step.setTimeout(1ms);
            auto& branches = step.parallel();
            for (int i = 0; i < 12; ++i) {
              branches.add([&, h = held()](IAsyncSteps& branch) {
                ++alive;
                branch.setCancel([&alive] { --alive; });
              });
            }
          },
          [&](IAsyncSteps& step, ErrorCode code) {
            if (code == steps::errors::Timeout) step.success(alive.load());
          });
    });
    CHECK(result.get() == 0);
  }
  pool.wait_idle();
  CHECK(held::live() == 0);
}

TEST_CASE("a timeout while a branch is busy waits for that branch, without burning the processor") {
  threadpool pool(2);
  std::atomic<bool> ended{false};
  auto result = steps::post<bool>(pool, [&](IAsyncSteps& asi) {
    asi.add(
        [&](IAsyncSteps& step) {
          step.setTimeout(5ms);
          auto& branches = step.parallel();
          branches.add([](IAsyncSteps& branch) { branch.waitExternal(); });
          branches.add([&](IAsyncSteps&) {
            std::this_thread::sleep_for(50ms);
            ended = true;
          });
        },
        [&](IAsyncSteps& step, ErrorCode code) {
          if (code == steps::errors::Timeout) step.success(ended.load());
        });
  });
  CHECK(result.get());
}

TEST_CASE("the flow is cancelled or destroyed from outside, or by a branch, while its branches run") {
  threadpool pool(3);
  for (int round = 0; round < 300; ++round) {
    std::atomic<int> alive{0}, begun{0};
    steps::AsyncSteps flow{pool};
    flow.add([&](IAsyncSteps& asi) {
      auto& branches = asi.parallel();
      for (int i = 0; i < 8; ++i) {
        branches.add([&, i, h = held()](IAsyncSteps& branch) {
          ++begun;
          ++alive;
          branch.setCancel([&alive] { --alive; });
          if (round % 4 == 3 && i == 5) flow.cancel();
        });
      }
    });
    auto result = flow.promise();
    if (round % 4 == 1) {
      while (begun < 8) std::this_thread::yield();
    }
    if (round % 4 == 2) std::this_thread::yield();
    if (round % 4 == 0 || round % 4 == 1) flow.cancel();
    if (round % 4 != 2) {
      CHECK_THROWS_AS(result.get(), std::future_error);
      CHECK(alive == 0);
    }
    {
      const steps::AsyncSteps gone(std::move(flow));
    }
    CHECK(alive == 0);
  }
  pool.wait_idle();
  CHECK(held::live() == 0);
}

TEST_CASE("breakLoop() and continueLoop() in a branch reach the loop around") {
  threadpool pool(2);
  const int turns = steps::post<int>(pool, [](IAsyncSteps& asi) {
                      auto& count = asi.stack<int>(0);
                      asi.loop(
                          [&count](IAsyncSteps& turn) {
                            ++count;
                            auto& branches = turn.parallel();
                            branches.add([](IAsyncSteps& branch) { branch.waitExternal(); });
                            branches.add([n = count](IAsyncSteps& branch) {
                              branch.loop([n](IAsyncSteps& inner) {
                                if (n == 5) inner.breakLoop("outer");
                                inner.continueLoop("outer");
                              });
                            });
                          },
                          "outer");
                      asi.add([&count](IAsyncSteps& step) { step.success(count); });
                    }).get();
  CHECK(turns == 5);
}

TEST_CASE("branches take turns in a mutex wherever they run") {
  threadpool pool(4);
  steps::Mutex mutex;
  int inside = 0, most = 0, passed = 0;  // guarded by the mutex
  steps::post(pool, [&](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 200; ++i) {
      branches.sync(mutex, [&](IAsyncSteps& section) {
        most = std::max(most, ++inside);
        section.add([](IAsyncSteps& step) { step.add([](IAsyncSteps&) {}); });
        section.add([&](IAsyncSteps&) {
          --inside;
          ++passed;
        });
      });
    }
  }).get();
  CHECK(most == 1);
  CHECK(passed == 200);
}

TEST_CASE("a handler may recover by another parallel()") {
  threadpool pool(2);
  std::atomic<int> second{0};
  steps::post(pool, [&](IAsyncSteps& asi) {
    auto& branches = asi.parallel([&](IAsyncSteps& handler, ErrorCode) {
      auto& again = handler.parallel();
      for (int i = 0; i < 10; ++i) again.add([&](IAsyncSteps&) { ++second; });
    });
    for (int i = 0; i < 10; ++i) {
      branches.add([i](IAsyncSteps& branch) { i == 0 ? branch.error("Once") : branch.waitExternal(); });
    }
  }).get();
  CHECK(second == 10);
}

TEST_CASE("branches of NitroSteps stay on its loop") {
  threadpool pool(3);
  steps::NitroSteps<steps::nitro::MaxParallel<8>> flow{pool};
  int elsewhere = 0;
  flow.add([&](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (int i = 0; i < 8; ++i) {
      branches.add([&elsewhere, home = &asi.tool()](IAsyncSteps& branch) {
        if (&branch.tool() != home || async::event_loop::current() != home) ++elsewhere;
      });
    }
  });
  flow.promise().get();
  CHECK(elsewhere == 0);
}

TEST_CASE("branches go on and are cancelled while the pool is resized") {
  threadpool pool(4);
  std::atomic<bool> stop{false};
  std::thread resizer([&] {
    for (std::size_t n = 0; !stop; ++n) {
      pool.configurepool(n % 5);
      std::this_thread::yield();
    }
    pool.configurepool(2);
  });
  std::atomic<int> alive{0};
  for (int round = 0; round < 100; ++round) {
    auto result = steps::post<int>(pool, [&](IAsyncSteps& asi) {
      auto& branches = asi.parallel([](IAsyncSteps& handler, ErrorCode) { handler.success(7); });
      for (int i = 0; i < 10; ++i) {
        branches.add([&, i](IAsyncSteps& branch) {
          branch.add([](IAsyncSteps& step) { step.setTimeout(200us); },
                     [](IAsyncSteps& step, ErrorCode) { step.success(); });
          branch.add([&, i](IAsyncSteps& step) {
            if (i == 9) step.error("Nine");
            ++alive;
            step.setCancel([&alive] { --alive; });
          });
        });
      }
    });
    CHECK(result.get() == 7);
    CHECK(alive == 0);
  }
  stop = true;
  resizer.join();
}

TEST_CASE("rule 5: a mistake in building a branch of a flow on a pool is the error of that branch") {
  threadpool pool(2);
  for (int what = 0; what < 3; ++what) {
    steps::AsyncSteps flow{pool};
    flow.add([what](IAsyncSteps& asi) {
      auto& branches = asi.parallel([](IAsyncSteps& step, ErrorCode code) {
        step.success(std::string(code) + ": " + std::string(step.state().error_info()));
      });
      branches.add([](IAsyncSteps&) {});
      auto& inner = branches.parallel();
      if (what == 0) inner.waitExternal();
      if (what == 1) inner.setTimeout(1s);
      if (what == 2) inner.breakLoopNoThrow();
      branches.add([](IAsyncSteps&) {});
    });
    const std::string seen = flow.promise<std::string>().get();
    CHECK(seen.starts_with("InternalError: "));
    CHECK(seen.find("step") != std::string::npos);
  }
}
