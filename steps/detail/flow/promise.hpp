// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace steps::detail {
struct flow;

/// What waits for the end of a root flow. The flow's last action: the waiter may destroy the flow at once.
class promise_base {
 public:
  /// Takes the flow's results or pending error, ends the execution, and publishes; then it is gone.
  virtual void end(flow& f, bool failed) = 0;
  /// The flow was cancelled.
  virtual void drop() noexcept = 0;

 protected:
  ~promise_base() = default;
};

}  // namespace steps::detail
