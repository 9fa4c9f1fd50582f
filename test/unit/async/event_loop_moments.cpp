// SPDX-License-Identifier: BSL-1.0
//
// Calls at awkward moments: while another operation ends.
#include <doctest/doctest.h>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "async/detail/loop/loop_entry.hpp"
#include "async/event_loop.hpp"
#include "async/manual_clock.hpp"

using async::event_loop;
using async::manual_clock;
using namespace std::chrono_literals;

namespace {

/// Lives as long as the callback of its time limit.
struct session {
  explicit session(bool& e) : ended(e) {}
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session() { ended = true; }

  bool& ended;
  event_loop::handle limit{};
};

}  // namespace

TEST_CASE("a handle may be among the captures of the callback that it cancels") {
  event_loop loop;
  const auto cancel_last = [&loop] {
    bool ended = false;
    auto owned = std::make_shared<session>(ended);
    session& only = *owned;
    only.limit = loop.deferred(1h, [s = std::move(owned)] {});
    CHECK_FALSE(ended);
    CHECK(only.limit.cancel());
    CHECK(ended);
  };
  cancel_last();
  loop.immediate(cancel_last);
  loop.iterate();
}

TEST_CASE("a handle keeps a callback that it is given while it cancels") {
  event_loop loop;
  int calls = 0;
  event_loop::handle handle;
  const auto renew = [&](int*) { handle = loop.immediate([&calls] { ++calls; }); };
  int nothing = 0;
  handle = loop.deferred(1h, [at_end = std::unique_ptr<int, decltype(renew)>(&nothing, renew)] {});
  CHECK(handle.cancel());
  CHECK(handle);
  loop.iterate();
  CHECK(calls == 1);
  CHECK_FALSE(handle);
}

TEST_CASE("stop() in the last turn of a run_for() ends that one, and not the next") {
  manual_clock clock;
  event_loop loop(clock);
  bool has_stopped = false;
  loop.deferred(1ms, [&clock] { clock.advance(20ms); });
  loop.deferred(5ms, [&] {
    loop.stop();
    has_stopped = true;
  });
  loop.run_for(10ms);
  REQUIRE(has_stopped);

  bool has_run = false;
  loop.deferred(1ms, [&has_run] { has_run = true; });
  loop.run_for(5ms);
  CHECK(has_run);
}

TEST_CASE("a hook for unhandled exceptions may set another one, and keeps its captures") {
  event_loop loop;
  const auto captured = std::make_shared<int>(1);
  int by_first = 0;
  int by_second = 0;
  loop.on_unhandled([&, captured](std::exception_ptr) {
    loop.on_unhandled([&by_second](std::exception_ptr) { ++by_second; });
    by_first += static_cast<int>(captured.use_count());
  });
  CHECK(captured.use_count() == 2);
  for (int i = 0; i < 3; ++i) loop.post([] { throw 1; });
  loop.iterate();
  CHECK(by_first == 2);  // it is still there
  CHECK(by_second == 2);
  CHECK(captured.use_count() == 1);
}

TEST_CASE("trim does not touch a loop that another thread is in") {
  event_loop loop;
  auto& core = async::detail::core_of(loop);
  core.ready().reserve(10000);
  core.ready().unreserve(10000);
  std::promise<void> is_in;
  std::promise<void> trimmed;
  std::thread guest([&] {
    const async::detail::loop_entry here(core);
    CHECK(static_cast<bool>(here));
    is_in.set_value();
    trimmed.get_future().wait();
  });
  is_in.get_future().wait();
  CHECK(loop.trim() == 0);
  trimmed.set_value();
  guest.join();
  CHECK(loop.trim() > 0);
}

TEST_CASE("an embedder is woken by an exception that leaves iterate, and then by new work") {
  int woken = 0;
  event_loop loop([&] { ++woken; });
  loop.on_unhandled([](std::exception_ptr error) { std::rethrow_exception(error); });
  int ran = 0;
  loop.immediate([] { throw 1; });
  loop.immediate([&] { ++ran; });
  CHECK_THROWS_AS(loop.iterate(), int);
  CHECK(woken == 1);
  while (loop.iterate().have_work) {
  }
  CHECK(ran == 1);
  CHECK(woken == 1);
  loop.immediate([&] {
    ++ran;
    CHECK_THROWS_AS(loop.iterate(), std::logic_error);
  });
  CHECK(woken == 2);
  loop.iterate();
  CHECK(ran == 2);
  CHECK(woken == 2);
}
