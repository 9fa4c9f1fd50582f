// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <utility>

#include <boost/asio.hpp>  // 1.74 forgets <utility>
#include <chrono>
#include <cstddef>
#include <new>

#include "steps/interop/asio.hpp"
#include "support/alloc_counter.hpp"

// The failure of allocations of an asio_loop.

namespace asio = boost::asio;
using steps::interop::asio_loop;
using namespace std::chrono_literals;

TEST_CASE(
    "every allocation of an asio_loop's constructor but those of Asio's strand fails once: it throws std::bad_alloc") {
  std::size_t of_strand = 0;  // Boost 1.74 crashes when these fail
  {
    asio::io_context io;
    const testing::alloc_counter counter;
    const auto strand = asio::make_strand(io);
    of_strand = counter.calls();
  }
  std::size_t failed = 0;
  for (bool made = false; !made; ++failed) {
    asio::io_context io;
    testing::fail_alloc failing(1 + of_strand + failed);  // the driver's block is the first
    try {
      asio_loop loop{io};
      made = true;
      failing.stop();
      io.run();
    } catch (const std::bad_alloc&) {
      failing.stop();
    }
    CHECK(made != failing.has_failed());
    io.poll();
  }
  CHECK(failed > 2);
}

TEST_CASE("every allocation of an asio_loop's turns fails once: the loop goes on with the next run()") {
  bool done = false;
  for (std::size_t k = 0; !done; ++k) {
    CAPTURE(k);
    REQUIRE(k < 100);
    asio::io_context io;
    asio_loop loop{io};
    int ran = 0;
    for (int i = 0; i < 300; ++i) loop.immediate([&] { ++ran; });  // more than a turn runs
    loop.deferred(1ms, [&] { ++ran; });
    loop.deferred(3ms, [&] { ++ran; });
    testing::fail_alloc failing(k);
    for (int runs = 0; runs < 10 && !io.stopped(); ++runs) {
      try {
        io.run();
      } catch (const std::bad_alloc&) {
      }
    }
    failing.stop();
    done = !failing.has_failed();
    CHECK(ran == 302);
  }
}
