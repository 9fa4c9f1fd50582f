// SPDX-License-Identifier: BSL-1.0
//
// async::queue under every schedule that Relacy finds: waiters that are notified.
#include "queue.hpp"
// After the seam.
#include "listed_waiter.hpp"

using namespace model;

namespace {

template <class Queue, unsigned Clients>
struct scene {
  Queue q;
  client<Queue> clients[Clients];

  /// Checks that the elements came out, each once, and no other.
  void check_sum(unsigned expected) {
    while (clients[0].take(q)) {
    }
    unsigned all = 0;
    for (const auto& c : clients) all += c.sum;
    model::check(all == expected && q.empty(), "each comes out once");
  }
};

struct one : rl::test_suite<one, 2>, scene<stuck_queue, 1> {
  void thread(unsigned index) {
    for (unsigned i = 1; i <= 3; ++i) model::check(index == 0 ? q.enqueue(i) : clients[0].wait(q), "it is open");
  }
  void after() { check_sum(6); }
};

template <class Queue>
struct two : rl::test_suite<two<Queue>, 3>, scene<Queue, 2> {
  void thread(unsigned index) {
    if (index == 2) {
      this->q.enqueue(1U);
      this->q.enqueue(2U);
    } else {
      model::check(this->clients[index].wait(this->q), "it is open");
    }
  }
  void after() { this->check_sum(3); }
};

/// The waiter for one of them is listed, the other sleeps.
struct mixed : rl::test_suite<mixed, 3>, scene<stuck_queue, 2> {
  void thread(unsigned index) {
    if (index == 2) {
      q.enqueue(1U);
      q.enqueue(2U);
    } else {
      model::check(index == 0 ? clients[0].wait(q) : clients[1].sleep(q), "it is open");
    }
  }
  void after() { check_sum(3); }
};

template <class Queue>
struct bulk : rl::test_suite<bulk<Queue>, 3>, scene<Queue, 2> {
  void thread(unsigned index) {
    if (index == 2) {
      const unsigned values[2] = {1, 2};
      model::check(this->q.bulk_enqueue(values, 2) == 2, "it is open");
    } else {
      model::check(this->clients[index].wait(this->q), "it is open");
    }
  }
  void after() { this->check_sum(3); }
};

/// One lists itself and leaves, and may be chosen meanwhile. The other, who waits in `Asleep` or listed, still gets it.
template <bool Asleep, fault Fault>
struct withdrawal : rl::test_suite<withdrawal<Asleep, Fault>, 3>, scene<stuck_queue, 2> {
  void thread(unsigned index) {
    if (index == 2) {
      q.enqueue(1U);
    } else if (index == 1) {
      clients[1].template come_and_go<Fault>(queue_access::items(q));
    } else {
      model::check(Asleep ? clients[0].sleep(q) : clients[0].wait(q), "it is open");
    }
  }
  void after() { check_sum(1); }
};

/// A thread that does not wait takes the element of the one that was chosen, who lists itself again, in front.
struct barging : rl::test_suite<barging, 3>, scene<stuck_queue, 2> {
  void thread(unsigned index) {
    if (index == 2) {
      q.enqueue(1U);
      q.enqueue(2U);
    } else if (index == 1) {
      clients[1].take(q);
    } else {
      model::check(clients[0].wait(q), "it is open");
    }
  }
  void after() { check_sum(3); }
};

struct untested : rl::test_suite<untested, 2>, scene<stuck_queue, 1> {
  void thread(unsigned index) {
    if (index == 0) {
      q.enqueue(1U);
    } else {
      clients[0].wait<fault::lists_without_test>(q);
    }
  }
};

template <bool Asleep>
struct close_wakes : rl::test_suite<close_wakes<Asleep>, 3>, scene<stuck_queue, 2> {
  void thread(unsigned index) {
    if (index == 2) {
      q.close();
    } else {
      model::check(!(index == 1 && Asleep ? clients[1].sleep(q) : clients[index].wait(q)), "closed and drained");
    }
  }
};

/// One gets the last element, both return.
template <class Queue>
struct close_behind : rl::test_suite<close_behind<Queue>, 3>, scene<Queue, 2> {
  void thread(unsigned index) {
    if (index == 2) {
      model::check(this->q.enqueue(1U), "it is open");
      this->q.close();
    } else {
      this->clients[index].wait(this->q);
    }
  }
  void after() { model::check(this->clients[0].count + this->clients[1].count == 1, "one gets it"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("queue_listing", argc, argv);
  const model::effort some{.at_most = 60'000, .random = 30'000};
  run.check<one>("a listed waiter", some);
  run.check<two<queue>>("two listed waiters", some);
  run.check<two<stuck_queue>>("two listed waiters, where none is skipped", some);
  run.check<mixed>("a listed waiter and a sleeper", some);
  run.check<bulk<stuck_queue>>("two listed waiters wait for a bulk", some);
  run.check<bulk<quick_queue>>("two listed waiters wait for a bulk that notifies at its end", some);
  run.check<withdrawal<false, fault::none>>("one withdraws beside a listed waiter", some);
  run.check<withdrawal<true, fault::none>>("one withdraws beside a sleeper", some);
  run.check<barging>("a thread that does not wait", some);
  run.check<close_wakes<false>>("close notifies all", some);
  run.check<close_wakes<true>>("close notifies and wakes", some);
  run.check<close_behind<queue>>("close with two listed waiters", some);
  run.check_fails<withdrawal<false, fault::keeps_wake_up>>("one withdraws and passes nothing on", some);
  run.check_fails<withdrawal<false, fault::leaves_early>>("one withdraws before it is notified", some);
  run.check_fails<untested>("one does not test again", some);
  return run.result();
}
