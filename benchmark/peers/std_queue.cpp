// SPDX-License-Identifier: BSL-1.0
//
// std::deque under a std::mutex: the usual hand-written queue.
#include <condition_variable>  // for condition_variable
#include <cstdint>             // for uint64_t
#include <deque>               // for deque
#include <limits>              // for numeric_limits
#include <mutex>               // for mutex

#include "../support/queue_workloads.hpp"  // for add_queue

namespace {

template <std::size_t capacity>
class locked_deque {
 public:
  bool enqueue(std::uint64_t value) {
    const std::lock_guard lock(mutex_);
    if (values_.size() == capacity) return false;
    values_.push_back(value);
    return true;
  }
  bool dequeue(std::uint64_t& value) {
    const std::lock_guard lock(mutex_);
    if (values_.empty()) return false;
    value = values_.front();
    values_.pop_front();
    return true;
  }
  void wait_enqueue(std::uint64_t value)
    requires(capacity <= 1024)
  {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [this] { return values_.size() < capacity; });
    values_.push_back(value);
    lock.unlock();
    not_empty_.notify_one();
  }
  std::uint64_t wait_dequeue()
    requires(capacity <= 1024)
  {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [this] { return !values_.empty(); });
    const std::uint64_t value = values_.front();
    values_.pop_front();
    lock.unlock();
    not_full_.notify_one();
    return value;
  }

 private:
  std::mutex mutex_;
  std::condition_variable not_full_, not_empty_;
  std::deque<std::uint64_t> values_;
};

const bench::enroll contestants([](bench::plan& plan) {
  bench::add_queue<locked_deque<(std::numeric_limits<std::size_t>::max)()>>(plan, "queue", "std::deque + mutex", 90);
  bench::add_queue<locked_deque<1024>>(plan, "bounded", "std::deque + mutex", 90);
});

}  // namespace
