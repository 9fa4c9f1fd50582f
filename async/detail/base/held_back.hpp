// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_SHARED

namespace async::inline v0_1::detail {

struct held_actions;

/// While a thread runs the actions that wait for a result: where those that call a user's function wait for the others,
/// which may have to make what such a function waits for. Null: they are called at once.
ASYNCSTEPS_SHARED inline constinit thread_local held_actions* held_back = nullptr;

/// For functions of users that run meanwhile all the same: destructors, and tasks that a pool hands back.
class nothing_held_back {
 public:
  nothing_held_back() noexcept = default;
  nothing_held_back(const nothing_held_back&) = delete;
  nothing_held_back& operator=(const nothing_held_back&) = delete;
  ~nothing_held_back() { held_back = before_; }

 private:
  held_actions* const before_ = std::exchange(held_back, nullptr);
};

}  // namespace async::inline v0_1::detail
