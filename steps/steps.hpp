// SPDX-License-Identifier: BSL-1.0
#pragma once

/// Everything of steps/ but interop/.
#include "steps/asyncsteps.hpp"   // for AsyncSteps
#include "steps/asynctool.hpp"    // for AsyncTool
#include "steps/completion.hpp"   // for completion
#include "steps/errors.hpp"       // for ErrorCode, Error
#include "steps/iasyncsteps.hpp"  // for IAsyncSteps
#include "steps/isync.hpp"        // for ISync
#include "steps/limiter.hpp"      // for Limiter
#include "steps/mutex.hpp"        // for Mutex
#include "steps/nitrosteps.hpp"   // for NitroSteps
#include "steps/spawn.hpp"        // for post
#include "steps/state.hpp"        // for State
#include "steps/throttle.hpp"     // for Throttle
