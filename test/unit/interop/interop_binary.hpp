// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>
#include <vector>

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
