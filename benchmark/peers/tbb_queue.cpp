// SPDX-License-Identifier: BSL-1.0
//
// oneTBB's concurrent_queue and concurrent_bounded_queue.
#include <oneapi/tbb/concurrent_queue.h>  // for concurrent_queue, concurrent_bounded_queue
#include <oneapi/tbb/version.h>           // for TBB_runtime_version

#include "../support/queue_workloads.hpp"  // for add_queue

namespace {

struct growing {
  bool enqueue(std::uint64_t value) {
    queue.push(value);
    return true;
  }
  bool dequeue(std::uint64_t& value) { return queue.try_pop(value); }
  tbb::concurrent_queue<std::uint64_t> queue;
};

struct bounded {
  bounded() { queue.set_capacity(1024); }
  bool enqueue(std::uint64_t value) { return queue.try_push(value); }
  bool dequeue(std::uint64_t& value) { return queue.try_pop(value); }
  void wait_enqueue(std::uint64_t value) { queue.push(value); }
  std::uint64_t wait_dequeue() {
    std::uint64_t value = 0;
    queue.pop(value);
    return value;
  }
  tbb::concurrent_bounded_queue<std::uint64_t> queue;
};

const bench::enroll contestants("oneTBB", TBB_runtime_version(), [](bench::plan& plan) {
  bench::add_queue<growing>(plan, "queue", "tbb::concurrent_queue", 20);
  bench::add_queue<bounded>(plan, "bounded", "tbb::concurrent_bounded_queue", 20);
});

}  // namespace
