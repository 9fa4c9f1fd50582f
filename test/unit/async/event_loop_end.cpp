// SPDX-License-Identifier: BSL-1.0
//
// Errors that end the program with a message.
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "async/event_loop.hpp"
#include "steps/asynctool.hpp"
#include "support/child.hpp"

using async::event_loop;
using testing::ending;
using testing::in_child;

namespace {

bool says(const ending& e, const char* text) { return e.error.find(text) != std::string::npos; }

}  // namespace

TEST_CASE("an unhandled exception ends the program, and its message is written") {
  const ending e = in_child([] {
    event_loop loop;
    loop.immediate([] { throw std::runtime_error("the reason"); });
    loop.iterate();
  });
  CHECK(e.aborted());
  CHECK(says(e, "asyncsteps: unhandled exception: the reason"));
}

TEST_CASE("so does an exception that is no std::exception, from a post or a timer") {
  const ending posted = in_child([] {
    event_loop loop;
    loop.post([] { throw 1; });
    loop.iterate();
  });
  CHECK(posted.aborted());
  CHECK(says(posted, "unhandled exception: an exception that is no std::exception"));
  const ending timer = in_child([] {
    event_loop loop;
    loop.deferred(std::chrono::seconds(0), [] { throw 1; });
    loop.iterate();
  });
  CHECK(timer.aborted());
}

TEST_CASE("a loop that is destroyed by its own callback ends the program with a message") {
  const ending e = in_child([] {
    std::optional<event_loop> loop(std::in_place);
    loop->immediate([&] { loop.reset(); });
    loop->run();
  });
  CHECK(e.aborted());
  CHECK(says(e, "an event_loop is destroyed by a callback of its own"));
}

TEST_CASE("a loop that is destroyed while another thread runs it ends the program with a message") {
  const ending e = in_child([] {
    std::optional<event_loop> loop(std::in_place);
    loop->immediate([&] { std::thread([&] { loop.reset(); }).join(); });
    loop->run();
  });
  CHECK(e.aborted());
  CHECK(says(e, "an event_loop is destroyed while another thread runs it"));
}

TEST_CASE("an AsyncTool that is destroyed by its own callback ends the program with a message") {
  const ending e = in_child([] {
    auto tool = std::make_unique<steps::AsyncTool>();
    tool->immediate([&] { tool.reset(); });
    std::this_thread::sleep_for(std::chrono::hours(1));
  });
  CHECK(e.aborted());
  CHECK(says(e, "an AsyncTool is destroyed by a callback of its own"));
}

TEST_CASE("a callback that returns does not end the program") {
  const ending e = in_child([] {
    event_loop loop;
    loop.immediate([] {});
    loop.iterate();
  });
  CHECK(e.exit_code == 0);
  CHECK(e.error.empty());
}
