// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "async/event_loop.hpp"
#include "async/future.hpp"
#include "async/threadpool.hpp"
#include "steps/interop/binary.hpp"
#include "steps/steps.hpp"
#include "unit/interop/interop_binary.h"

/// What the tests of the binary interface share.
namespace testing {

inline const FutoInType int32_type{FTN_TYPE_INT32, nullptr};

inline FutoInArgs args_of(std::int32_t number) {
  FutoInArgs args{};
  args.arg0.type = &int32_type;
  args.arg0.i32 = number;
  return args;
}

inline std::vector<int> entries(const journal& j) { return {j.entries, j.entries + j.count}; }

/// How a flow on a loop of this thread has ended: "" or the code of its error.
inline std::string end_of(steps::AsyncSteps& flow, async::event_loop& loop) {
  async::future<void> end = flow.promise();
  while (!end.is_ready()) loop.run_for(std::chrono::milliseconds(1));
  try {
    end.get();
    return {};
  } catch (const steps::Error& e) {
    return e.code().c_str();
  }
}

/// Runs a flow on a pool: build(root) adds its steps.
template <class T = void, class Root = steps::AsyncSteps, class Build>
T run_on_pool(Build build) {
  async::threadpool pool(2);
  Root flow{pool};
  build(flow);
  return flow.template promise<T>().get();
}

/// The same in another runtime.
template <class T = void, class Build>
T run_elsewhere(Build build) {
  return run_on_pool<T>([&](steps::IAsyncSteps& root) {
    root.add([&](steps::IAsyncSteps& asi) {
      FutoInAsyncSteps* const other = other_runtime(&steps::interop::binary(asi));
      asi.onEnd([other] { other->api->free(other); });
      build(*other);
    });
  });
}

}  // namespace testing
