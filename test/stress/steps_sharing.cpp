// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "async/event_loop.hpp"
#include "async/queue.hpp"
#include "steps/steps.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"

// Random flows on a pool that is resized, beside tasks and steps that block: each flow ends exactly once, one thread at
// a time is in it, and nothing of it is left.

using async::threadpool;
using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::rounds;
using namespace std::chrono_literals;
using microseconds = std::chrono::microseconds;
using roomy =
    steps::NitroSteps<steps::nitro::MaxSteps<200>, steps::nitro::MaxTimeouts<40>, steps::nitro::MaxCancels<40>,
                      steps::nitro::MaxStackAllocs<40>, steps::nitro::MaxParallel<40>, steps::nitro::ArenaBytes<32768>,
                      steps::nitro::BranchBytes<8192>>;

namespace {

struct held : testing::live_count<held> {};
using numbers = std::minstd_rand;

/// Ends the program with a message when a future is not ready within a minute.
template <class T>
void watch(const std::future<T>& future) {
  if (future.wait_for(60s) == std::future_status::ready) return;
  std::fprintf(stderr, "a flow has not ended within a minute\n");
  std::abort();
}

/// A thread that ends the wait of each token that it gets.
class completer {
 public:
  completer()
      : thread_([this] {
          steps::completion<> token;
          while (!end_ || !tokens_.empty()) {
            tokens_.dequeue(token) ? static_cast<void>(token.success()) : std::this_thread::sleep_for(20us);
          }
        }) {}
  ~completer() {
    end_ = true;
    thread_.join();
  }
  void add(steps::completion<> token) { tokens_.enqueue(std::move(token)); }

 private:
  async::queue<steps::completion<>> tokens_;
  std::atomic<bool> end_{false};
  std::thread thread_;
};

/// Resizes a pool between `least` and 4 workers, and gives it tasks, steps and callbacks that block.
class disturbance {
 public:
  disturbance(threadpool& pool, std::size_t least)
      : pool_(pool), least_(least), loops_{&pool.loop(0), &pool.loop(1), &pool.loop(2), &pool.loop(3)}, thread_([this] {
          numbers random(static_cast<unsigned>(testing::seed()));
          while (!end_) act(random);
          pool_.configurepool(2);
          while (open_ != 0) std::this_thread::yield();
        }) {}
  ~disturbance() {
    end_ = true;
    thread_.join();
    for (const std::size_t count : in_loop_) called_ += count;
    CHECK(called_ == posted_);
  }

