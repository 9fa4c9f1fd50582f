// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "async/errors.hpp"
#include "steps/steps.hpp"
#include "support/occupied.hpp"
#include "support/work_for.hpp"

// Other threads use a flow of a pool at any moment of its life.

using async::threadpool;
using steps::ErrorCode;
using steps::IAsyncSteps;

namespace {

/// Lets a thread wait until a flow's step waits, and end that wait, again and again.
class driver {
 public:
  void step(IAsyncSteps& asi) {
    asi.waitExternal();
    waiting_.store(&asi);
  }
  IAsyncSteps& next() {
    for (;;) {
      if (IAsyncSteps* const asi = waiting_.exchange(nullptr)) return *asi;
      std::this_thread::yield();
    }
  }

 private:
  std::atomic<IAsyncSteps*> waiting_{nullptr};
};

}  // namespace

TEST_CASE("a posted flow's waits are ended by asi.success() and asi.error() of another thread") {
  threadpool pool(2);
  driver d;
  auto result = steps::post<int>(pool, [&d](IAsyncSteps& asi) {
    asi.repeat(20, [&d](IAsyncSteps& step, std::size_t) { d.step(step); });
    asi.add([&d](IAsyncSteps& step) { d.step(step); },
            [](IAsyncSteps& step, ErrorCode code) {
              if (code == "Told") step.success();
            });
    asi.add([](IAsyncSteps& step) { step.success(7); });
  });
  for (int i = 0; i != 20; ++i) d.next().success();
  d.next().errorNoThrow("Told");
  CHECK(result.get() == 7);
}

TEST_CASE("a branch's waits are ended by asi.success() of another thread") {
  threadpool pool(2);
  driver d[2];
  auto result = steps::post<int>(pool, [&d](IAsyncSteps& asi) {
    auto& branches = asi.parallel();
    for (driver& each : d) branches.repeat(20, [&each](IAsyncSteps& step, std::size_t) { each.step(step); });
    asi.add([](IAsyncSteps& step) { step.success(7); });
  });
  for (int i = 0; i != 20; ++i) {
    for (driver& each : d) each.next().success();
  }
  CHECK(result.get() == 7);
}

TEST_CASE("a flow is cancelled by another thread at any time of its execute()") {
  threadpool pool(1);
  for (int i = 0; i < 200; ++i) {
    steps::AsyncSteps flow(pool);
    flow.add([](IAsyncSteps& asi) { asi.waitExternal(); });
    std::atomic<bool> here{false}, done{false};
    std::thread other([&] {
      here = true;
      while (!done) flow.cancel();
    });
    while (!here) std::this_thread::yield();
    flow.execute();
    done = true;
    other.join();
    flow.cancel();
  }
}

TEST_CASE(
    "a flow that another thread cancels while execute() waits for room in the pool's queue breaks its promise once") {
  async::threadpool_options options;
  options.threads = 1;
  options.max_queue = 2;
  threadpool pool(std::move(options));
  std::optional<testing::occupied> busy(std::in_place, pool, 1);
  for (int i = 0; i < 2; ++i) pool.execute([] {});
  steps::AsyncSteps flow(pool);
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> steps_exist = held;
  flow.add([held = std::move(held)](IAsyncSteps&) {});
  std::thread other([&] {
    while (!steps_exist.expired()) {
      flow.cancel();
      std::this_thread::yield();
    }
    pool.stop();
  });
  CHECK_THROWS_AS(flow.promise(), async::stopped);
  busy.reset();
  other.join();
  CHECK(bool(flow));
}

TEST_CASE("a flow that is cancelled before its start may be destroyed by destructors of its steps") {
  threadpool pool(1);
  std::optional<testing::occupied> busy(std::in_place, pool, 1);
  auto flow = std::make_unique<steps::AsyncSteps>(pool);
  int calls = 0;
  std::shared_ptr<void> last(nullptr, [&](void*) {
    ++calls;
    flow.reset();
  });
  flow->add([last = std::move(last)](IAsyncSteps& asi) { asi.success(); });
  flow->execute();
  flow->cancel();
  CHECK(calls == 1);
  CHECK(flow == nullptr);
}

TEST_CASE("a thread that sees the flow's end, or its loop, by the root sees all that the flow has done by then") {
  for (int i = 0; i < 50; ++i) {
    threadpool pool(1);
    int done = 0;  // no atomic: the calls of the root order it
    steps::AsyncSteps flow(pool);
    flow.add([&done](IAsyncSteps&) { ++done; });
    flow.execute();
    const auto is_known = [&flow] {
      try {
        static_cast<void>(flow.tool());
        return true;
      } catch (const steps::Error&) {
        return false;
      }
    };
    while (!is_known()) std::this_thread::yield();
    while (!flow) std::this_thread::yield();
    CHECK(done == 1);
    flow.add([&done](IAsyncSteps&) { ++done; });
    flow.promise().get();
    CHECK(done == 2);
  }
}

