// SPDX-License-Identifier: BSL-1.0
//
// Flows on a pool when memory runs out in any thread: each flow ends, an error says why, nothing leaks.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "steps/steps.hpp"
#include "support/alloc_counter.hpp"
#include "support/live_count.hpp"

using async::threadpool;
using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::fail_alloc;

namespace {

/// Too large for recycled blocks, so that each copy in a step or task calls operator new.
struct large : testing::live_count<large> {
  std::array<unsigned char, 2000> bytes{};
};

std::size_t failures = 0;

/// Lets each allocation of all threads fail once, until attempt(k) needs none. Each attempt runs on a new thread, with
/// an empty cache of blocks, as the workers that it starts.
template <class Attempt>
void each_allocation(Attempt attempt) {
  bool has_failed = false;
  do {
    static_cast<void>(threadpool::trim());
    std::thread([&] { has_failed = attempt(failures); }).join();
    CHECK(large::live() == 0);
    failures += has_failed ? 1 : 0;
  } while (has_failed);
}
template <class Attempt>
void each_allocation_from_none(Attempt attempt) {
  const std::size_t before = failures;
  each_allocation([&](std::size_t k) { return attempt(k - before); });
}

/// The future's value, or -1 when memory ran out.
template <class Future>
int outcome(Future& result) {
  try {
    return result.get();
  } catch (const std::bad_alloc&) {
    return -1;
  } catch (const steps::Error& e) {
    return e.code() == steps::errors::InternalError || e.code() == std::bad_alloc().what() ? -1 : -2;
  }
}

}  // namespace

TEST_CASE("a flow with a priority, posted or executed without memory, is not handed in, or its future throws") {
  for (const bool is_posted : {true, false}) {
    each_allocation_from_none([is_posted](std::size_t k) {
      threadpool pool(2);
      steps::AsyncSteps owned(pool, async::priority::high);
      const auto body = [l = large()](IAsyncSteps& asi) {
        asi.add([](IAsyncSteps& step) {
          auto& branches = step.parallel();
          for (int i = 0; i < 2; ++i) branches.add([](IAsyncSteps& branch) { branch.relinquish(); });
        });
        asi.add([inner = large()](IAsyncSteps& step) { step.success(5); });
      };
      fail_alloc failing(k, fail_alloc::scope::all_threads);
      int got = -1;
      try {
        if (is_posted) {
          auto result = steps::post<int>(pool, async::priority::low, body);
          got = outcome(result);
        } else {
          owned.add(body);
          auto result = owned.promise<int>();
          got = outcome(result);
        }
      } catch (const std::bad_alloc&) {
      }
      failing.stop();
      CHECK((got == 5 || (got == -1 && failing.has_failed())));
      auto next = steps::post<int>(pool, async::priority::low, [](IAsyncSteps& asi) { asi.success(6); });
      CHECK(next.get() == 6);
      pool.wait_idle();
      return failing.has_failed();
    });
  }
}

TEST_CASE("a flow that is posted without memory is not posted, or its future throws") {
  each_allocation_from_none([](std::size_t k) {
    threadpool pool(2);
    fail_alloc failing(k, fail_alloc::scope::all_threads);
    int got = -1;
    try {
      auto result = steps::post<int>(pool, [l = large()](IAsyncSteps& asi) {
        asi.add([inner = large()](IAsyncSteps& step) { step.state()["key"] = 1; });
        asi.add([](IAsyncSteps& step) { step.success(5); });
      });
      got = outcome(result);
    } catch (const std::bad_alloc&) {
    }
    failing.stop();
    CHECK((got == 5 || (got == -1 && failing.has_failed())));
    auto next = steps::post<int>(pool, [](IAsyncSteps& asi) { asi.success(6); });
    CHECK(next.get() == 6);
    pool.wait_idle();
    return failing.has_failed();
  });
}

TEST_CASE("a flow that its pool has no memory to start throws, keeps its steps, and may be executed again") {
  each_allocation_from_none([](std::size_t k) {
    threadpool pool(1);
    steps::AsyncSteps flow{pool};
    flow.add([l = large()](IAsyncSteps& asi) { asi.success(5); });
    fail_alloc failing(k, fail_alloc::scope::all_threads);
    int got = -1;
    try {
      auto result = flow.promise<int>();
      got = outcome(result);
      failing.stop();
    } catch (const std::bad_alloc&) {
      failing.stop();
      got = flow.promise<int>().get();
    }
    CHECK((got == 5 || (got == -1 && failing.has_failed())));
    return failing.has_failed();
  });
}

TEST_CASE("branches on several threads without memory: all end, and so does the flow") {
  each_allocation_from_none([](std::size_t k) {
    std::atomic<int> alive{0};
    int got = -1;
    bool has_failed = false;
    {
      threadpool pool(2);
      fail_alloc failing(k, fail_alloc::scope::all_threads);
      try {
        auto result = steps::post<int>(pool, [&](IAsyncSteps& asi) {
          asi.add([&](IAsyncSteps& step) {
            auto& branches = step.parallel();
            for (int i = 0; i < 6; ++i) {
              branches.add([&alive, &pool, l = large()](IAsyncSteps& branch) {
                branch.setCancel([&alive] { --alive; });
                ++alive;
                branch.await(pool, [inner = large()] { return 1; });
                branch.add([&alive](IAsyncSteps&, int one) { alive -= one; });
              });
            }
          });
          asi.add([&](IAsyncSteps& step) { step.success(alive == 0 ? 5 : 0); });
        });
        got = outcome(result);
      } catch (const std::bad_alloc&) {
      }
      failing.stop();
      has_failed = failing.has_failed();
      pool.wait_idle();
    }
    CHECK((got == 5 || (got == -1 && has_failed)));
    CHECK(alive == 0);
    return has_failed;
  });
  std::printf("figures: %zu injected failures\n", failures);
}

TEST_CASE("a flow that finds no memory as it begins, and that a step's destructor then destroys, keeps its error") {
  async::event_loop loop;
  std::vector<std::unique_ptr<steps::AsyncSteps>> others;
  bool is_full = false;
  while (!is_full) {  // until the loop has no room for another waiting flow
    others.push_back(std::make_unique<steps::AsyncSteps>(loop));
    others.back()->add([](IAsyncSteps& asi) { asi.waitExternal(); });
    const testing::no_memory here;
    try {
      others.back()->execute();
    } catch (const std::bad_alloc&) {
      is_full = true;
    }
  }
  auto flow = std::make_unique<steps::AsyncSteps>(loop);
  struct destroyer {
    std::unique_ptr<steps::AsyncSteps>* what;
    explicit destroyer(std::unique_ptr<steps::AsyncSteps>* w) : what(w) {}
    destroyer(destroyer&& other) noexcept : what(std::exchange(other.what, nullptr)) {}
    ~destroyer() {
      if (what != nullptr) what->reset();
    }
  };
  flow->add([end = destroyer(&flow)](IAsyncSteps& asi) { asi.success(1); });
  std::future<int> result;
  std::thread([&] { result = flow->promise<int>(); }).join();
  {
    const testing::no_memory here;
    loop.iterate();
  }
  CHECK(flow == nullptr);
  REQUIRE(result.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  CHECK(outcome(result) == -1);
}
