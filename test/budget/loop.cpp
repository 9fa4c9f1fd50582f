// SPDX-License-Identifier: BSL-1.0
#include <chrono>
#include <cstddef>
#include <cstdlib>

#include "async/event_loop.hpp"
#include "async/manual_clock.hpp"
#include "budget.hpp"

namespace {

using namespace std::chrono_literals;

void drain(async::event_loop& loop) {
  while (loop.iterate().have_work) {
  }
}

/// An immediate that makes the next one: a turn of the loop each.
void chain(std::size_t times) {
  async::manual_clock clock;
  async::event_loop loop(clock);
  struct link {
    async::event_loop& loop;
    std::size_t left;
    void operator()() const {
      if (left != 0) static_cast<void>(loop.immediate(link{loop, left - 1}));
    }
  };
  static_cast<void>(loop.immediate(link{loop, times}));
  drain(loop);
}

/// `times` calls of make(), a hundred in a callback of the loop.
template <class Make>
void within(std::size_t times, Make make) {
  async::manual_clock clock;
  async::event_loop loop(clock);
  for (std::size_t i = 0; i < times; i += 100) {
    static_cast<void>(loop.immediate([&] {
      for (std::size_t j = 0; j < 100; ++j) make(loop);
    }));
    for (auto cycle = loop.iterate(); cycle.have_work; cycle = loop.iterate()) clock.advance(cycle.delay);
  }
}

void immediate(std::size_t times) {
  std::size_t done = 0;
  within(times, [&done](async::event_loop& loop) { static_cast<void>(loop.immediate([&done] { ++done; })); });
  if (done != times) std::abort();
}

void post(std::size_t times) {
  std::size_t done = 0;
  within(times, [&done](async::event_loop& loop) { loop.post([&done] { ++done; }); });
  if (done != times) std::abort();
}

void deferred(std::size_t times) {
  std::size_t done = 0;
  within(times, [&done](async::event_loop& loop) { static_cast<void>(loop.deferred(1ms, [&done] { ++done; })); });
  if (done != times) std::abort();
}

void cancelled(std::size_t times) {
  within(times, [](async::event_loop& loop) {
    if (!loop.deferred(500ms, [] { std::abort(); }).cancel()) std::abort();
  });
}

/// Turns, 10 ms apart, beside 1,000 timers that are far away.
void far_timers(std::size_t times) {
  async::manual_clock clock;
  async::event_loop loop(clock);
  for (int i = 0; i < 1000; ++i) static_cast<void>(loop.deferred(24h, [] { std::abort(); }));
  for (std::size_t i = 0; i < times; ++i) {
    clock.advance(10ms);
    loop.iterate();
  }
}

}  // namespace

int main() {
  return budget::measure({
      {"event_loop: a turn with an immediate that makes the next", 1000, chain},
      {"event_loop: immediate, and the callback", 1000, immediate},
      {"event_loop: post by the owner, and the callback", 1000, post},
      {"event_loop: deferred, and the callback", 1000, deferred},
      {"event_loop: deferred, and its cancel", 1000, cancelled},
      {"event_loop: a turn after 10 ms, beside 1,000 timers of a day", 1000, far_timers},
  });
}
