// SPDX-License-Identifier: BSL-1.0
//
// FutoIn's own implementation of AsyncSteps.
#include <futoin/ri/asyncsteps.hpp>  // for AsyncSteps
#include <futoin/ri/asynctool.hpp>   // for AsyncTool
#include <futoin/ri/nitrosteps.hpp>  // for NitroSteps

#include "../support/futoin_programs.hpp"  // for enroll_futoin
#include "../support/harness.hpp"          // for enroll, plan

namespace {

namespace ri = futoin::ri;
using nitro = ri::NitroSteps<ri::nitro::MaxSteps<3>, ri::nitro::MaxTimeouts<1>, ri::nitro::MaxCancels<1>,
                             ri::nitro::MaxExtended<1>>;

const bench::enroll contestants([](bench::plan& plan) {
  bench::enroll_futoin<futoin::IAsyncSteps, ri::AsyncTool, ri::AsyncSteps>(plan, "FutoIn AsyncSteps", 2);
  bench::enroll_futoin<futoin::IAsyncSteps, ri::AsyncTool, nitro>(plan, "FutoIn NitroSteps", 3);
});

}  // namespace
