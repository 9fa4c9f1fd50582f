// SPDX-License-Identifier: BSL-1.0
//
// async::queue under every schedule that Relacy finds: calls that wait, and closing.
#include "queue.hpp"

using namespace model;

namespace {

/// Passes over a producer at once: a pause would let it go on.
struct impatient : small {
  static constexpr unsigned stall_rounds = 0;
};
using impatient_queue = async::queue<wide, impatient>;

/// The sum of what one consumer has taken.
struct sum {
  unsigned all = 0;

  bool take(auto& q) {
    return add([&q](auto& out) { return q.dequeue(out); }, q);
  }
  bool wait(auto& q) {
    return add([&q](auto& out) { return q.blocking_dequeue(out); }, q);
  }
  bool wait_in_time(auto& q) {
    return add([&q](auto& out) { return q.dequeue_for(out, std::chrono::seconds(1)); }, q);
  }
  void drain(auto& q) {
    while (wait(q)) {
    }
  }

 private:
  template <class Queue>
  bool add(auto call, Queue&) {
    typename Queue::value_type out(99U);
    if (!call(out)) return false;
    all += out.value();
    return true;
  }
};

// --- calls that wait -------------------------------------------------------------------------------------------------

template <class Queue>
struct waiting : rl::test_suite<waiting<Queue>, 2> {
  Queue q;
  sum got;
  void thread(unsigned index) {
    for (unsigned i = 1; i <= 3; ++i) model::check(index == 0 ? q.enqueue(i) : got.wait(q), "it is open");
  }
  void after() { model::check(got.all == 6 && q.empty(), "each comes out once"); }
};

/// Two wait for one element each.
template <class Queue>
struct waiting_consumers : rl::test_suite<waiting_consumers<Queue>, 3> {
  Queue q;
  sum got[2];
  void thread(unsigned index) {
    if (index == 2) {
      q.enqueue(1U);
      q.enqueue(2U);
    } else {
      model::check(got[index].wait(q), "it is open");
    }
  }
  void after() { model::check(got[0].all + got[1].all == 3, "each comes out once"); }
};

/// The same; each element has a producer.
struct waiting_for_each : rl::test_suite<waiting_for_each, 4> {
  stuck_queue q;
  sum got[2];
  void thread(unsigned index) {
    if (index >= 2) {
      q.enqueue(index - 1);
    } else {
      model::check(got[index].wait(q), "it is open");
    }
  }
  void after() { model::check(got[0].all + got[1].all == 3, "each comes out once"); }
};

template <class Queue>
struct waiting_for_bulk : rl::test_suite<waiting_for_bulk<Queue>, 3> {
  Queue q;
  sum got[2];
  void thread(unsigned index) {
    if (index == 2) {
      const unsigned values[2] = {1, 2};
      model::check(q.bulk_enqueue(values, 2) == 2, "it is open");
    } else {
      model::check(got[index].wait(q), "it is open");
    }
  }
  void after() { model::check(got[0].all + got[1].all == 3, "each comes out once"); }
};

/// One waits with a limit, one without; a waiter that times out does not take the other's wake-up with it.
struct waiting_in_time : rl::test_suite<waiting_in_time, 3> {
  stuck_queue q;
  sum got[2];
  void thread(unsigned index) {
    if (index == 2) {
      q.enqueue(1U);
      q.enqueue(2U);
    } else if (index == 1) {
      model::check(got[1].wait(q), "it is open");
    } else {
      got[0].wait_in_time(q);
    }
  }
  void after() {
    while (got[0].take(q)) {
    }
    model::check(got[0].all + got[1].all == 3, "each comes out once");
  }
};

/// The consumer sleeps at the end of a segment.
struct waiting_at_end : rl::test_suite<waiting_at_end, 2> {
  stuck_queue q;
  sum got;
  void before() {
    for (unsigned i = 0; i < 2; ++i) {
      q.enqueue(0U);
      got.take(q);
    }
  }
  void thread(unsigned index) { model::check(index == 0 ? q.enqueue(1U) : got.wait(q), "it is open"); }
  void after() { model::check(got.all == 1, "it comes out"); }
};

// --- closing ---------------------------------------------------------------------------------------------------------

/// Closing wakes all that wait.
struct close_wakes : rl::test_suite<close_wakes, 3> {
  stuck_queue q;
  sum got[2];
  void thread(unsigned index) {
    if (index == 2) {
      q.close();
    } else {
      model::check(!got[index].wait(q), "closed and drained");
    }
  }
  void after() { model::check(q.is_closed() && !q.enqueue(1U), "closed"); }
};

/// One of two sleepers gets the last element, both return.
struct close_with_sleepers : rl::test_suite<close_with_sleepers, 3> {
  queue q;
  sum got[2];
  void thread(unsigned index) {
    if (index == 2) {
      model::check(q.enqueue(1U), "it is open");
      q.close();
    } else {
      got[index].wait(q);
    }
  }
  void after() { model::check(got[0].all + got[1].all == 1, "one gets it"); }
};

/// Exactly what was accepted comes out before "closed and drained", over the end of a segment.
template <class Queue>
struct close_loses_nothing : rl::test_suite<close_loses_nothing<Queue>, 3> {
  Queue q;
  sum got, rest;
  unsigned accepted = 0;
  void before() {
    q.enqueue(0U);
    rest.take(q);
  }
  void thread(unsigned index) {
    if (index == 0) return q.close();
    if (index == 2) return got.drain(q);
    for (unsigned i = 1; i <= 2 && q.enqueue(i); ++i) accepted += i;
    model::check(!q.is_closed() || !q.enqueue(9U), "closed");
  }
  void after() {
    model::check(got.all == accepted, "what was accepted has come out, and nothing else");
    model::check(!rest.take(q), "and nothing is left");
  }
};

/// A consumer passes over a producer that has stopped. Another one, later, does not miss its element.
struct close_waits_for_passed_over : rl::test_suite<close_waits_for_passed_over, 3> {
  impatient_queue q;
  sum got, rest;
  bool accepted = false;
  void thread(unsigned index) {
    if (index == 0) {
      accepted = q.enqueue(1U);
    } else if (index == 1) {
      got.take(q);
    } else {
      q.close();
      rest.take(q);
    }
  }
  void after() {
    model::check(got.all + rest.all == (accepted ? 1U : 0U), "what was accepted has come out, and nothing else");
    model::check(!rest.take(q), "and nothing is left");
  }
};

/// Consumers that do not wait find all that is in once the queue is closed.
struct closed_is_seen : rl::test_suite<closed_is_seen, 3> {
  impatient_queue q;
  sum got, rest;
  unsigned accepted = 0;
  bool last = false;
  void thread(unsigned index) {
    if (index == 0) {
      for (unsigned i = 1; i <= 2 && q.enqueue(i); ++i) accepted += i;
    } else if (index == 1) {
      q.close();
    } else {
      got.take(q);
      last = q.is_closed();
      while (last && got.take(q)) {
      }
    }
  }
  void after() {
    const bool is_left = rest.take(q);
    model::check(!last || !is_left, "nothing comes after the end");
    while (rest.take(q)) {
    }
    model::check(got.all + rest.all == accepted, "what was accepted has come out, and nothing else");
  }
};

/// A bulk is accepted up to the close, also when a consumer passes over it.
struct close_in_bulk : rl::test_suite<close_in_bulk, 3> {
  impatient_queue q;
  sum got, rest;
  std::size_t accepted = 0;
  void thread(unsigned index) {
    if (index == 0) {
      const unsigned values[] = {1, 10, 100};
      accepted = q.bulk_enqueue(values, 3);
    } else if (index == 1) {
      q.close();
    } else {
      got.drain(q);
    }
  }
  void after() {
    constexpr unsigned sums[] = {0, 1, 11, 111};
    model::check(got.all == sums[accepted], "what was accepted has come out, and nothing else");
    model::check(!rest.take(q), "and nothing is left");
  }
};

/// A constructor that throws in a slot that consumers have passed over keeps nobody waiting for it.
struct alignas(128) failing : element {
  explicit failing(unsigned v) : element(v) {
    if (v == 0) throw 0;
  }
};
struct close_with_failure : rl::test_suite<close_with_failure, 2> {
  async::queue<failing, impatient> q;
  bool found = false;
  void thread(unsigned index) {
    if (index == 1) {
      q.close();
      std::optional<failing> out;
      found = q.blocking_dequeue(out);
      return;
    }
    try {
      q.enqueue(0U);
    } catch (int) {
    }
  }
  void after() { model::check(!found && q.empty(), "there is nothing"); }
};

/// Each thread closes its queue and looks at the other's: at least one finds it closed, as if calls took turns.
struct close_of_two_queues : rl::test_suite<close_of_two_queues, 2> {
  stuck_queue queues[2];
  bool found[2] = {};
  void thread(unsigned index) {
    queues[index].close();
    found[index] = queues[1 - index].is_closed();
  }
  void after() { model::check(found[0] || found[1], "one finds the other's closed"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("queue_waiting", argc, argv);
  const model::effort some{.at_most = 250'000, .random = 50'000};
  run.check<waiting<queue>>("a consumer waits", some);
  run.check<waiting<stuck_queue>>("a consumer waits, where none is skipped", some);
  run.check<waiting_consumers<queue>>("two consumers wait", some);
  run.check<waiting_consumers<stuck_queue>>("two consumers wait, where none is skipped", some);
  run.check<waiting_for_each>("two consumers wait for two producers", some);
  run.check<waiting_for_bulk<stuck_queue>>("two consumers wait for a bulk", some);
  run.check<waiting_for_bulk<quick_queue>>("two consumers wait for a bulk that wakes at its end", some);
  run.check<waiting_in_time>("one consumer times out, one waits", some);
  run.check<waiting_at_end>("a consumer waits at the end of a segment", some);
  run.check<close_wakes>("close wakes all consumers", some);
  run.check<close_with_sleepers>("close with two consumers", some);
  run.check<close_loses_nothing<impatient_queue>>("close loses nothing that was accepted", some);
  run.check<close_loses_nothing<stuck_queue>>("close loses nothing, where none is skipped", some);
  run.check<close_waits_for_passed_over>("the end comes after an element that was passed over", some);
  run.check<closed_is_seen>("consumers that do not wait see the end", some);
  run.check<close_in_bulk>("close in the middle of a bulk", some);
  run.check<close_with_failure>("close beside a constructor that throws", some);
  run.check<close_of_two_queues>("closed is closed, across two queues", some);
  return run.result();
}
