// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <utility>

#include <boost/asio.hpp>  // 1.74 forgets <utility>
#include <chrono>
#include <functional>
#include <future>
#include <memory>

#include "steps/asyncsteps.hpp"
#include "steps/asynctool.hpp"
#include "steps/interop/asio.hpp"
#include "support/flows.hpp"

// Operations that are destroyed before their end, also with their io_context.

namespace asio = boost::asio;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::asio_loop;
using steps::interop::asio_token;
using testing::lines;
using namespace std::chrono_literals;

namespace {

auto noting(lines& seen) {
  return [&seen](IAsyncSteps& asi, ErrorCode code) {
    seen.emplace_back(code);
    asi.success();
  };
}

}  // namespace

TEST_CASE_TEMPLATE("an operation that goes with its io_context ends its step", Flow, STEPS_FLOWS) {
  for (const bool keeps_object : {false, true}) {
    for (const bool strand : {false, true}) {
      CAPTURE(keeps_object);
      CAPTURE(strand);
      steps::AsyncTool tool;
      Flow flow{tool};
      lines seen;
      std::promise<void> started;
      auto io = std::make_unique<asio::io_context>();
      auto timer = strand ? std::make_shared<asio::steady_timer>(asio::make_strand(*io), 1h)
                          : std::make_shared<asio::steady_timer>(*io, 1h);
      flow.add(
          [&](IAsyncSteps& asi) {
            keeps_object ? timer->async_wait(asio_token(asi, timer)) : timer->async_wait(asio_token(asi, *timer));
            started.set_value();
          },
          noting(seen));
      auto end = flow.promise();
      started.get_future().get();
      io->poll();
      timer.reset();
      io.reset();
      end.get();
      CHECK(seen == lines{"BrokenPromise"});
    }
  }
}

TEST_CASE("a step that ends after its io_context leaves the io_context alone") {
  async::event_loop loop;
  lines seen;
  steps::AsyncSteps flow{loop};
  auto io = std::make_unique<asio::io_context>();
  auto timer = std::make_shared<asio::steady_timer>(asio::make_strand(*io), 1h);
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setCancel([&](IAsyncSteps&) { seen.emplace_back("cancelled"); });
        timer->async_wait(asio_token(asi, timer));
      },
      noting(seen));
  flow.execute();
  loop.iterate();
  timer.reset();
  io.reset();
  flow.cancel();  // before the loop has heard of the operation's end
  loop.iterate();
  CHECK(seen == lines{"cancelled"});
}

TEST_CASE("a handler that is moved and copied ends its step once, with its last copy") {
  asio::io_context io;
  asio_loop loop{io};
  asio::steady_timer timer(io);
  lines seen;
  std::function<void(int)> last;  // holds a copy
  const auto operation = [&](auto token) {
    asio::async_initiate<decltype(token), void(int)>(
        [&](auto handler) {
          auto moved = std::move(handler);
          last = moved;
        },
        token);
  };
  int got = 0;
  steps::AsyncSteps flow{loop};
  flow.add([&](IAsyncSteps& asi) { operation(asio_token(asi, timer)); }, noting(seen))
      .add([&](IAsyncSteps&, int value) { got = value; })
      .add([&](IAsyncSteps& asi) { operation(asio_token(asi, timer)); }, noting(seen));
  flow.execute();
  io.run();
  CHECK(seen == lines{});
  last(7);
  last = nullptr;
  io.restart();
  io.run();
  CHECK(got == 7);
  CHECK(seen == lines{});
  last = nullptr;
  io.restart();
  io.run();
  CHECK(seen == lines{"BrokenPromise"});
}
