// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>  // for atomic
#include <future>  // for promise, shared_future

#include "support/wait_while.hpp"  // for wait_while

namespace testing {

/// A gate that tasks wait for, and that tells when one does.
class gate {
 public:
  void pass() {
    is_reached_ = true;
    until_.wait();
  }
  void wait_for_one() const { wait_while(is_reached_, false); }
  void open() { go_.set_value(); }

 private:
  std::promise<void> go_;
  std::shared_future<void> until_ = go_.get_future().share();
  std::atomic<bool> is_reached_{false};
};

}  // namespace testing
