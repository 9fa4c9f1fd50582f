// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint8_t

namespace steps::inline v0_1 {

/// How branches of one parallel() or race() that share an event loop take turns. Branches that have a loop each, as
/// those of an AsyncSteps on a pool have, run in bursts anyway.
enum class BranchTurns : std::uint8_t {
  step,  ///< one step of each, in the order added; then the next of each
  burst  ///< a branch goes on until it waits, for at most 100 steps, or BurstSize of a NitroSteps (FTN12 1.15)
};

}  // namespace steps::inline v0_1
