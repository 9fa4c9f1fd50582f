// SPDX-License-Identifier: BSL-1.0
//
// Boost.Asio: handlers on a thread_pool, with a strand for each flow; and io_contexts that post to each other.
#include <boost/asio/executor_work_guard.hpp>  // for make_work_guard
#include <boost/asio/io_context.hpp>           // for io_context
#include <boost/asio/post.hpp>                 // for post
#include <boost/asio/strand.hpp>               // for make_strand
#include <boost/asio/thread_pool.hpp>          // for thread_pool
#include <boost/version.hpp>                   // for BOOST_LIB_VERSION
#include <future>                              // for packaged_task, promise
#include <memory>                              // for unique_ptr
#include <string>                              // for string
#include <thread>                              // for thread
#include <vector>                              // for vector

#include "../support/flows_workloads.hpp"  // for add_futures, add_scaling

namespace {

namespace asio = boost::asio;

struct adapter {
  static constexpr double nanoseconds_per_task = 500;
  explicit adapter(std::size_t workers) : pool(workers) {}
  template <class F>
  auto post(F f) {
    std::packaged_task<decltype(f())()> task(std::move(f));
    auto future = task.get_future();
    asio::post(pool, std::move(task));
    return future;
  }
  template <class F>
  void execute(F f) {
    asio::post(pool, std::move(f));
  }
  asio::thread_pool pool;
};

/// Runs `work` `length` times, by a chain of handlers on a strand.
template <class Strand, class Work>
void chain(const Strand& strand, std::size_t length, Work work) {
  asio::post(strand, [strand, length, work] {
    work();
    if (length != 1) chain(strand, length - 1, work);
  });
}

template <class Work>
bench::sample chains(std::size_t workers, std::size_t count, Work work) {
  asio::thread_pool pool(workers);
  bench::sample result =
      bench::measure_flows(count, 3, [&] { chain(asio::make_strand(pool.get_executor()), 3, work); });
  pool.join();
  return result;
}

bench::sample busy(std::size_t workers, std::size_t count) {
  return chains(workers, count, [] {
    bench::work_for_a_microsecond();
    bench::tally::count();
  });
}

/// An io_context with a thread.
struct context {
  ~context() {
    keep.reset();
    thread.join();
  }
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> keep = asio::make_work_guard(io);
  std::thread thread{[this] { io.run(); }};
};

/// Posts itself to and fro between two executors.
template <class Executor>
struct ping_pong {
  Executor left, right;
  std::size_t hops_left;
  std::promise<void> end;

  void hop() {
    if (hops_left-- == 0) return end.set_value();
    asio::post(hops_left % 2 == 0 ? right : left, [this] { hop(); });
  }
};

/// Round trips of pairs between the executors that left() and right() make.
template <class Left, class Right>
bench::sample round_trips(std::size_t pairs, std::size_t trips, Left left, Right right) {
  using pair = ping_pong<decltype(left())>;
  return bench::measure_round_trips(pairs, trips, [&](std::size_t each) {
    std::vector<std::unique_ptr<pair>> all;
    for (std::size_t i = 0; i < pairs; ++i) {
      all.push_back(std::unique_ptr<pair>(new pair{left(), right(), 2 * each, {}}));
    }
    const auto begin = bench::wall_clock::now();
    for (const auto& one : all) one->hop();
    for (const auto& one : all) one->end.get_future().get();
    return bench::nanoseconds(bench::wall_clock::now() - begin);
  });
}

bench::sample round_trips_of_contexts(std::size_t pairs, std::size_t trips) {
  context left, right;
  return round_trips(
      pairs, trips, [&left] { return left.io.get_executor(); }, [&right] { return right.io.get_executor(); });
}

bench::sample round_trips_of_pool(std::size_t pairs, std::size_t trips) {
  asio::thread_pool pool(2);
  const auto strand = [&pool] { return asio::make_strand(pool.get_executor()); };
  const bench::sample result = round_trips(pairs, trips, strand, strand);
  pool.join();
  return result;
}

/// One thread runs two contexts whose handlers post each other.
bench::sample hops(std::size_t trips) {
  asio::io_context left{1}, right{1};
  const auto keep_left = asio::make_work_guard(left), keep_right = asio::make_work_guard(right);
  bench::sample result = bench::measure_round_trips(1, trips, [&](std::size_t each) {
    std::size_t hops_left = 2 * each;
    const auto hop = [&](const auto& self) -> void {
      if (--hops_left != 0) asio::post(hops_left % 2 == 0 ? left : right, [&self] { self(self); });
    };
    const auto begin = bench::wall_clock::now();
    asio::post(left, [&hop] { hop(hop); });
    while (hops_left != 0) {
      left.poll();
      right.poll();
    }
    return bench::nanoseconds(bench::wall_clock::now() - begin) / 2;
  });
  result.figures.clear();
  return result;
}

const bench::enroll contestants("Boost", BOOST_LIB_VERSION, [](bench::plan& plan) {
  bench::add_futures<adapter>(plan, "boost::asio::thread_pool", 11);
  plan.add("flows/short", {"boost::asio::thread_pool", 11, plan.size(1'000'000, 200'000),
                           [](std::size_t count) { return chains(2, count, [] { bench::tally::count(); }); }});
  for (const std::size_t pairs : {std::size_t{1}, std::size_t{64}}) {
    const std::string each = pairs == 1 ? "" : " x64";
    const std::size_t trips = pairs == 1 ? plan.size(20'000, 5'000) : plan.size(320'000, 64'000);
    plan.add("flows/round trip" + each, {"boost::asio::io_context", 12, trips,
                                         [pairs](std::size_t count) { return round_trips_of_contexts(pairs, count); }});
    plan.add("flows/round trip pool" + each, {"boost::asio::thread_pool", 11, trips, [pairs](std::size_t count) {
                                                return round_trips_of_pool(pairs, count);
                                              }});
  }
  plan.add("flows/hop", {"boost::asio::io_context", 12, plan.size(500'000, 100'000), hops});
  bench::add_scaling(plan, "boost::asio::thread_pool", 11, busy);
});

}  // namespace
