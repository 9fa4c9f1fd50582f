// SPDX-License-Identifier: BSL-1.0
//
// This project's unbounded queue.
#include <async/queue.hpp>  // for queue

#include "../support/queue_workloads.hpp"  // for add_queue

namespace {

struct adapter {
  bool enqueue(std::uint64_t value) {
    queue.enqueue(value);
    return true;
  }
  bool dequeue(std::uint64_t& value) { return queue.dequeue(value); }
  std::size_t enqueue_bulk(const std::uint64_t* values, std::size_t count) {
    queue.bulk_enqueue(values, count);
    return count;
  }
  std::size_t dequeue_bulk(std::uint64_t* values, std::size_t count) { return queue.bulk_dequeue(values, count); }
  void trim() { queue.trim(); }
  async::queue<std::uint64_t> queue;
};

const bench::enroll contestants([](bench::plan& plan) { bench::add_queue<adapter>(plan, "queue", "async::queue", 0); });

}  // namespace
