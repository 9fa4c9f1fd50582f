// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/event_loop.hpp"
#include "async/future.hpp"
#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/gate.hpp"
#include "support/live_count.hpp"
#include "support/meeting.hpp"
#include "support/scale.hpp"

// race() of flows on a pool: branches on any worker. Rules 36 and 37 of steps/RULES.md.

using async::event_loop;
using async::threadpool;
using steps::AsyncSteps;
using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

/// The branches of a race that run, and those whose cancel handlers were called on another loop than theirs.
struct field {
  /// Makes the step wait until it is cancelled.
  void wait_in(IAsyncSteps& asi) {
    asi.stack<held>();
    ++running;
    asi.setCancel([this, loop = &asi.tool(), h = held()] {
      if (event_loop::current() != loop) ++misplaced;
      --running;
    });
  }
  /// The step after the race: its result, and whether nothing of the race is left.
  auto passing_on() {
    return [this](IAsyncSteps& asi, int n) { asi.success(running == 0 && held::live() == 0 ? n : -1); };
  }

  std::atomic<int> running{0}, misplaced{0};
};

void wait(IAsyncSteps& asi, std::chrono::microseconds time) {
  asi.add([time](IAsyncSteps& step) { step.setTimeout(time); }, [](IAsyncSteps& step, ErrorCode) { step.success(); });
}

/// Calls body(pool, flow) with each kind of flow, on pools of several sizes.
template <class Body>
void on_pools(Body body) {
  for (const std::size_t workers : {1U, 2U, 4U}) {
    CAPTURE(workers);
    threadpool pool(workers);
    for (std::size_t round = testing::rounds(20); round != 0; --round) {
      AsyncSteps flow{pool};
      body(pool, flow);
      testing::roomy_nitro fixed{pool};
      body(pool, fixed);
    }
    pool.wait_idle();
    CHECK(held::live() == 0);
  }
}

}  // namespace

TEST_CASE("rule 36: the race ends beside a loser's running await(pool, f) call, whose result is dropped") {
  threadpool pool(2);
  threadpool calls(1);
  for (std::size_t round = testing::rounds(50); round != 0; --round) {
    std::promise<void> begun, go_on;
    std::atomic<bool> has_returned{false}, is_passed_on{false};
    const int got = steps::post<int>(pool, [&](IAsyncSteps& asi) {
                      auto& branches = asi.race();
                      branches.add([&](IAsyncSteps& loser) {
                        loser.await(calls, [&] {
                          begun.set_value();
                          go_on.get_future().wait();
                          has_returned = true;
                          return held();
                        });
                        loser.add([&](IAsyncSteps&, held) { is_passed_on = true; });
                      });
                      branches.add([&](IAsyncSteps& winner) {
                        winner.await(begun.get_future());
                        winner.add([](IAsyncSteps& step) { step.success(7); });
                      });
                    }).get();
    CHECK(got == 7);
    CHECK_FALSE(has_returned);
    go_on.set_value();
    calls.wait_idle();
    CHECK(has_returned);
    CHECK_FALSE(is_passed_on);
    CHECK(held::live() == 0);
  }
}

TEST_CASE("rule 36: the winner's results are passed on when all others have ended, on their own loops") {
  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    on_pools([waits](threadpool&, IAsyncSteps& flow) {
      field f;
      auto& race = flow.race();
      for (int i = 0; i < 8; ++i) {
        race.add([&f, waits, i, h = std::make_unique<held>()](IAsyncSteps& branch) {
          if (i != 5) return f.wait_in(branch);
          if (waits) wait(branch, 300us);
          branch.add([](IAsyncSteps& step) { step.success(42); });
        });
      }
      flow.add(f.passing_on());
      CHECK(flow.promise<int>().get() == 42);
      CHECK(f.misplaced == 0);
    });
  }
}

