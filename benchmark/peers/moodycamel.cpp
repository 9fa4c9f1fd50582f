// SPDX-License-Identifier: BSL-1.0
//
// moodycamel::ConcurrentQueue: a queue for each producer, so elements of different producers come out in no order. A
// token saves the search for the producer's queue.
#if __has_include(<concurrentqueue/concurrentqueue.h>)
#include <concurrentqueue/concurrentqueue.h>  // for ConcurrentQueue
#else
#include <concurrentqueue/moodycamel/concurrentqueue.h>  // where Debian 13 has it
#endif

#include "../support/queue_workloads.hpp"  // for add_queue

namespace {

using queue_type = moodycamel::ConcurrentQueue<std::uint64_t>;

struct plain {
  bool enqueue(std::uint64_t value) { return queue.enqueue(value); }
  bool dequeue(std::uint64_t& value) { return queue.try_dequeue(value); }
  std::size_t enqueue_bulk(const std::uint64_t* values, std::size_t count) {
    return queue.enqueue_bulk(values, count) ? count : 0;
  }
  std::size_t dequeue_bulk(std::uint64_t* values, std::size_t count) { return queue.try_dequeue_bulk(values, count); }
  queue_type queue;
};

struct with_tokens {
  queue_type queue;

  class producer {
   public:
    explicit producer(with_tokens& of) : queue_(of.queue), token_(of.queue) {}
    bool enqueue(std::uint64_t value) { return queue_.enqueue(token_, value); }
    std::size_t enqueue_bulk(const std::uint64_t* values, std::size_t count) {
      return queue_.enqueue_bulk(token_, values, count) ? count : 0;
    }

   private:
    queue_type& queue_;
    moodycamel::ProducerToken token_;
  };
  class consumer {
   public:
    explicit consumer(with_tokens& of) : queue_(of.queue), token_(of.queue) {}
    bool dequeue(std::uint64_t& value) { return queue_.try_dequeue(token_, value); }
    std::size_t dequeue_bulk(std::uint64_t* values, std::size_t count) {
      return queue_.try_dequeue_bulk(token_, values, count);
    }

   private:
    queue_type& queue_;
    moodycamel::ConsumerToken token_;
  };
};

const bench::enroll contestants([](bench::plan& plan) {
  bench::add_queue<plain>(plan, "queue", "moodycamel (not FIFO)", 30);
  bench::add_queue<with_tokens>(plan, "queue", "moodycamel + tokens (not FIFO)", 31);
});

}  // namespace
