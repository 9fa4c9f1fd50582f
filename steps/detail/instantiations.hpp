// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_TEMPLATE
#include "steps/detail/calls.hpp"        // for branch_of, group_step, leave_iteration, level_outside
#include "steps/errors.hpp"              // for ErrorCode
#include "steps/iasyncsteps.hpp"         // for IAsyncSteps, LoopLabel

#ifdef ASYNCSTEPS_TEMPLATE
/// Templates on the type of `asi` that asyncsteps::compiled has for all its users.
namespace steps::inline v0_1::detail {

ASYNCSTEPS_TEMPLATE struct group_step<IAsyncSteps>;
ASYNCSTEPS_TEMPLATE step* branch_of<IAsyncSteps>(step&);
ASYNCSTEPS_TEMPLATE step* level_outside<IAsyncSteps>(step&);
ASYNCSTEPS_TEMPLATE void leave_iteration<IAsyncSteps>(step&, ErrorCode, LoopLabel);

}  // namespace steps::inline v0_1::detail
#endif