TEST_CASE("rule 36: no branch, one branch, a thousand branches, and races within races") {
  on_pools([](threadpool&, IAsyncSteps& flow) {
    flow.race();
    flow.race().add([](IAsyncSteps& branch) { branch.success(1, std::string(100, 'x')); });
    flow.add([](IAsyncSteps& asi, int n, const std::string& text) { asi.success(n + static_cast<int>(text.size())); });
    CHECK(flow.promise<int>().get() == 101);
  });
  for (const std::size_t workers : {1U, 2U, 4U}) {
    CAPTURE(workers);
    threadpool pool(workers);
    for (std::size_t round = testing::rounds(5); round != 0; --round) {
      for (const int winner : {0, 500, 999}) {
        field f;
        const int won =
            steps::post<int>(pool, [&](IAsyncSteps& asi) {
              auto& race = asi.race();
              for (int i = 0; i < 1000; ++i) {
                race.add([&f, winner, i, h = held()](IAsyncSteps& branch) {
                  i == winner ? branch.success(i) : i % 3 == 0 ? branch.errorNoThrow("E") : f.wait_in(branch);
                });
              }
              asi.add(f.passing_on());
            }).get();
        CHECK(won == winner);
      }
      const std::function<void(IAsyncSteps&, int)> grow = [&](IAsyncSteps& asi, int depth) {
        if (depth == 0) return asi.success(1);
        auto& race = depth % 2 == 0 ? asi.race() : asi.parallel();
        for (int i = 0; i < 3; ++i) race.add([&grow, depth](IAsyncSteps& branch) { grow(branch, depth - 1); });
        asi.add([](IAsyncSteps& step) { step.success(1); });
      };
      CHECK(steps::post<int>(pool, [&](IAsyncSteps& asi) { grow(asi, 6); }).get() == 1);
    }
  }
}

TEST_CASE("rule 36: one of two branches that succeed at the same time wins") {
  threadpool pool(3);
  for (std::size_t round = testing::rounds(300); round != 0; --round) {
    std::atomic<int> missing{2};
    const int won = steps::post<int>(pool, [&](IAsyncSteps& asi) {
                      auto& race = asi.race();
                      for (int i = 1; i <= 2; ++i) {
                        race.add([&missing, i](IAsyncSteps& branch) {
                          --missing;
                          while (missing > 0) std::this_thread::yield();
                          branch.success(i, std::make_unique<held>(), std::array<held, 30>());
                        });
                      }
                      asi.add([](IAsyncSteps& step, int n, const std::unique_ptr<held>&, const std::array<held, 30>&) {
                        step.success(held::live() == 31 ? n : -1);
                      });
                    }).get();
    CHECK((won == 1 || won == 2));
  }
  pool.wait_idle();
  CHECK(held::live() == 0);
}

TEST_CASE("rule 37: errors do not end the race before a success, and the last of all is the step's") {
  for (const bool one_wins : {false, true}) {
    CAPTURE(one_wins);
    on_pools([one_wins](threadpool& pool, IAsyncSteps& flow) {
      int handled = 0;
      std::atomic<int> failed{0};
      auto& race = flow.race([&](IAsyncSteps& asi, ErrorCode code) {
        ++handled;
        asi.success(failed == 8 ? std::string(code) + ": " + std::string(asi.state().error_info()) : "too early");
      });
      for (int i = 0; i < 8; ++i) {
        race.add([&, i](IAsyncSteps& branch) {
          if (i == 4) {
            branch.loop([&failed](IAsyncSteps& turn) {  // until all others have failed
              if (failed == 7) turn.breakLoop();
              turn.relinquish();
            });
          }
          branch.add([&, i](IAsyncSteps& step) {
            if (one_wins && i == 4) return step.success(std::string("won"));
            ++failed;
            if (i == 0) throw std::runtime_error("Exception");
            step.error(i == 4 ? "Last" : "Early", "its info");
          });
        });
      }
      flow.add([](IAsyncSteps& asi, std::string text) { asi.success(std::move(text)); });
      const std::string text = flow.promise<std::string>().get();
      if (pool.size() != 1 && !one_wins) {  // another branch may end after the fifth
        CHECK(text != "too early");
      } else {
        CHECK(text == (one_wins ? "won" : "Last: its info"));
      }
      CHECK(handled == !one_wins);
    });
  }
}

TEST_CASE("rule 37: branches that fail at the same time: the step gets one of their exceptions") {
  threadpool pool(3);
  for (std::size_t round = testing::rounds(100); round != 0; --round) {
    std::atomic<int> missing{3};
    auto thrown = steps::post(pool, [&](IAsyncSteps& asi) {
      auto& race = asi.race();
      for (int i = 0; i < 3; ++i) {
        race.add([&](IAsyncSteps&) {
          --missing;
          while (missing > 0) std::this_thread::yield();
          throw std::range_error("Range");
        });
      }
    });
    CHECK_THROWS_AS(thrown.get(), std::range_error);
  }
}

