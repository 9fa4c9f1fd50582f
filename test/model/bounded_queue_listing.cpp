// SPDX-License-Identifier: BSL-1.0
//
// async::bounded_queue under every schedule that Relacy finds: waiters that are notified.
#include "bounded_queue.hpp"
// After the seam.
#include "listed_waiter.hpp"

using namespace model;

namespace {

template <unsigned Capacity, unsigned Clients, class T = element>
struct scene {
  ring<Capacity, T> q{Capacity};
  client<ring<Capacity, T>> clients[Clients];

  /// Checks that the elements came out, each once, and no other.
  void check_sum(unsigned expected) {
    while (clients[0].take(q)) {
    }
    unsigned all = 0;
    for (const auto& c : clients) all += c.sum;
    model::check(all == expected && q.empty(), "each comes out once");
  }
};

/// Both sides wait for each other on one slot.
struct both : rl::test_suite<both, 2>, scene<1, 2> {
  void thread(unsigned index) {
    for (unsigned i = 1; i <= 3; ++i) {
      model::check(index == 0 ? clients[0].put(q, i) : clients[1].wait(q), "it is open");
    }
  }
  void after() { check_sum(6); }
};

/// Two wait for two elements each.
struct again : rl::test_suite<again, 3>, scene<2, 2> {
  void thread(unsigned index) {
    for (unsigned i = 1; i <= (index == 2 ? 4 : 2); ++i) {
      model::check(index == 2 ? q.blocking_enqueue(i) : clients[index].wait(q), "it is open");
    }
  }
  void after() { check_sum(10); }
};

/// One of them sleeps.
struct mixed : rl::test_suite<mixed, 3>, scene<2, 2> {
  void thread(unsigned index) {
    if (index == 2) {
      model::check(q.enqueue(1U) && q.enqueue(2U), "there is room");
    } else {
      model::check(index == 0 ? clients[0].wait(q) : clients[1].sleep(q), "it is open");
    }
  }
  void after() { check_sum(3); }
};

/// Two wait for room; the second one sleeps, or not.
template <bool Asleep>
struct room : rl::test_suite<room<Asleep>, 3>, scene<1, 3> {
  void before() { this->q.enqueue(1U); }
  void thread(unsigned index) {
    if (index == 2) {
      model::check(this->clients[2].take(this->q) && this->clients[2].sleep(this->q), "there are two");
    } else if (index == 1 && Asleep) {
      model::check(this->q.blocking_enqueue(3U), "it is open");
    } else {
      model::check(this->clients[index].put(this->q, index + 2), "it is open");
    }
  }
  void after() { this->check_sum(6); }
};

/// A bulk makes room for both.
struct room_by_bulk : rl::test_suite<room_by_bulk, 3>, scene<2, 3, staying> {
  staying out[2];
  void before() { model::check(q.enqueue(1U) && q.enqueue(2U), "there is room"); }
  void thread(unsigned index) {
    if (index == 2) {
      model::check(q.bulk_dequeue(out, 2) == 2, "there are two");
    } else {
      model::check(clients[index].put(q, index + 3), "it is open");
    }
  }
  void after() { check_sum(7); }
};

/// One that wants room lists itself and leaves, and may be chosen meanwhile. The other one still gets it.
template <bool Asleep, fault Fault>
struct withdrawal : rl::test_suite<withdrawal<Asleep, Fault>, 3>, scene<1, 3> {
  void before() { this->q.enqueue(1U); }
  void thread(unsigned index) {
    if (index == 2) {
      model::check(this->clients[2].take(this->q), "there is one");
    } else if (index == 1) {
      this->clients[1].template come_and_go<Fault>(queue_access::room(this->q));
    } else {
      model::check(Asleep ? this->q.blocking_enqueue(2U) : this->clients[0].put(this->q, 2U), "it is open");
    }
  }
  void after() { this->check_sum(3); }
};

/// Threads that do not wait take the room of the one that was chosen.
struct barging : rl::test_suite<barging, 3>, scene<1, 3> {
  bool is_in = false;
  void before() { q.enqueue(1U); }
  void thread(unsigned index) {
    if (index == 2) {
      model::check(clients[2].take(q), "there is one");
      clients[2].take(q);
      if (clients[2].count == 1) clients[2].sleep(q);
    } else if (index == 1) {
      is_in = q.enqueue(2U);
    } else {
      model::check(clients[0].put(q, 3U), "it is open");
    }
  }
  void after() { check_sum(is_in ? 6 : 4); }
};

/// Closing notifies a consumer and a producer.
struct close_wakes : rl::test_suite<close_wakes, 3> {
  ring<1> empty{1};
  ring<1> full{1};
  client<ring<1>> clients[2];
  void before() { full.enqueue(1U); }
  void thread(unsigned index) {
    if (index == 2) {
      empty.close();
      full.close();
    } else {
      model::check(!(index == 0 ? clients[0].wait(empty) : clients[1].put(full, 2U)), "closed");
    }
  }
  void after() { model::check(clients[0].wait(full) && clients[0].sum == 1, "what is in is still there"); }
};

struct throwing {
  explicit throwing(unsigned v) : inside(v) {
    if (v == 0) throw 0;
  }
  unsigned value() const { return inside.value(); }
  element inside;
};

/// An element whose constructor throws leaves its slot, void or not, to a producer that is listed.
struct void_slot : rl::test_suite<void_slot, 2> {
  ring<1, throwing> q{1};
  client<ring<1, throwing>> producer;
  void thread(unsigned index) {
    if (index == 1) return model::check(producer.put(q, 1U), "it is open");
    try {
      q.enqueue(0U);
    } catch (int) {
    }
  }
  void after() { model::check(q.dequeue()->value() == 1 && q.empty(), "one is in"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("bounded_queue_listing", argc, argv);
  const model::effort some{.at_most = 60'000, .random = 30'000};
  run.check<both>("listed waiters on both sides", some);
  run.check<again>("two wait again and again", some);
  run.check<mixed>("a listed waiter and a sleeper", some);
  run.check<room<false>>("two listed waiters for room", some);
  run.check<room<true>>("a listed waiter and a sleeper for room", some);
  run.check<room_by_bulk>("two listed waiters for the room of a bulk", some);
  run.check<withdrawal<false, fault::none>>("one withdraws beside a listed waiter", some);
  run.check<withdrawal<true, fault::none>>("one withdraws beside a sleeper", some);
  run.check<barging>("a thread that does not wait", some);
  run.check<close_wakes>("close notifies both sides", some);
  run.check<void_slot>("a slot without an element", some);
  run.check_fails<withdrawal<false, fault::keeps_wake_up>>("one withdraws and passes nothing on", some);
  return run.result();
}
