// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>     // for milliseconds
#include <exception>  // for exception
#include <optional>   // for optional
#include <stdexcept>  // for runtime_error
#include <string>     // for string
#include <utility>    // for move

#include "async/event_loop.hpp"         // for event_loop
#include "steps/interop/coroutine.hpp"  // for co, sleep_for, task
#include "support/flows.hpp"            // for bench
#include "support/live_count.hpp"       // for live_count

/// Coroutines for tests of waits for tasks.
namespace testing {

/// A local of each task that waits.
struct held : live_count<held> {};

template <class T>
steps::interop::task<T> after(async::event_loop& loop, std::chrono::milliseconds delay, T value) {
  const held mine;
  co_await steps::interop::sleep_for(loop, delay);
  co_return value;
}
inline steps::interop::task<> pause(async::event_loop& loop, std::chrono::milliseconds delay) {
  const held mine;
  co_await steps::interop::sleep_for(loop, delay);
}
inline steps::interop::task<int> fail_after(async::event_loop& loop, std::chrono::milliseconds delay,
                                            std::string text) {
  const held mine;
  co_await steps::interop::sleep_for(loop, delay);
  throw std::runtime_error(text);
}

/// What a task throws: of a steps::Error "code: info"; "" if it throws nothing.
template <class T>
steps::interop::task<std::string> text_of(steps::interop::task<T> work) {
  try {
    co_await std::move(work);
  } catch (const steps::Error& error) {
    co_return std::string(error.what()) + ": " + std::string(error.error_info());
  } catch (const std::exception& error) {
    co_return error.what();
  }
  co_return "";
}

/// Runs a coroutine as a step and returns its result, if it ends within `time`.
template <class Flow, class T, class Body>
std::optional<T> result_of(bench& b, Body body, std::chrono::milliseconds time = std::chrono::milliseconds(100)) {
  std::optional<T> got;
  Flow flow{b.loop};
  flow.add(steps::interop::co(body)).add([&](steps::IAsyncSteps&, T value) { got.emplace(std::move(value)); });
  flow.execute();
  b.pass(time);
  return got;
}

}  // namespace testing
