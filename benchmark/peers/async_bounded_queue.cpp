// SPDX-License-Identifier: BSL-1.0
//
// This project's bounded queue.
#include <async/bounded_queue.hpp>  // for bounded_queue

#include "../support/queue_workloads.hpp"  // for add_queue

namespace {

struct adapter {
  bool enqueue(std::uint64_t value) { return queue.enqueue(value); }
  bool dequeue(std::uint64_t& value) { return queue.dequeue(value); }
  std::size_t enqueue_bulk(const std::uint64_t* values, std::size_t count) { return queue.bulk_enqueue(values, count); }
  std::size_t dequeue_bulk(std::uint64_t* values, std::size_t count) { return queue.bulk_dequeue(values, count); }
  void wait_enqueue(std::uint64_t value) { queue.blocking_enqueue(value); }
  std::uint64_t wait_dequeue() {
    std::uint64_t value = 0;
    queue.blocking_dequeue(value);
    return value;
  }
  async::bounded_queue<std::uint64_t> queue{1024};
};

const bench::enroll contestants([](bench::plan& plan) {
  bench::add_queue<adapter>(plan, "bounded", "async::bounded_queue", 0);
});

}  // namespace
