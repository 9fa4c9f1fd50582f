// SPDX-License-Identifier: BSL-1.0
//
// Boost.Asio: the scheduling of chains of handlers on a thread_pool. They wait with a steady_timer. A loop is a strand.
#include <boost/asio/bind_executor.hpp>  // for bind_executor
#include <boost/asio/post.hpp>           // for post
#include <boost/asio/steady_timer.hpp>   // for steady_timer
#include <boost/asio/strand.hpp>         // for strand, make_strand
#include <boost/asio/thread_pool.hpp>    // for thread_pool

#include <atomic>   // for atomic
#include <latch>    // for latch
#include <memory>   // for make_shared, shared_ptr
#include <thread>   // for sleep_for
#include <utility>  // for move
#include <vector>   // for vector

#include "../support/lateness_workloads.hpp"    // for add_lateness, add_loop_lateness
#include "../support/scheduling_workloads.hpp"  // for add_skew, measure_spread, spread_cases

namespace {

namespace asio = boost::asio;

/// Runs `work` `length` times, by a chain of handlers.
template <class Place, class Work>
void chain(Place& place, std::size_t length, Work work) {
  asio::post(place, [&place, length, work] {
    work();
    if (length != 1) chain(place, length - 1, work);
  });
}

/// Starts the chains of a case.
struct spread_chains {
  void start_one() const {
    if (!waits) return chain(pool, bench::spread_steps, step);
    const auto timer = std::make_shared<asio::steady_timer>(pool, bench::first_wait);
    timer->async_wait([timer, each = *this](boost::system::error_code) {
      each.step();
      chain(each.pool, bench::spread_steps - 1, each.step);
    });
  }
  void start(std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) start_one();
  }
  asio::thread_pool& pool;
  bench::spread_step step;
  bool waits;
};

/// A branch is a handler that starts its chain.
bench::sample spread(const bench::spread_case& what, std::size_t flows) {
  asio::thread_pool pool(what.workers);
  return bench::measure_spread(what.workers, flows, [&](bench::spread_step step) {
    const spread_chains chains{pool, step, what.waits};
    switch (what.start) {
      case bench::burst::outside:
        return chains.start(flows);
      case bench::burst::inside:
      case bench::burst::parallel:
        return asio::post(pool, [chains, flows] { chains.start(flows); });
      case bench::burst::nested:
        return asio::post(pool, [chains, flows] {
          for (std::size_t i = 0; i < bench::spread_branches; ++i) {
            asio::post(chains.pool, [chains, flows] { chains.start(flows / bench::spread_branches); });
          }
        });
    }
  });
}

class adapter {
 public:
  explicit adapter(std::size_t workers) : pool_(workers) {
    while (strands_.size() != bench::disturbed_loops) strands_.push_back(asio::make_strand(pool_.get_executor()));
  }
  ~adapter() { pool_.join(); }
  template <class F>
  void execute(F f) {
    asio::post(pool_, std::move(f));
  }

  void expect_flows(std::size_t flows) { flows_.reserve(flows); }
  void add_waiting(const bench::waiting_flow& flow, std::latch& waiting) {
    flows_.push_back({asio::make_strand(pool_.get_executor()), flow});
    waiting.count_down();
  }
  void resume(std::size_t index) {
    each_flow& flow = flows_[index];
    chain(flow.strand, flow.flow.steps, [&flow] { flow.flow.step(); });
  }

  void add_timer_loop(bench::timer_log& log, const std::atomic<bool>& stop, std::latch& ended) {
    add_timer(pool_.get_executor(), log, stop, ended);
  }
  void add_blocking_loop(const std::atomic<bool>& stop, std::latch& ended) {
    asio::post(pool_, [this, &stop, &ended] {
      if (stop.load(std::memory_order_relaxed)) return ended.count_down();
      std::this_thread::sleep_for(bench::blocked);
      add_blocking_loop(stop, ended);
    });
  }

  template <class F>
  void post_to_loop(std::size_t loop, F f) {
    asio::post(strands_[loop], std::move(f));
  }
  void add_loop_timer(std::size_t loop, bench::timer_log& log, const std::atomic<bool>& stop, std::latch& ended) {
    add_timer(strands_[loop], log, stop, ended);
  }

 private:
  using strand = asio::strand<asio::thread_pool::executor_type>;
  struct each_flow {
    adapter::strand strand;
    bench::waiting_flow flow;
  };
  template <class Executor>
  struct timer_loop {
    timer_loop(asio::thread_pool& pool, const Executor& on, bench::timer_log& where, const std::atomic<bool>& until,
               std::latch& end)
        : timer(pool), executor(on), log(where), stop(until), ended(end) {}
    void arm() {
      if (stop.load(std::memory_order_relaxed)) return ended.count_down();
      log.arm();
      timer.expires_after(bench::beat);
      timer.async_wait(asio::bind_executor(executor, [this](boost::system::error_code) {
        log.due();
        arm();
      }));
    }
    asio::steady_timer timer;
    Executor executor;
    bench::timer_log& log;
    const std::atomic<bool>& stop;
    std::latch& ended;
  };
  template <class Executor>
  void add_timer(const Executor& on, bench::timer_log& log, const std::atomic<bool>& stop, std::latch& ended) {
    const auto made = std::make_shared<timer_loop<Executor>>(pool_, on, log, stop, ended);
    timers_.push_back(made);
    made->arm();
  }

  asio::thread_pool pool_;
  std::vector<each_flow> flows_;
  std::vector<strand> strands_;
  std::vector<std::shared_ptr<void>> timers_;
};

const bench::enroll contestants([](bench::plan& plan) {
  for (const bench::spread_case& each : bench::spread_cases()) {
    plan.add_to_curve(each.curve(), [&](std::size_t flows) {
      return bench::entry{"boost::asio::thread_pool", 11, 1,
                          [each, flows](std::size_t) { return spread(each, flows); }};
    });
  }
  bench::add_skew<adapter>(plan, "boost::asio::thread_pool", 11);
  bench::add_lateness<adapter>(plan, "boost::asio::thread_pool", 11);
  bench::add_loop_lateness<adapter>(plan, "boost::asio::thread_pool", 11);
});

}  // namespace
