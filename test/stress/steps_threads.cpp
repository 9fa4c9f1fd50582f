// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "async/event_loop.hpp"
#include "steps/steps.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"

// Other threads use a flow while its loop runs: they end its wait, cancel, destroy and start it.

using steps::AsyncSteps;
using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::rounds;

namespace {

/// A loop that its own thread runs until the object goes.
class driven_loop {
 public:
  driven_loop() {
    std::promise<async::event_loop*> made;
    auto ready = made.get_future();
    thread_ = std::thread([&made] {
      async::event_loop loop;
      made.set_value(&loop);
      loop.run();
    });
    loop_ = ready.get();
  }
  ~driven_loop() {
    loop_->post([loop = loop_] { loop->stop(); });
    thread_.join();
  }
  async::event_loop& operator*() const noexcept { return *loop_; }

 private:
  std::thread thread_;
  async::event_loop* loop_;
};

struct shared_count : testing::live_count<shared_count> {};

/// Has f called on the loop, and waits for it.
template <class F>
void on_loop(async::event_loop& loop, F f) {
  std::promise<void> done;
  loop.post([&] {
    f();
    done.set_value();
  });
  done.get_future().get();
}

}  // namespace

TEST_CASE("exactly one of the tokens that several threads use at once wins, and its result arrives") {
  constexpr std::size_t threads = 3;
  driven_loop loop;
  for (std::size_t round = 0; round < rounds(2000); ++round) {
    AsyncSteps flow{*loop};
    std::promise<steps::completion<std::string>> handed;
    auto token = handed.get_future();
    std::string info;
    flow.add([&](IAsyncSteps& asi) { handed.set_value(asi.completion<std::string>()); },
             [&](IAsyncSteps& asi, ErrorCode code) {
               info = asi.state().error_info().str();
               asi.success(std::string(code));
             });
    flow.add([](IAsyncSteps& asi, std::string text) { asi.success(std::move(text)); });
    auto result = flow.promise<std::string>();
    const steps::completion<std::string> done = token.get();
    std::atomic<int> winner{-1};
    std::atomic<int> winners{0};
    testing::run_threads(threads, [&](std::size_t i) {
      const auto mine = done;
      const std::string text = "the text of thread " + std::to_string(i);
      if (i == 2 ? mine.error(text, "the info of the error") : mine.success(text)) {
        winner.store(static_cast<int>(i), std::memory_order_relaxed);
        winners.fetch_add(1, std::memory_order_relaxed);
      }
    });
    CHECK(winners.load() == 1);
    CHECK(result.get() == "the text of thread " + std::to_string(winner.load()));
    CHECK(info == (winner.load() == 2 ? "the info of the error" : ""));
    CHECK_FALSE(done.success("late"));
  }
}

TEST_CASE("a token races with the step's timeout: the flow ends once, and a token that lost has done nothing") {
  driven_loop loop;
  std::size_t in_time = 0;
  const std::size_t count = rounds(600);
  for (std::size_t round = 0; round < count; ++round) {
    AsyncSteps flow{*loop};
    std::promise<steps::completion<shared_count>> handed;
    auto token = handed.get_future();
    int ends = 0;
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(std::chrono::milliseconds(1));
          handed.set_value(asi.completion<shared_count>());
        },
        [&](IAsyncSteps& asi, ErrorCode code) {
          ++ends;
          CHECK(code == "Timeout");
          asi.success(shared_count());
        });
    flow.add([&](IAsyncSteps&, shared_count) { ++ends; });
    auto result = flow.promise();
    const auto done = token.get();
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(round * 97 % 2500);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    const bool won = done.success(shared_count());
    result.get();
    CHECK((ends == 1 || ends == 2));
    if (ends == 1) CHECK(won);
    in_time += ends == 1 ? 1 : 0;
  }
  on_loop(*loop, [] {});
  MESSAGE("in time: " << in_time << " of " << count);
  CHECK(shared_count::live() == 0);
}

