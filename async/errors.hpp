// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <stdexcept>  // for runtime_error

namespace async {

/// Thrown by a post to a pool that has been stopped. The task was not accepted; it is destroyed on the calling thread.
class stopped : public std::runtime_error {
 public:
  stopped() : std::runtime_error("async: the thread pool has been stopped") {}
};

/// Thrown by a post to a pool whose bounded queue is full and whose policy is `reject`. The task was not accepted.
class queue_full : public std::runtime_error {
 public:
  queue_full() : std::runtime_error("async: the queue of the thread pool is full") {}
};

}  // namespace async
