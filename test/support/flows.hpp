// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <doctest/doctest.h>

#include <chrono>  // for nanoseconds
#include <string>  // for string
#include <vector>  // for vector

#include "async/event_loop.hpp"    // for event_loop
#include "async/manual_clock.hpp"  // for manual_clock
#include "steps/steps.hpp"         // for AsyncSteps, NitroSteps

/// Shared by tests of flows.
namespace testing {

/// A NitroSteps for tests that are not about its limits.
using roomy_nitro =
    steps::NitroSteps<steps::nitro::MaxSteps<64>, steps::nitro::MaxTimeouts<16>, steps::nitro::MaxCancels<16>,
                      steps::nitro::MaxStackAllocs<32>, steps::nitro::MaxParallel<16>, steps::nitro::BranchBytes<2048>,
                      steps::nitro::ArenaBytes<65536>, steps::nitro::MaxResultBytes<512>,
                      steps::nitro::MaxStateBytes<4096>>;

/// For TEST_CASE_TEMPLATE: every rule holds for both kinds of flow.
#define STEPS_FLOWS steps::AsyncSteps, testing::roomy_nitro

/// A loop in virtual time, and what its flows leave unhandled.
struct bench {
  bench() {
    loop.on_unhandled([this](std::exception_ptr error) {
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& e) {
        unhandled.emplace_back(e.what());
      } catch (...) {
        unhandled.emplace_back("?");
      }
    });
  }

  /// Runs what can run without time passing.
  void drain() {
    for (;;) {
      const auto next = loop.iterate();
      if (!next.have_work || next.delay.count() != 0) return;
    }
  }
  /// Lets time pass in steps of a millisecond.
  void pass(std::chrono::milliseconds time) {
    drain();
    for (; time.count() > 0; time -= std::chrono::milliseconds(1)) {
      clock.advance(std::chrono::milliseconds(1));
      drain();
    }
  }

  /// Lets time pass as the loop asks for it: timers fire at most a tick late.
  void run(std::chrono::nanoseconds time) {
    for (const auto end = clock.now() + time;;) {
      const auto next = loop.iterate();
      if (!next.have_work || clock.now() + next.delay > end) return clock.advance_to(end);
      clock.advance(next.delay);
    }
  }

  /// Lets time pass as the loop asks for it, which has to be waiting for something; returns the turns that it took.
  int turns_in(std::chrono::nanoseconds time) {
    const auto end = clock.now() + time;
    int turns = 0;
    for (; clock.now() < end; ++turns) {
      const auto next = loop.iterate();
      REQUIRE(next.have_work);
      clock.advance(next.delay);
    }
    return turns;
  }

  async::manual_clock clock;
  async::event_loop loop{clock};
  std::vector<std::string> unhandled;
};

/// An object that counts those alive.
struct counted {
  static inline int alive = 0;
  counted() { ++alive; }
  counted(const counted&) { ++alive; }
  counted(counted&&) noexcept { ++alive; }
  counted& operator=(const counted&) = default;
  counted& operator=(counted&&) = default;
  ~counted() { --alive; }
};

using lines = std::vector<std::string>;

/// An error handler that notes "code: info" and recovers.
inline auto noting(lines& seen) {
  return [&seen](steps::IAsyncSteps& asi, steps::ErrorCode code) {
    seen.push_back(std::string(code) + ": " + std::string(asi.state().error_info()));
    asi.success();
  };
}
/// The same, of the code alone.
inline auto noting_code(lines& seen) {
  return [&seen](steps::IAsyncSteps& asi, steps::ErrorCode code) {
    seen.emplace_back(code);
    asi.success();
  };
}

}  // namespace testing
