// SPDX-License-Identifier: BSL-1.0
#pragma once

/// Everything of steps/ but interop/.
#include "steps/asyncsteps.hpp"    // exports AsyncSteps
#include "steps/asynctool.hpp"     // exports AsyncTool
#include "steps/branch_turns.hpp"  // exports BranchTurns
#include "steps/completion.hpp"    // exports completion
#include "steps/errors.hpp"        // exports ErrorCode, Error
#include "steps/event.hpp"         // exports Event
#include "steps/every.hpp"         // exports Every, MissedTicks, Tick
#include "steps/fwd.hpp"           // exports AsyncSteps
#include "steps/iasyncsteps.hpp"   // exports IAsyncSteps
#include "steps/isync.hpp"         // exports ISync
#include "steps/limiter.hpp"       // exports Limiter
#include "steps/mutex.hpp"         // exports Mutex
#include "steps/nitrosteps.hpp"    // exports NitroSteps
#include "steps/retry.hpp"         // exports Retry
#include "steps/semaphore.hpp"     // exports Semaphore
#include "steps/spawn.hpp"         // exports post
#include "steps/state.hpp"         // exports State
#include "steps/throttle.hpp"      // exports Throttle
