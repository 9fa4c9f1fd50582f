// SPDX-License-Identifier: BSL-1.0
#include "steps/interop/asio.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include <boost/asio.hpp>

#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "support/busy_pool.hpp"
#include "support/io_context.hpp"
#include "support/live_count.hpp"
#include "support/scale.hpp"

// Flows of a pool that wait for operations of an io_context on another thread, beside tasks that block: each operation
// ends its step, or its timeout does, and nothing is left.

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::microseconds;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::asio_token;
using namespace std::chrono_literals;

namespace {

struct held : testing::live_count<held> {};

struct outcomes {
  std::atomic<std::size_t> waits{0}, timeouts{0}, others{0};
};

/// Adds a wait for a timer, which may time out.
void wait_for_timer(IAsyncSteps& asi, asio::io_context& io, microseconds delay, microseconds limit, outcomes& found) {
  asi.add(
      [&io, &found, delay, limit, h = held()](IAsyncSteps& step) {
        step.add(
            [&io, delay, limit](IAsyncSteps& waiting) {
              waiting.setTimeout(limit);
              auto timer = std::make_shared<asio::steady_timer>(io, delay);
              timer->async_wait(asio_token(waiting, timer));
            },
            [&found](IAsyncSteps&, ErrorCode code) {
              ++(code == steps::errors::Timeout ? found.timeouts : found.others);
            });
        step.add([&found](IAsyncSteps&) { ++found.waits; });
      },
      [](IAsyncSteps& step, ErrorCode) { step.success(); });
}

}  // namespace

TEST_CASE("a flow that moves between workers goes on after each of Asio's timers, or times out") {
  outcomes found;
  const std::size_t flows = testing::rounds(4'000);
  constexpr std::size_t waits = 3;
  std::size_t ended = 0;
  {
    testing::running_context context(1);
    async::threadpool pool(2);
    {
      const testing::busy_pool others(pool);
      std::minstd_rand random(static_cast<unsigned>(testing::seed()));
      std::deque<std::future<void>> ends;
      const auto take_end = [&] {
        REQUIRE(ends.front().wait_for(60s) == std::future_status::ready);
        ends.front().get();
        ends.pop_front();
        ++ended;
      };
      for (std::size_t i = 0; i < flows; ++i) {
        std::array<microseconds, 2 * waits> times;
        for (microseconds& each : times) each = microseconds(random() % 400);
        ends.push_back(steps::post(pool, [&, times, h = held()](IAsyncSteps& asi) {
          for (std::size_t n = 0; n < waits; ++n) {
            wait_for_timer(asi, context.io, times[2 * n], times[2 * n + 1], found);
          }
        }));
        if (ends.size() == 64) take_end();
      }
      while (!ends.empty()) take_end();
    }
    CHECK(pool.stats().moves > 0);
  }
  CHECK(ended == flows);
  CHECK(found.waits + found.timeouts == waits * flows);
  CHECK(found.others == 0);
  CHECK(found.waits > 0);
  CHECK(found.timeouts > 0);
  CHECK(held::live() == 0);
  std::printf("figures: %zu waits ended, %zu timed out\n", found.waits.load(), found.timeouts.load());
}

TEST_CASE("two flows that move between workers send each other bytes through sockets, in order") {
  const std::size_t count = testing::rounds(4'000);
  testing::running_context context(1);
  testing::connection pair(context.io);
  async::threadpool pool(2);
  const testing::busy_pool others(pool);
  /// Sends `first`, or waits for it, and so on with each following number.
  const auto talk = [&](tcp::socket& socket, unsigned char first, std::size_t& wrong) {
    return steps::post(pool, [&socket, &wrong, first, count](IAsyncSteps& asi) {
      auto byte = std::make_shared<unsigned char>(first);
      asi.repeat(count, [&socket, &wrong, byte, first](IAsyncSteps& turn, std::size_t i) {
        const auto sends = static_cast<unsigned char>(i + first);
        const auto send = [&socket, byte, sends](IAsyncSteps& step) {
          *byte = sends;
          asio::async_write(socket, asio::buffer(byte.get(), 1), asio_token(step, socket, byte));
        };
        const auto receive = [&socket, byte](IAsyncSteps& step) {
          asio::async_read(socket, asio::buffer(byte.get(), 1), asio_token(step, socket, byte));
        };
        const auto expected = static_cast<unsigned char>(i + 1 - first);
        const auto check = [&wrong, byte, expected](IAsyncSteps&, std::size_t bytes) {
          if (bytes != 1 || *byte != expected) ++wrong;
        };
        if (first == 0) {
          turn.add(send);
          turn.add([](IAsyncSteps&, std::size_t) {});
        }
        turn.add(receive);
        turn.add(check);
        if (first == 1) {
          turn.add(send);
          turn.add([](IAsyncSteps&, std::size_t) {});
        }
      });
    });
  };
  std::size_t wrong_here = 0, wrong_there = 0;
  std::future<void> ends[] = {talk(pair.here, 0, wrong_here), talk(pair.there, 1, wrong_there)};
  for (std::future<void>& end : ends) {
    REQUIRE(end.wait_for(60s) == std::future_status::ready);
    end.get();
  }
  CHECK(wrong_here == 0);
  CHECK(wrong_there == 0);
}
