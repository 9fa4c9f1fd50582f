// SPDX-License-Identifier: BSL-1.0
//
// boost::asio::steady_timer.
#include <boost/asio/io_context.hpp>    // for io_context
#include <boost/asio/steady_timer.hpp>  // for steady_timer
#include <boost/version.hpp>            // for BOOST_LIB_VERSION

#include <cstddef>  // for size_t
#include <deque>    // for deque

#include "../support/harness.hpp"          // for enroll, plan
#include "../support/machine.hpp"          // for wall_clock
#include "../support/steps_workloads.hpp"  // for finished, timer_delay

namespace {

namespace asio = boost::asio;

/// Timers that are all armed at a time and then cancelled; their handlers, which learn of it, are part of the work.
bench::sample timers(std::size_t count) {
  asio::io_context loop(1);
  std::deque<asio::steady_timer> armed;
  std::size_t done = 0;
  const auto begin = bench::wall_clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    armed.emplace_back(loop, bench::timer_delay(i)).async_wait([&done](boost::system::error_code error) {
      done += error == asio::error::operation_aborted ? 1 : 0;
    });
  }
  loop.poll();
  for (asio::steady_timer& timer : armed) timer.cancel();
  loop.poll();
  return bench::finished(begin, done, count);
}

const bench::enroll these("Boost.Asio", BOOST_LIB_VERSION, [](bench::plan& plan) {
  plan.add("steps/timers", {"boost::asio::steady_timer", 2, plan.size(1'000'000, 200'000), timers});
});

}  // namespace
