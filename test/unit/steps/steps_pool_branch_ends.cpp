// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "async/event_loop.hpp"
#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

// Callbacks of branches on other loops, and destructors, that end the flow of the branches.

using async::event_loop;
using async::threadpool;
using steps::AsyncSteps;
using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

/// Calls a function at its end.
struct at_end {
  explicit at_end(std::function<void()> f) : call(std::move(f)) {}
  at_end(at_end&& other) noexcept : call(std::exchange(other.call, nullptr)) {}
  ~at_end() {
    if (call) call();
  }
  std::function<void()> call;
};

/// The exception that a branch throws.
struct costly : std::exception {
  explicit costly(std::shared_ptr<at_end> i) : item(std::move(i)) {}
  const char* what() const noexcept override { return "costly"; }
  std::shared_ptr<at_end> item;
};

/// Waits until both branches are here, each on another worker.
void meet(std::atomic<int>& here) {
  ++here;
  while (here != 2) std::this_thread::yield();
}

/// A flow on a pool with two branches on two loops. `act` in the second one has end() called.
struct forked {
  explicit forked(bool d) : destroys(d) {}

  template <class Act>
  void run(Act act) {
    flow->add([&, act, h = held()](IAsyncSteps& asi) {
      asi.add(
          [&, act](IAsyncSteps& step) {
            auto& branches = step.parallel();
            branches.add([this](IAsyncSteps& branch) {
              meet(here);
              branch.setCancel([h = held()] {});
            });
            branches.add([this, act](IAsyncSteps& branch) {
              meet(here);
              act(branch);
            });
          },
          [&](IAsyncSteps&, ErrorCode) { went_on = true; });
      asi.add([&](IAsyncSteps&) { went_on = true; });
    });
    flow->execute();
    while (!ended || held::live() != 0) {
      if (IAsyncSteps* const group = ended ? nullptr : failing.exchange(nullptr)) group->errorNoThrow("Failed");
      std::this_thread::sleep_for(100us);
    }
    if (!destroys) flow.reset();
    pool.wait_idle();
    CHECK_FALSE(went_on);
  }
  void end() {
    if (begun.exchange(true)) return;
    destroys ? flow.reset() : flow->cancel();
    ended = true;
  }

  const bool destroys;
  threadpool pool{2};
  std::unique_ptr<AsyncSteps> flow = std::make_unique<AsyncSteps>(pool);
  std::atomic<int> here{0};
  std::atomic<IAsyncSteps*> failing{nullptr};  // a parallel() step that is to fail
  std::atomic<bool> begun{false}, ended{false}, went_on{false};
};

}  // namespace

TEST_CASE("a branch on another loop ends the flow: its steps, cancel handlers and destructors") {
  for (std::size_t round = testing::rounds(10); round != 0; --round) {
    for (const bool destroys : {false, true}) {
      const auto run = [destroys](auto act) {
        forked f(destroys);
        f.run([&f, act](IAsyncSteps& branch) { act(f, branch); });
      };
      run([](forked& f, IAsyncSteps&) { f.end(); });
      run([](forked& f, IAsyncSteps& branch) {
        branch.setCancel([&f] { f.end(); });
        f.flow->cancel();
      });
      run([](forked& f, IAsyncSteps& branch) {  // by a branch within the branch
        branch.parallel().add([&f](IAsyncSteps&) { f.end(); });
      });
      run([](forked& f, IAsyncSteps& branch) {  // ended by a timer of the branch
        branch.setTimeout(1ms);
        auto& inner = branch.parallel();
        for (int i = 0; i < 3; ++i) {
          inner.add([&f](IAsyncSteps& b) { b.setCancel([&f] { f.end(); }); });
        }
      });
      run([](forked& f, IAsyncSteps& branch) {  // around such branches
        branch.setTimeout(1ms);
        branch.add([&f](IAsyncSteps& step) {
          step.setCancel([&f] { f.end(); });
          auto& inner = step.parallel();
          for (int i = 0; i < 3; ++i) inner.add([](IAsyncSteps& b) { b.waitExternal(); });
        });
      });
      run([](forked& f, IAsyncSteps& branch) {  // the same, cancelled
        branch.add([&f](IAsyncSteps& step) {
          step.setCancel([&f] { f.end(); });
          auto& inner = step.parallel();
          for (int i = 0; i < 3; ++i) {
            inner.add([&f](IAsyncSteps& b) {
              f.flow->cancel();
              b.waitExternal();
            });
          }
        });
      });
      run([](forked& f, IAsyncSteps& branch) {  // captures of branches that no worker has taken
        auto& inner = branch.parallel();
        for (int i = 0; i < 64; ++i) {
          inner.add([&f, &inner, i, end = at_end([&f] { f.end(); })](IAsyncSteps& b) {
            if (i == 0) f.failing = &inner;
            std::this_thread::sleep_for(1ms);
            b.waitExternal();
          });
        }
      });
    }
  }
}

