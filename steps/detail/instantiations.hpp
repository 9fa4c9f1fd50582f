// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_TEMPLATE
#include "steps/detail/calls.hpp"        // for flow, group_step, leave_iteration, limits
#include "steps/errors.hpp"              // for ErrorCode
#include "steps/iasyncsteps.hpp"         // for IAsyncSteps, LoopLabel

#ifdef ASYNCSTEPS_TEMPLATE
/// Templates on the type of `asi` that asyncsteps::compiled has for all its users: those that are seldom called.
namespace steps::inline v0_1::detail {

ASYNCSTEPS_TEMPLATE void group_step<IAsyncSteps>::end_with_more(group_step&, flow&, flow&);
ASYNCSTEPS_TEMPLATE void group_step<IAsyncSteps>::fail_with(group_step&, flow&, flow&);
ASYNCSTEPS_TEMPLATE void group_step<IAsyncSteps>::withdraw(flow&) noexcept;
ASYNCSTEPS_TEMPLATE flow* group_step<IAsyncSteps>::add_limited_branch(limits&);
ASYNCSTEPS_TEMPLATE void leave_iteration<IAsyncSteps>(step&, ErrorCode, LoopLabel);

}  // namespace steps::inline v0_1::detail
#endif