TEST_CASE("cancel from other threads races with the flow's end; the promise is always ready") {
  driven_loop loop;
  std::size_t finished = 0;
  std::size_t cancelled = 0;
  const std::size_t count = rounds(1500);
  for (std::size_t round = 0; round < count; ++round) {
    AsyncSteps flow{*loop};
    int handlers = 0;
    flow.add([&](IAsyncSteps& asi) {
      asi.setCancel([&] { ++handlers; });
      asi.stack<shared_count>();
      asi.repeat(round % 64, [](IAsyncSteps& i, std::size_t) { i.relinquish(); });
    });
    auto result = flow.promise();
    testing::run_threads(2, [&](std::size_t) { flow.cancel(); });
    try {
      result.get();
      ++finished;
      CHECK(handlers == 0);
    } catch (const std::future_error& e) {
      CHECK(e.code() == std::future_errc::broken_promise);
      ++cancelled;
      CHECK(handlers <= 1);
    }
  }
  CHECK(finished + cancelled == count);
  on_loop(*loop, [] { CHECK(shared_count::live() == 0); });
}

TEST_CASE("destroying a flow from another thread cancels it and waits for a callback that is running") {
  driven_loop loop;
  for (std::size_t round = 0; round < rounds(1500); ++round) {
    auto alive = std::make_unique<int>(1);  // the callbacks' data is destroyed right after the flow
    {
      AsyncSteps flow{*loop};
      flow.loop([&](IAsyncSteps& asi) {
        ++*alive;
        asi.setCancel([&] { *alive = 0; });
        asi.add([&](IAsyncSteps& inner) {
          ++*alive;
          inner.relinquish();
        });
      });
      flow.execute();
      if (round % 3 == 0) std::this_thread::yield();
    }
    alive.reset();
  }
}

TEST_CASE("threads start, wait for and destroy flows of one loop at the same time") {
  driven_loop loop;
  testing::run_threads(3, [&](std::size_t thread) {
    AsyncSteps reused{*loop};
    for (std::size_t round = 0; round < rounds(1000); ++round) {
      const int expected = static_cast<int>(thread * 1000 + round);
      reused.add([expected](IAsyncSteps& asi) { asi.success(expected); });
      reused.add([](IAsyncSteps& asi, int v) { asi.success(v); });
      CHECK(reused.promise<int>().get() == expected);
      AsyncSteps other{*loop};
      // Recovered from: the count of a std::exception_ptr is in the standard library, where TSan does not see it.
      other.add([](IAsyncSteps& asi) { asi.errorNoThrow("Code", "info"); },
                [](IAsyncSteps& asi, ErrorCode code) { asi.success(std::string(code)); });
      CHECK(other.promise<std::string>().get() == "Code");
    }
  });
}

TEST_CASE("success and error of a waiting step from another thread are forwarded; those too late are ignored") {
  driven_loop loop;
  for (std::size_t round = 0; round < rounds(1500); ++round) {
    AsyncSteps flow{*loop};
    std::promise<IAsyncSteps*> handed;
    auto step = handed.get_future();
    // The step's wait lasts until the forwarded calls have arrived on the loop, behind this post.
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.waitExternal();
          asi.tool().post([&handed, &asi] { handed.set_value(&asi); });
        },
        [](IAsyncSteps& asi, ErrorCode code) { asi.success(std::string(code)); });
    auto result = flow.promise<std::string>();
    IAsyncSteps& asi = *step.get();
    if (round % 2 == 0) {
      asi.success("value");
    } else {
      asi.errorNoThrow("Failed");
    }
    CHECK(result.get() == (round % 2 == 0 ? "value" : "Failed"));
  }
}

TEST_CASE("tokens outlive the loop: calls that race with its end do no harm") {
  std::size_t won = 0;
  for (std::size_t round = 0; round < rounds(400); ++round) {
    steps::completion<std::string> done;
    std::atomic<bool> go{false};
    std::thread user([&] {
      while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
      if (done.success("a text that is longer than a short string")) ++won;
    });
    {
      async::event_loop loop;
      AsyncSteps flow{loop};
      flow.add([&](IAsyncSteps& asi) { done = asi.completion<std::string>(); });
      flow.add([](IAsyncSteps&, std::string) {});
      flow.execute();
      loop.iterate();
      go.store(true, std::memory_order_release);
      for (std::size_t i = 0; i < round % 16; ++i) {
        std::this_thread::yield();
        loop.iterate();
      }
    }
    user.join();
    CHECK_FALSE(done);
  }
  MESSAGE("won: " << won);
}
