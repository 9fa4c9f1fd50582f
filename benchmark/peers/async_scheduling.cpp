// SPDX-License-Identifier: BSL-1.0
//
// The scheduling of this project's flows on its pool.
#include <async/event_loop.hpp>  // for event_loop
#include <async/threadpool.hpp>  // for threadpool
#include <steps/steps.hpp>       // for IAsyncSteps, post, completion

#include <atomic>   // for atomic
#include <chrono>   // for milliseconds
#include <latch>    // for latch
#include <thread>   // for sleep_for
#include <utility>  // for exchange, move
#include <vector>   // for vector

#include "../support/lateness_workloads.hpp"    // for add_lateness, add_loop_lateness
#include "../support/scheduling_workloads.hpp"  // for add_skew, measure_spread, spread_cases

namespace {

using steps::IAsyncSteps;

/// Adds a step that waits for a timer, and then calls due().
template <class Due>
void wait(IAsyncSteps& asi, std::chrono::milliseconds delay, Due due) {
  asi.add(
      [delay](IAsyncSteps& waiting) {
        waiting.setTimeout(delay);
        waiting.waitExternal();
      },
      [due](IAsyncSteps& over, steps::ErrorCode) {
        due();
        over.success();
      });
}

/// A flow, or a branch.
struct spread_flow {
  void operator()(IAsyncSteps& asi) const {
    if (waits) wait(asi, bench::first_wait, [] {});
    for (std::size_t i = 0; i < bench::spread_steps; ++i) asi.add([s = step](IAsyncSteps&) { s(); });
  }
  bench::spread_step step;
  bool waits;
};

void add_branches(IAsyncSteps& asi, std::size_t branches, const spread_flow& each) {
  IAsyncSteps& all = asi.parallel();
  for (std::size_t i = 0; i < branches; ++i) all.add(each);
}

bench::sample spread(const bench::spread_case& what, std::size_t flows) {
  async::threadpool pool(what.workers);
  return bench::measure_spread(what.workers, flows, [&](bench::spread_step step) {
    const spread_flow flow{step, what.waits};
    const auto post_all = [&pool, flow, flows] {
      for (std::size_t i = 0; i < flows; ++i) static_cast<void>(steps::post(pool, flow));
    };
    switch (what.start) {
      case bench::burst::outside:
        return post_all();
      case bench::burst::inside:
        return pool.execute(post_all);
      case bench::burst::parallel:
        return static_cast<void>(
            steps::post(pool, [flow, flows](IAsyncSteps& asi) { add_branches(asi, flows, flow); }));
      case bench::burst::nested:
        return static_cast<void>(steps::post(pool, [flow, flows](IAsyncSteps& asi) {
          IAsyncSteps& outer = asi.parallel();
          for (std::size_t i = 0; i < bench::spread_branches; ++i) {
            outer.add(
                [flow, flows](IAsyncSteps& branch) { add_branches(branch, flows / bench::spread_branches, flow); });
          }
        }));
    }
  });
}

class adapter {
 public:
  explicit adapter(std::size_t workers) : pool_(workers) {}
  template <class F>
  void execute(F f) {
    pool_.execute(std::move(f));
  }

  void expect_flows(std::size_t flows) { tokens_.resize(flows); }
  void add_waiting(const bench::waiting_flow& flow, std::latch& waiting) {
    static_cast<void>(steps::post(pool_, [this, flow, &waiting](IAsyncSteps& asi) {
      asi.add([this, flow, &waiting](IAsyncSteps& step) {
        tokens_[flow.index] = step.completion();
        waiting.count_down();
      });
      asi.repeat(flow.steps, [flow](IAsyncSteps& turn, std::size_t) {
        flow.step();
        turn.relinquish();
      });
    }));
  }
  void resume(std::size_t index) { std::exchange(tokens_[index], {}).success(); }

  void add_timer_loop(bench::timer_log& log, const std::atomic<bool>& stop, std::latch& ended) {
    static_cast<void>(steps::post(pool_, [&](IAsyncSteps& asi) {
      asi.loop([&log, &stop](IAsyncSteps& turn) {
        if (stop.load(std::memory_order_relaxed)) return turn.breakLoopNoThrow();
        log.arm();
        wait(turn, bench::beat, [&log] { log.due(); });
      });
      asi.add([&ended](IAsyncSteps&) { ended.count_down(); });
    }));
  }
  void add_blocking_loop(const std::atomic<bool>& stop, std::latch& ended) {
    static_cast<void>(steps::post(pool_, [&](IAsyncSteps& asi) {
      asi.loop([&stop](IAsyncSteps& turn) {
        if (stop.load(std::memory_order_relaxed)) return turn.breakLoopNoThrow();
        turn.add([](IAsyncSteps&) { std::this_thread::sleep_for(bench::blocked); });
        turn.relinquish();
      });
      asi.add([&ended](IAsyncSteps&) { ended.count_down(); });
    }));
  }

  template <class F>
  void post_to_loop(std::size_t loop, F f) {
    pool_.loop(loop).post(std::move(f));
  }
  void add_loop_timer(std::size_t loop, bench::timer_log& log, const std::atomic<bool>& stop, std::latch& ended) {
    arm(pool_.loop(loop), log, stop, ended);
  }

 private:
  static void arm(async::event_loop& loop, bench::timer_log& log, const std::atomic<bool>& stop, std::latch& ended) {
    if (stop.load(std::memory_order_relaxed)) return ended.count_down();
    log.arm();
    loop.deferred(bench::beat, [&] {
      log.due();
      arm(loop, log, stop, ended);
    });
  }

  std::vector<steps::completion<>> tokens_;
  async::threadpool pool_;
};

const bench::enroll contestants([](bench::plan& plan) {
  for (const bench::spread_case& each : bench::spread_cases()) {
    const bool is_posted = each.start == bench::burst::outside || each.start == bench::burst::inside;
    plan.add_to_curve(each.curve(), [&](std::size_t flows) {
      return bench::entry{is_posted ? "steps::post" : "steps::parallel", 0, 1,
                          [each, flows](std::size_t) { return spread(each, flows); }};
    });
  }
  bench::add_skew<adapter>(plan, "steps::post", 0);
  bench::add_lateness<adapter>(plan, "steps::post", 0);
  bench::add_loop_lateness<adapter>(plan, "async::event_loop", 0);
});

}  // namespace
