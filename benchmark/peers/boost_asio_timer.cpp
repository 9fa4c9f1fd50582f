// SPDX-License-Identifier: BSL-1.0
//
// boost::asio::steady_timer.
#include <boost/asio/io_context.hpp>    // for io_context
#include <boost/asio/steady_timer.hpp>  // for steady_timer
#include <boost/version.hpp>            // for BOOST_LIB_VERSION

#include <cstddef>  // for size_t
#include <deque>    // for deque

#include "../support/curves.hpp"           // for rounds_of
#include "../support/harness.hpp"          // for enroll, plan
#include "../support/machine.hpp"          // for wall_clock
#include "../support/steps_workloads.hpp"  // for finished, timer_delay

namespace {

namespace asio = boost::asio;

/// Timers that are all armed at a time and then cancelled. Running their handlers, which get the error, is included.
bench::sample timers(std::size_t count, std::size_t rounds, std::size_t warm_up) {
  asio::io_context loop(1);
  std::deque<asio::steady_timer> armed;
  std::size_t done = 0;
  auto begin = bench::wall_clock::now();
  for (std::size_t r = 0; r < rounds + warm_up; ++r) {
    if (r == warm_up) begin = bench::wall_clock::now();
    armed.clear();
    for (std::size_t i = 0; i < count; ++i) {
      armed.emplace_back(loop, bench::timer_delay(i)).async_wait([&done](boost::system::error_code error) {
        done += error == asio::error::operation_aborted ? 1 : 0;
      });
    }
    loop.poll();
    for (asio::steady_timer& timer : armed) timer.cancel();
    loop.poll();
    loop.restart();
  }
  return bench::finished(begin, done, count * (rounds + warm_up));
}

const bench::enroll these("Boost.Asio", BOOST_LIB_VERSION, [](bench::plan& plan) {
  plan.add("steps/timers", {"boost::asio::steady_timer", 2, plan.size(1'000'000, 200'000),
                            [](std::size_t count) { return timers(count, 1, 0); }});
  plan.add_to_curve("growth/timers cancelled", [&](std::size_t armed) {
    const std::size_t rounds = bench::rounds_of(armed, plan.size(1'000'000, 100'000));
    return bench::entry{"boost::asio::steady_timer", 2, rounds * armed,
                        [=](std::size_t) { return timers(armed, rounds, 1); }};
  });
});

}  // namespace
