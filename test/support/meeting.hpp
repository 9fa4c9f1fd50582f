// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>   // for atomic
#include <cstddef>  // for size_t
#include <future>   // for future_status, promise, shared_future
#include <memory>   // for make_shared, shared_ptr
#include <mutex>    // for lock_guard, mutex

#include "support/held_workers.hpp"  // for patience

namespace testing {

/// A place where calls wait for each other: each blocks its thread until `party` of them are there, so it needs that
/// many threads at once. When one has waited in vain, all others go on, and it has failed.
class meeting {
 public:
  explicit meeting(std::size_t party) : party_(party) {}

  void come() {
    if (has_failed_) return;
    std::shared_ptr<table> mine;
    {
      const std::lock_guard lock(mutex_);
      if (open_ == nullptr) open_ = std::make_shared<table>();
      mine = open_;
      if (++mine->guests == party_) {
        open_ = nullptr;
        ++met_;
        mine->complete.set_value();
        return;
      }
    }
    if (mine->is_complete.wait_for(patience) != std::future_status::ready) has_failed_ = true;
  }

  /// The number of parties that have met.
  std::size_t met() const { return met_; }

 private:
  struct table {
    std::size_t guests = 0;
    std::promise<void> complete;
    std::shared_future<void> is_complete = complete.get_future().share();
  };

  const std::size_t party_;
  std::mutex mutex_;
  std::shared_ptr<table> open_;
  std::atomic<std::size_t> met_{0};
  std::atomic<bool> has_failed_{false};
};

}  // namespace testing
