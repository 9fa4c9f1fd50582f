// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>  // for atomic
#include <thread>  // for thread

namespace testing {

/// A thread that makes a call, and tells whether the call has returned.
class watched_thread {
 public:
  template <class Call>
  explicit watched_thread(Call call)
      : thread_([this, call] {
          call();
          done_.store(true);
        }) {}
  bool is_done() const { return done_.load(); }
  void join() { thread_.join(); }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace testing
