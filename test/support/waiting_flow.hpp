// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>   // for atomic
#include <chrono>   // for milliseconds
#include <future>   // for future
#include <thread>   // for sleep_for
#include <utility>  // for move

#include "async/threadpool.hpp"  // for threadpool
#include "steps/steps.hpp"       // for AsyncSteps, IAsyncSteps, completion

namespace testing {

/// Fails by the test's time limit.
inline void until(const std::atomic<bool>& is) {
  while (!is) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// A flow whose next step, given to then(), begins when the token is called.
struct waiting_flow {
  explicit waiting_flow(async::threadpool& pool) : flow(pool) {
    flow.add([this](steps::IAsyncSteps& asi) {
      token = asi.completion<>();
      waits = true;
    });
  }
  template <class F>
  std::future<void> then(F f) {
    flow.add(std::move(f));
    std::future<void> end = flow.promise();
    until(waits);
    return end;
  }
  steps::AsyncSteps flow;
  std::atomic<bool> waits{false};
  steps::completion<> token;
};

}  // namespace testing
