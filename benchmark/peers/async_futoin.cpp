// SPDX-License-Identifier: BSL-1.0
//
// This project's flows under the names of the FutoIn C++ API.
#include <steps/interop/futoin.hpp>  // for AsyncTool, AsyncSteps, NitroSteps

#include "../support/futoin_programs.hpp"  // for enroll_futoin
#include "../support/harness.hpp"          // for enroll, plan

namespace {

namespace ri = futoin::ri;
using nitro = ri::NitroSteps<ri::nitro::MaxSteps<3>, ri::nitro::MaxTimeouts<1>, ri::nitro::MaxCancels<1>,
                             ri::nitro::MaxExtended<1>>;

const bench::enroll contestants([](bench::plan& plan) {
  bench::enroll_futoin<futoin::IAsyncSteps, ri::AsyncTool, ri::AsyncSteps>(plan, "steps::AsyncSteps", 0);
  bench::enroll_futoin<futoin::IAsyncSteps, ri::AsyncTool, nitro>(plan, "steps::NitroSteps", 1);
});

}  // namespace
