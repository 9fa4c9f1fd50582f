// SPDX-License-Identifier: BSL-1.0
//
// atomic_queue: AtomicQueue marks free slots with a reserved value (0), AtomicQueue2 keeps a state beside each slot.
#include <atomic_queue/atomic_queue.h>  // for AtomicQueue, AtomicQueue2
#include <algorithm>                    // atomic_queue.h uses it without including it

#include "../support/queue_workloads.hpp"  // for add_queue

namespace {

template <class Queue>
struct adapter {
  bool enqueue(std::uint64_t value) { return queue.try_push(value); }
  bool dequeue(std::uint64_t& value) { return queue.try_pop(value); }
  Queue queue;
};

const bench::enroll contestants([](bench::plan& plan) {
  bench::add_queue<adapter<atomic_queue::AtomicQueue<std::uint64_t, 1024>>>(plan, "bounded", "atomic_queue", 40);
  bench::add_queue<adapter<atomic_queue::AtomicQueue2<std::uint64_t, 1024>>>(plan, "bounded", "atomic_queue (2)", 41);
});

}  // namespace
