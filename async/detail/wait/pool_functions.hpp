// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/config.hpp"     // for ASYNCSTEPS_DEFINED
#include "async/detail/pool/pool_core.hpp"  // exports pool_core
#include "async/detail/wait/visit.hpp"      // exports pool_core

/// The functions of pool_core that need no template.
#if ASYNCSTEPS_DEFINED
#include "async/detail/pool/lookout_role.hpp"  // exports pool_core
#include "async/detail/pool/pool_life.hpp"     // exports pool_core
#include "async/detail/pool/pool_loops.hpp"    // exports pool_core
#include "async/detail/pool/pool_queues.hpp"   // exports pool_core
#include "async/detail/pool/worker_role.hpp"   // exports pool_core
#include "async/detail/wait/pool_wait.hpp"     // exports pool_core
#endif