TEST_CASE("an exception of a branch ends the flow as it is destroyed") {
  for (std::size_t round = testing::rounds(10); round != 0; --round) {
    for (const bool destroys : {false, true}) {
      threadpool pool(2);
      std::atomic<int> here{0};
      std::atomic<bool> ended{false}, unhandled{false};
      auto flow = std::make_unique<AsyncSteps>(pool);
      flow->state().set_unhandled_error([&](ErrorCode) { unhandled = true; });
      flow->add([&, h = held()](IAsyncSteps& asi) {
        auto& branches = asi.parallel();
        for (int i = 0; i < 2; ++i) {
          branches.add([&](IAsyncSteps&) {
            meet(here);
            throw costly(std::make_shared<at_end>([&] {
              if (!ended.exchange(true)) destroys ? flow.reset() : flow->cancel();
            }));
          });
        }
      });
      flow->execute();
      while (!ended || held::live() != 0) std::this_thread::sleep_for(100us);
      pool.wait_idle();
      CHECK_FALSE(unhandled);
    }
  }
}

TEST_CASE("a call of a branch on another loop to an outer step is a mistake, raised on that step's loop") {
  threadpool pool(2);
  for (int call = 0; call < 7; ++call) {
    const auto ask = [call](IAsyncSteps& around, IAsyncSteps& group) {
      switch (call) {
        case 0:
          return around.setTimeout(1h);
        case 1:
          return around.setCancel([] {});
        case 2:
          return around.waitExternal();
        case 3:
          return void(around.completion<>());
        case 4:
          return void(around.add([](IAsyncSteps&) {}));
        case 5:
          return void(group.add([](IAsyncSteps&) {}));
        default:
          return group.success();
      }
    };
    for (std::size_t round = testing::rounds(20); round != 0; --round) {
      std::atomic<int> here{0};
      std::atomic<bool> returned{false};
      std::atomic<bool> is_first{true};
      event_loop *home = nullptr, *of_other = nullptr, *cancelled = nullptr, *handled = nullptr;
      std::string error;
      auto result = steps::post<bool>(pool, [&](IAsyncSteps& asi) {
        asi.add(
            [&](IAsyncSteps& around) {
              home = &around.tool();
              around.tool().post([&] { returned = true; });  // this step's function has, by then
              auto& group = around.parallel();
              for (int i = 0; i < 2; ++i) {
                group.add([&](IAsyncSteps& branch) {
                  meet(here);
                  if (is_first.exchange(false)) {
                    of_other = &branch.tool();
                    return branch.setCancel([&] { cancelled = event_loop::current(); });
                  }
                  while (!returned) std::this_thread::yield();
                  branch.waitExternal();
                  ask(around, group);
                });
              }
              around.add([](IAsyncSteps& last) { last.success(false); });
            },
            [&](IAsyncSteps& step, ErrorCode code) {
              error = code.c_str();
              handled = event_loop::current();
              step.success(true);
            });
      });
      CHECK(result.get());
      CHECK(error == "InternalError");
      CHECK(handled == home);
      CHECK(cancelled == of_other);
      CHECK(of_other != home);
    }
  }
}