TEST_CASE("a flow that is cancelled before its start may be cancelled by destructors of its steps") {
  threadpool pool(1);
  std::optional<testing::occupied> busy(std::in_place, pool, 1);
  steps::AsyncSteps flow(pool);
  int calls = 0;
  std::shared_ptr<void> last(nullptr, [&](void*) {
    ++calls;
    flow.cancel();
  });
  flow.add([last = std::move(last)](IAsyncSteps& asi) { asi.success(); });
  flow.execute();
  flow.cancel();
  CHECK(calls == 1);
  flow.add([](IAsyncSteps& asi) { asi.success(3); });
  auto result = flow.promise<int>();
  busy.reset();
  CHECK(result.get() == 3);
}

TEST_CASE("a flow is destroyed by a task whose worker has some of its branches") {
  for (int round = 0; round < 50; ++round) {
    threadpool pool(2);
    std::atomic<int> began{0}, cancelled{0};
    auto flow = std::make_unique<steps::AsyncSteps>(pool);
    flow->add([&](IAsyncSteps& asi) {
      auto& branches = asi.parallel();
      for (int i = 0; i < 40; ++i) {
        branches.add([&, i](IAsyncSteps& branch) {
          branch.setCancel([&] { ++cancelled; });
          ++began;
          if (i % 8 == 0) {  // some take long enough for both workers, some have branches
            auto& inner = branch.parallel();
            for (int k = 0; k < 4; ++k) {
              inner.add([&](IAsyncSteps& leaf) {
                leaf.setCancel([&] { ++cancelled; });
                ++began;
              });
            }
          }
          testing::work_for(std::chrono::microseconds(20));
        });
      }
    });
    flow->execute();
    while (began != 60) std::this_thread::yield();
    std::promise<void> done;
    pool.execute([&] {
      flow.reset();
      done.set_value();
    });
    done.get_future().wait();  // a hang is found by the test's time limit
    const int count = cancelled;
    CHECK(count == 60);
  }
}

TEST_CASE("a flow is destroyed on a paused pool, with branches that wait and branches that no worker has taken") {
  for (int round = 0; round < 50; ++round) {
    threadpool pool(3);
    std::atomic<int> began{0}, cancelled{0};
    std::atomic<bool> go_on{false};
    const auto token = std::make_shared<int>();
    auto flow = std::make_unique<steps::AsyncSteps>(pool);
    flow->add([&](IAsyncSteps& asi) {
      auto& branches = asi.parallel();
      for (int i = 0; i < 40; ++i) {
        branches.add([&, token](IAsyncSteps& branch) {
          branch.setCancel([&] { ++cancelled; });
          ++began;
          while (!go_on) std::this_thread::yield();  // so that each worker has one, and the others wait in queues
        });
      }
    });
    flow->execute();
    while (began != 3) std::this_thread::yield();
    pool.configurepool(0);
    go_on = true;
    flow.reset();
    CHECK(cancelled == began);
    CHECK(token.use_count() == 1);
  }
}

TEST_CASE(
    "rule 5: branches that use their parallel() or race() step while others are offered are told of the mistake") {
  using misuse = void (*)(IAsyncSteps& group);
  const misuse all[] = {
      [](IAsyncSteps& group) { group.add([](IAsyncSteps&) { FAIL_CHECK("a branch of a branch"); }); },
      [](IAsyncSteps& group) { group.setTimeout(std::chrono::hours(1)); },
      [](IAsyncSteps& group) { group.setCancel([](IAsyncSteps&) {}); },
      [](IAsyncSteps& group) { group.waitExternal(); },
      [](IAsyncSteps& group) { static_cast<void>(group.completion<>()); },
      [](IAsyncSteps& group) { group.stack<int>(7); },
      [](IAsyncSteps& group) { group.relinquish(); },
      [](IAsyncSteps& group) { group.parallel().add([](IAsyncSteps&) {}); },
  };
  threadpool pool(2);
  for (const bool is_race : {false, true}) {
    for (const misuse use : all) {
      for (int round = 0; round != 5; ++round) {
        auto end = steps::post(pool, [&](IAsyncSteps& asi) {
          IAsyncSteps& group = is_race ? asi.race() : asi.parallel();
          for (int i = 0; i != 500; ++i) {
            group.add([&group, use](IAsyncSteps& branch) {
              use(group);
              branch.waitExternal();
            });
          }
        });
        CHECK_THROWS_WITH_AS(end.get(), "InternalError", steps::Error);
      }
    }
  }
}
