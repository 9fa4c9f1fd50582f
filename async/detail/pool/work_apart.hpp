// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/held_back.hpp"       // for nothing_held_back
#include "async/detail/base/resumptions.hpp"     // for resumptions_apart
#include "async/detail/pool/wait_in_turn.hpp"    // for wait_in_turn
#include "async/detail/scope/current_scope.hpp"  // for work_of_others

namespace async::inline v0_1::detail {

/// While it lives, the calling thread runs, or destroys, calls that a pool hands back: inside whatever the thread does,
/// but as on a thread that does nothing else. Neither groups and exceptions around it, nor the turn of a loop, the
/// functions or the coroutines that the thread is in, concern them.
class work_apart {
  const work_of_others scope_;
  const wait_in_turn allowed_;
  const nothing_held_back functions_;
  const resumptions_apart coroutines_;
};

}  // namespace async::inline v0_1::detail
