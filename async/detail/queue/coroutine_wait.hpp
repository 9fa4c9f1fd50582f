// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle

namespace async::inline v0_1::detail {

/// A wait of a coroutine that looks at a queue, or at several things, before the coroutine goes on.
///
/// Threads     those of the coroutine.
class coroutine_wait {
 public:
  coroutine_wait(const coroutine_wait&) = delete;
  coroutine_wait& operator=(const coroutine_wait&) = delete;

  /// After a wake-up that the caller has claimed. False: the coroutine waits again, on behalf of which another thread
  /// may have destroyed this.
  bool look_again() noexcept { return look_again_(*this); }
  std::coroutine_handle<> coroutine() const noexcept { return coroutine_; }

 protected:
  using function = bool (*)(coroutine_wait&) noexcept;
  explicit coroutine_wait(function f) noexcept : look_again_(f) {}
  ~coroutine_wait() = default;
  void suspends(std::coroutine_handle<> coroutine) noexcept { coroutine_ = coroutine; }

 private:
  const function look_again_;
  std::coroutine_handle<> coroutine_;
};

}  // namespace async::inline v0_1::detail