TEST_CASE("rule 37: breakLoop() and continueLoop() in a branch end the race and reach the loop around") {
  on_pools([](threadpool&, IAsyncSteps& flow) {
    field f;
    int turns = 0;
    flow.loop([&](IAsyncSteps& turn) {
      ++turns;
      auto& race = turn.race();
      race.add([&f](IAsyncSteps& branch) { f.wait_in(branch); });
      race.add([n = turns](IAsyncSteps& branch) { n == 5 ? branch.breakLoop() : branch.continueLoop(); });
      race.add([](IAsyncSteps& branch) { branch.error("Lost"); });
      turn.add([&](IAsyncSteps&) { turns = 1000; });
    });
    flow.add([&](IAsyncSteps& asi) { asi.success(turns); });
    flow.add(f.passing_on());
    CHECK(flow.promise<int>().get() == 5);
  });
}

TEST_CASE("rule 37: a timeout, a cancel and the destruction of the flow cancel all branches") {
  on_pools([](threadpool&, IAsyncSteps& flow) {
    field f;
    flow.add(
        [&f](IAsyncSteps& asi) {
          asi.setTimeout(500us);
          auto& race = asi.race();
          race.add([](IAsyncSteps& branch) { branch.error("Lost"); });
          for (int i = 0; i < 6; ++i) race.add([&f](IAsyncSteps& branch) { f.wait_in(branch); });
        },
        [](IAsyncSteps& asi, ErrorCode code) {
          if (code == steps::errors::Timeout) asi.success(1);
        });
    flow.add(f.passing_on());
    CHECK(flow.promise<int>().get() == 1);
  });
  threadpool pool(3);
  for (std::size_t round = testing::rounds(300); round != 0; --round) {
    field f;
    std::atomic<int> begun{0};
    auto owner = std::make_unique<AsyncSteps>(pool);
    AsyncSteps& flow = *owner;
    auto& race = flow.race();
    for (int i = 0; i < 8; ++i) {
      race.add([&, i, h = held()](IAsyncSteps& branch) {
        ++begun;
        if (i != 5) return f.wait_in(branch);
        if (round % 4 == 3) flow.cancel();
        branch.success(std::make_unique<held>());  // wins, or comes too late
      });
    }
    flow.add([](IAsyncSteps& asi) { asi.waitExternal(); });
    auto end = flow.promise();
    if (round % 4 == 1) {
      while (begun == 0) std::this_thread::yield();
    }
    if (round % 4 == 2) flow.cancel();
    if (round % 4 == 3) end.wait();
    owner.reset();
    CHECK_THROWS_AS(end.get(), std::future_error);
    CHECK(f.running == 0);
    CHECK(f.misplaced == 0);
  }
  pool.wait_idle();
  CHECK(held::live() == 0);
}

TEST_CASE("rule 37: a timeout that comes after the race is won, beside a loser that runs, is the error of the step") {
  testing::gate loser;
  async::promise<void> runs;
  threadpool pool(2);
  const auto end = steps::post<std::string>(pool, [&](IAsyncSteps& asi) {
                     asi.add(
                         [&](IAsyncSteps& step) {
                           step.setTimeout(20ms);
                           // The same loop has both timers: the loser goes on after the timeout.
                           step.tool().deferred(40ms, [&loser] { loser.open(); });
                           auto& race = step.race();
                           race.add([&](IAsyncSteps&) {
                             runs.set_value();
                             loser.pass();
                           });
                           race.add([&](IAsyncSteps& winner) {
                             winner.await(runs.get_future());
                             winner.add([](IAsyncSteps& last) { last.success(held()); });
                           });
                           step.add([](IAsyncSteps& next, held) { next.success(std::string("passed on")); });
                         },
                         [](IAsyncSteps& failed, ErrorCode code) { failed.success(std::string(code)); });
                   }).get();
  CHECK(end == "Timeout");
  CHECK(held::live() == 0);
}

TEST_CASE("rule 36: the race may be over, and its flow gone, when a loop gets to a branch") {
  threadpool pool(1);
  for (std::size_t round = testing::rounds(2000); round != 0; --round) {
    // While the worker waits, a stand-in takes the branches, and sends them to loops that the worker turns.
    const int won =
        pool.post([&pool] {
              return steps::post<int>(pool,
                                      [](IAsyncSteps& asi) {
                                        auto& race = asi.race();
                                        for (int i = 1; i <= 64; ++i) {
                                          race.add([i, h = held()](IAsyncSteps& branch) { branch.success(i); });
                                        }
                                      })
                  .get();
            })
            .get();
    CHECK((1 <= won && won <= 64));
  }
  pool.wait_idle();
  CHECK(held::live() == 0);
}

