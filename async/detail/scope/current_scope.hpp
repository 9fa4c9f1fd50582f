// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_SHARED

namespace async::inline v0_1::detail {

struct cancel_epoch;
template <class Epoch>
class basic_task_scope;
using task_scope = basic_task_scope<cancel_epoch>;

/// The scope of the task that the calling thread runs; null: none.
ASYNCSTEPS_SHARED inline constinit thread_local task_scope* scope_of_thread = nullptr;

/// While it lives, the calling thread runs what belongs to no group: a coroutine or a function that its task sets off.
class no_scope {
 public:
  no_scope() noexcept : before_(std::exchange(scope_of_thread, nullptr)) {}
  ~no_scope() { scope_of_thread = before_; }
  no_scope(const no_scope&) = delete;
  no_scope& operator=(const no_scope&) = delete;

 private:
  task_scope* const before_;
};

}  // namespace async::inline v0_1::detail
