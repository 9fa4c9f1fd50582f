// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_SHARED
#include "async/detail/base/own_exceptions.hpp"  // for own_exceptions

namespace async::inline v0_1::detail {

struct cancel_epoch;
template <class Epoch>
class basic_task_scope;
using task_scope = basic_task_scope<cancel_epoch>;

/// The scope of the task that the calling thread runs; null: none.
ASYNCSTEPS_SHARED inline constinit thread_local task_scope* scope_of_thread = nullptr;

/// While it lives, the calling thread runs work of this scope; null: of none.
class scope_setting {
 public:
  explicit scope_setting(task_scope* s) noexcept : before_(std::exchange(scope_of_thread, s)) {}
  ~scope_setting() { scope_of_thread = before_; }
  scope_setting(const scope_setting&) = delete;
  scope_setting& operator=(const scope_setting&) = delete;

 private:
  task_scope* const before_;
};

/// While it lives, the calling thread runs what its task has set off, a coroutine or a task of others: neither the
/// groups of its task nor the exceptions in flight concern that.
class work_of_others {
  const own_exceptions exceptions_;
  const scope_setting scope_{nullptr};
};

}  // namespace async::inline v0_1::detail
