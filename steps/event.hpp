// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/event.hpp"  // for event

namespace steps::inline v0_1 {

/// A flag that flows of any loops wait for until it is set: the name of async::event among the objects for flows.
///
///   steps::Event ready;   asi.await(ready);   ready.set();
///
/// Use it for a state that many flows wait for: "configured", "connected". Do not use it to guard data (Mutex), to
/// limit how many flows are inside (Semaphore), or to pass a value (completion).
using Event = async::event;

}  // namespace steps::inline v0_1
