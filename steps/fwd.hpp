// SPDX-License-Identifier: BSL-1.0
#pragma once

/// Declares the classes of steps/ that other headers name by pointer or reference. Include it where a header needs no
/// more, since the namespace steps has a version inside, which declarations of your own would miss.
namespace steps::inline v0_1 {

class AsyncSteps;
class AsyncTool;
class IAsyncSteps;
class ISync;
class Limiter;
class Mutex;
class Semaphore;
class State;
class Throttle;
template <class... Limits>
class NitroSteps;
template <class... T>
class completion;

}  // namespace steps::inline v0_1