 private:
  void act(numbers& random) {
    const microseconds time(random() % 1'000);
    const unsigned what = static_cast<unsigned>(random() % 8);
    if (what == 0) pool_.configurepool(least_ + random() % (5 - least_));
    if (what == 1 || open_ > 8) return std::this_thread::sleep_for(time);
    if (what < 4) {
      ++open_;
      pool_.execute([this, time] { block(time); });
    } else if (what < 6) {
      ++open_;
      steps::post(pool_, [this, time, h = held()](IAsyncSteps& asi) {
        asi.add([](IAsyncSteps& wait) { wait.setTimeout(100us); },
                [](IAsyncSteps& wait, ErrorCode) { wait.success(); });
        asi.add([this, time, inner = held()](IAsyncSteps&) { block(time); });
      });
    } else {
      const std::size_t i = random() % 4;
      ++open_;
      ++posted_;
      const auto call = [this, i, time] {
        ++in_loop_[i];  // plain: one thread at a time is in the loop
        block(time);
      };
      what == 6 ? loops_[i]->post(call) : static_cast<void>(loops_[i]->deferred(time, call));
    }
  }
  void block(microseconds time) {
    std::this_thread::sleep_for(time);
    --open_;
  }

  threadpool& pool_;
  const std::size_t least_;
  const std::array<async::event_loop*, 4> loops_;
  std::array<std::size_t, 4> in_loop_{};
  std::size_t posted_ = 0, called_ = 0;
  std::atomic<int> open_{0};
  std::atomic<bool> end_{false};
  std::thread thread_;
};

/// What all flows share.
struct world {
  threadpool& pool;
  completer outside[2];
  steps::Mutex mutexes[2];
};

/// Adds a wait that ends by the step's timeout.
void wait_for(IAsyncSteps& asi, microseconds time) {
  asi.add([time, h = held()](IAsyncSteps& step) { step.setTimeout(time); },
          [](IAsyncSteps& step, ErrorCode code) {
            if (code == steps::errors::Timeout) step.success();
          });
}

/// Adds up to five random steps to a level, which take no results and end well.
void live(IAsyncSteps& asi, numbers random, world& all, int depth);

void one_step(IAsyncSteps& asi, numbers& random, world& all, int depth) {
  const microseconds time(random() % 2'000);
  const std::size_t which = random() % 2;
  const numbers inner(static_cast<unsigned>(random()));
  completer& outside = all.outside[random() % 2];
  switch (random() % 12) {
    case 0:
    case 1:
      return wait_for(asi, time);
    case 2:
    case 3:
      asi.add([&outside, h = held()](IAsyncSteps& step) { outside.add(step.completion<>()); });
      return;
    case 4:
      asi.sync(all.mutexes[which], [&outside, time, depth](IAsyncSteps& section) {
        section.stack<held>();
        wait_for(section, time / 8);
        if (depth == 0) section.add([&outside](IAsyncSteps& step) { outside.add(step.completion<>()); });
      });
      return;
    case 5:
      asi.await(all.pool, [time, h = held()] { std::this_thread::sleep_for(time / 8); });
      return;
    case 6:
      asi.await(steps::post(
          all.pool, [&all, inner, depth, h = held()](IAsyncSteps& other) { live(other, inner, all, depth - 1); }));
      return;
    case 7:  // a timeout against a token
      asi.add(
          [&outside, time, h = held()](IAsyncSteps& step) {
            step.setTimeout(time / 4);
            step.stack<held>();
            outside.add(step.completion<>());
          },
          [](IAsyncSteps& step, ErrorCode code) {
            if (code == steps::errors::Timeout) step.success();
          });
      return;
    case 8:
      asi.relinquish();
      return;
    case 9:
      asi.add([time](IAsyncSteps&) { std::this_thread::sleep_for(time / 8); });
      return;
    default: {
      const bool fails = which == 0;
      auto& branches = asi.parallel([fails](IAsyncSteps& step, ErrorCode code) {
        if (fails && code == "Expected") step.success();
      });
      for (unsigned i = 0; depth > 0 && i < 3; ++i) {
        branches.add([&all, inner, depth, i, fails, h = held()](IAsyncSteps& branch) {
          branch.setCancel([inner_held = held()] {});
          numbers mine(inner);
          mine.discard(i);
          live(branch, numbers(static_cast<unsigned>(mine())), all, depth - 1);
          if (fails && i == 1) branch.add([](IAsyncSteps& step) { step.error("Expected"); });
        });
      }
    }
  }
}

void live(IAsyncSteps& asi, numbers random, world& all, int depth) {
  for (unsigned i = 1 + static_cast<unsigned>(random() % (depth > 0 ? 5 : 2)); i != 0; --i) {
    one_step(asi, random, all, (std::max)(depth, 0));
  }
}

/// One execution of a flow: what has become of it.
struct account {
  std::atomic<int> begins{0}, ends{0}, cancels{0};
  std::size_t steps = 0;  // plain: one thread at a time is in the flow

  void fill(IAsyncSteps& flow, world& all, unsigned seed) {
    flow.add([this, &all, seed, h = held()](IAsyncSteps& asi) {
      ++begins;
      ++steps;
      asi.setCancel([this, inner = held()] { ++cancels; });
      for (unsigned i = 0; i < 3; ++i) {
        live(asi, numbers(seed + i), all, 2);
        asi.add([this](IAsyncSteps&) { ++steps; });
      }
      asi.add([this](IAsyncSteps&) { ++ends; });
    });
  }
};

/// Runs flows until their number is up: some in the hands of two threads, which cancel and destroy them at random.
void run_flows(std::size_t least) {
  struct slot {
    account of;
    std::unique_ptr<IAsyncSteps> flow;
    std::future<void> end;
  };
  std::atomic<std::size_t> values{0}, broken{0}, destroyed{0};
  const std::size_t count = rounds(400);
  {
    threadpool pool(4);
    world all{pool, {}, {}};
    const auto use_flows = [&](std::size_t thread) {
      numbers random(static_cast<unsigned>(testing::seed() + 1 + thread));
      std::vector<std::unique_ptr<slot>> slots(32);
      const auto close = [&](std::unique_ptr<slot>& s) {
        if (s == nullptr) return;
        const unsigned how = static_cast<unsigned>(random() % 6);
        if (how == 0) s->flow->cancel();
        if (how == 1) {
          s->flow.reset();
          ++destroyed;
        }
        watch(s->end);
        bool has_ended = false;
        try {
          s->end.get();
          has_ended = true;
          ++values;
        } catch (const std::future_error& error) {
          CHECK(error.code() == std::future_errc::broken_promise);
          CHECK(how < 2);
          ++broken;
        }
        s->flow.reset();
        CHECK(s->of.ends == (has_ended ? 1 : 0));
        CHECK(s->of.begins == s->of.ends + s->of.cancels);
        if (has_ended) CHECK(s->of.steps == 4);
        s.reset();
      };
      for (std::size_t i = 0; i < count; ++i) {
        auto& s = slots[random() % slots.size()];
        close(s);
        s = std::make_unique<slot>();
        s->flow = random() % 4 == 0 ? std::unique_ptr<IAsyncSteps>(std::make_unique<roomy>(pool))
                                    : std::make_unique<steps::AsyncSteps>(pool);
        s->of.fill(*s->flow, all, static_cast<unsigned>(random()));
        s->end = s->flow->promise();
      }
      for (auto& s : slots) close(s);
    };
    {
      const disturbance others(pool, least);
      testing::run_threads(2, use_flows);
    }
    pool.stop();  // flows that flows have posted may still run
  }
  CHECK(values + broken == 2 * count);
  CHECK(values > 0);
  CHECK(broken > 0);
  CHECK(held::live() == 0);
  std::printf("figures: %zu flows ended, %zu were cancelled, %zu were destroyed in use\n", values.load(), broken.load(),
              destroyed.load());
}

}  // namespace

TEST_CASE("random flows end once each while their pool has one to four workers and calls block") { run_flows(1); }
TEST_CASE("random flows end once each while their pool is also paused and calls block") { run_flows(0); }

TEST_CASE("random flows whose pool stops at any moment end once each") {
  std::size_t values = 0, broken = 0;
  const std::size_t pools = rounds(60);
  constexpr std::size_t flows = 30;
  for (std::size_t p = 0; p < pools; ++p) {
    numbers random(static_cast<unsigned>(testing::seed() + p));
    std::vector<account> accounts(flows);
    std::vector<std::future<void>> ends;
    {
      threadpool pool(1 + random() % 4);
      world all{pool, {}, {}};
      for (account& each : accounts) {
        ends.push_back(steps::post(pool, [&each, &all, seed = static_cast<unsigned>(random())](IAsyncSteps& asi) {
          each.fill(asi, all, seed);
        }));
      }
      std::this_thread::sleep_for(microseconds(random() % 5'000));
      if (random() % 2 == 0) pool.configurepool(random() % 4);
      pool.stop();
    }
    for (std::size_t i = 0; i < flows; ++i) {
      REQUIRE(ends[i].wait_for(0s) == std::future_status::ready);
      bool has_ended = false;
      try {
        ends[i].get();
        has_ended = true;
      } catch (const std::future_error&) {
      } catch (const async::stopped&) {  // of a post() in a step
      } catch (const steps::Error& error) {
        CHECK(error.code() == async::stopped().what());
      }
      ++(has_ended ? values : broken);
      CHECK(accounts[i].ends == (has_ended ? 1 : 0));
      CHECK(accounts[i].begins == accounts[i].ends + accounts[i].cancels);
      CHECK(accounts[i].begins <= 1);
    }
    CHECK(held::live() == 0);
  }
  CHECK(values + broken == pools * flows);
  std::printf("figures: %zu pools, %zu flows ended, %zu were cancelled\n", pools, values, broken);
}
