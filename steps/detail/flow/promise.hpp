// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>  // for exception_ptr

namespace steps::inline v0_1::detail {
struct flow;

/// The receiver of a root flow's end. Its call is the flow's last action: the receiver may destroy the flow at once.
class promise_base {
 public:
  /// Takes the flow's results or pending error, ends the execution, publishes, and destroys itself.
  virtual void end(flow& f, bool failed) = 0;
  /// The flow has been cancelled, and its execution has ended. Destroys itself.
  virtual void cancelled() noexcept = 0;
  /// Before cancelled(), if no cancel() is the reason: what takes its place.
  virtual void set_reason(std::exception_ptr why) noexcept = 0;

 protected:
  ~promise_base() = default;
};

}  // namespace steps::inline v0_1::detail
