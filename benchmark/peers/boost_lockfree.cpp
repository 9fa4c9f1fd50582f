// SPDX-License-Identifier: BSL-1.0
//
// Boost.Lockfree: nodes from a free list, or from an array with a fixed size.
#include <boost/lockfree/queue.hpp>  // for queue
#include <boost/version.hpp>         // for BOOST_LIB_VERSION

#include "../support/queue_workloads.hpp"  // for add_queue

namespace {

struct growing {
  bool enqueue(std::uint64_t value) { return queue.push(value); }
  bool dequeue(std::uint64_t& value) { return queue.pop(value); }
  boost::lockfree::queue<std::uint64_t> queue{1024};
};

struct fixed {
  bool enqueue(std::uint64_t value) { return queue.push(value); }
  bool dequeue(std::uint64_t& value) { return queue.pop(value); }
  boost::lockfree::queue<std::uint64_t, boost::lockfree::capacity<1024>> queue;
};

const bench::enroll contestants("Boost", BOOST_LIB_VERSION, [](bench::plan& plan) {
  bench::add_queue<growing>(plan, "queue", "boost::lockfree::queue", 10);
  bench::add_queue<fixed>(plan, "bounded", "boost::lockfree::queue", 10);
});

}  // namespace
