// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_SHARED

namespace async::inline v0_1::detail {

/// While it lives, the calling thread destroys a task of this pool without a call, since the pool discards its tasks.
/// So the destructor of the task knows that it has to tell, and can tell that there is nothing to drop.
class dropping {
 public:
  explicit dropping(const void* pool) noexcept : pool_(pool), outer_(std::exchange(here_, this)) {}
  ~dropping() { here_ = outer_; }
  dropping(const dropping&) = delete;
  dropping& operator=(const dropping&) = delete;

  /// False: the task's work had been done, or dropped, before.
  bool was_live() const noexcept { return is_live_; }

  /// Whether the calling thread drops a task of `pool`, or of any pool.
  static bool is_of(const void* pool) noexcept { return here_ != nullptr && here_->pool_ == pool; }
  static bool is_here() noexcept { return here_ != nullptr; }
  /// By the destructor of a task, as its last action: whether there was work to drop.
  static void note(bool is_live) noexcept {
    if (here_ != nullptr) here_->is_live_ = is_live;
  }

 private:
  ASYNCSTEPS_SHARED static inline constinit thread_local dropping* here_ = nullptr;

  const void* const pool_;
  dropping* const outer_;
  bool is_live_ = true;
};

}  // namespace async::inline v0_1::detail