TEST_CASE("losers that hold a mutex or wait for it, for a pool call or for a completion, end") {
  threadpool other(1);
  on_pools([&other](threadpool&, IAsyncSteps& flow) {
    field f;
    steps::Mutex mutex;
    std::promise<void> go;
    std::shared_future<void> released = go.get_future().share();
    steps::completion<int> late;
    std::atomic<int> waiting{0};
    auto& race = flow.race();
    for (int i = 0; i < 3; ++i) {
      race.sync(mutex, [&](IAsyncSteps& inside) {
        f.wait_in(inside);
        ++waiting;
      });
    }
    race.add([&](IAsyncSteps& branch) {
      branch.await(other, [&waiting, released] {
        ++waiting;
        released.get();
        return 7;
      });
    });
    race.add([&](IAsyncSteps& branch) {
      branch.stack<held>();
      late = branch.completion<int>();
      ++waiting;
    });
    race.loop([&](IAsyncSteps& turn) {
      if (waiting == 3) turn.breakLoop();
      turn.relinquish();
    });
    flow.sync(mutex, [](IAsyncSteps& inside) { inside.success(3); });  // which is free again
    flow.add(f.passing_on());
    auto end = flow.promise<int>();
    CHECK(end.get() == 3);
    CHECK_FALSE(late.success(1));
    go.set_value();
    other.wait_idle();
  });
}

TEST_CASE("a race stays sound while the pool is resized and paused") {
  for (std::size_t round = testing::rounds(10); round != 0; --round) {
    threadpool pool(4);
    std::atomic<bool> stop{false};
    std::thread resizer([&] {
      for (std::size_t n = 0; !stop; ++n) {
        pool.configurepool(n % 5);
        std::this_thread::yield();
      }
      pool.configurepool(2);
    });
    for (int i = 0; i < 10; ++i) {
      field f;
      const int won = steps::post<int>(pool, [&](IAsyncSteps& asi) {
                        auto& race = asi.race();
                        for (int k = 0; k < 10; ++k) {
                          race.add([&, k](IAsyncSteps& branch) {
                            wait(branch, 100us);
                            branch.add([&, k](IAsyncSteps& step) {
                              k == 9 ? step.success(7) : k == 8 ? step.errorNoThrow("E") : f.wait_in(step);
                            });
                          });
                        }
                        asi.add(f.passing_on());
                      }).get();
      CHECK(won == 7);
    }
    stop = true;
    resizer.join();
  }
  CHECK(held::live() == 0);
}

TEST_CASE("stop() amid races: each flow ends with the winner's results, or is cancelled with all branches") {
  std::size_t won = 0, cancelled = 0;
  for (std::size_t round = testing::rounds(300); round != 0; --round) {
    field f;
    std::atomic<int> begun{0};
    std::vector<async::future<int>> ends;
    {
      threadpool pool(1 + round % 4);
      for (int i = 0; i < 6; ++i) {
        const bool has_winner = i % 3 != 2;
        ends.push_back(steps::post<int>(pool, [&f, &begun, has_winner, h = held()](IAsyncSteps& asi) {
          auto& race = asi.race();
          for (int k = 0; k < 5; ++k) {
            race.add([&f, &begun, has_winner, k, b = held()](IAsyncSteps& branch) {
              ++begun;
              if (k == 3) return branch.errorNoThrow("E");
              if (k != 4 || !has_winner) return f.wait_in(branch);
              wait(branch, 100us);
              branch.add([](IAsyncSteps& step) { step.success(7, std::make_unique<held>()); });
            });
          }
          asi.add([](IAsyncSteps& step, int n, const std::unique_ptr<held>& from_winner) {
            step.success(from_winner != nullptr ? n : -1);
          });
        }));
      }
      const int wanted = static_cast<int>(round % 30);
      const bool one_wins = round % 5 == 0;
      while ((one_wins || begun < wanted) && !ends[0].is_ready()) std::this_thread::yield();
      if (round % 2 == 0) {
        pool.stop();
        CHECK(f.running == 0);
      }
    }
    for (auto& end : ends) {
      REQUIRE(end.is_ready());
      try {
        const int got = end.get();
        CHECK(got == 7);
        ++won;
      } catch (const std::future_error& e) {
        CHECK(e.code() == std::future_errc::broken_promise);
        ++cancelled;
      }
    }
    CHECK(f.running == 0);
    CHECK(f.misplaced == 0);
    CHECK(held::live() == 0);
  }
  CHECK(won != 0);
  CHECK(cancelled != 0);
}
