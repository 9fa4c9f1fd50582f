// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange, swap

#include "async/detail/loop/loop_core.hpp"  // for loop_core, message

namespace async::inline v0_1::detail {

/// A counted reference to a loop that may have been destroyed: for completions, handles, waiters.
class loop_ref {
 public:
  loop_ref() noexcept = default;
  explicit loop_ref(loop_core& core) noexcept : core_(&core) { core.add_ref(); }
  loop_ref(const loop_ref& other) noexcept : core_(other.core_) {
    if (core_ != nullptr) core_->add_ref();
  }
  loop_ref(loop_ref&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  loop_ref& operator=(loop_ref other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~loop_ref() {
    if (core_ != nullptr) core_->release();
  }

  /// See loop_core::push(). False also if this refers to no loop.
  bool push(message& m) const noexcept { return core_ != nullptr && core_->push(m); }
  bool is_same_thread() const noexcept { return core_ != nullptr && core_->is_same_thread(); }
  explicit operator bool() const noexcept { return core_ != nullptr; }
  /// The core, whose loop may have been destroyed. Members that are not for any thread may only be called on the
  /// owner's thread, while the loop lives.
  loop_core* get() const noexcept { return core_; }

 private:
  loop_core* core_ = nullptr;
};

}  // namespace async::inline v0_1::detail
