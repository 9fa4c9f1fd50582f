// SPDX-License-Identifier: BSL-1.0
//
// async::queue under every schedule that Relacy finds: calls that do not wait.
#include "queue.hpp"

using namespace model;

namespace {

/// Elements are producer * 10 + number; each consumer must see a producer's in order, and nobody one twice.
struct ledger {
  unsigned seen[8] = {};
  unsigned count = 0;

  template <class T>
  bool take(async::queue<T, small>& q) {
    T out(99U);
    if (!q.dequeue(out)) return false;
    seen[count++] = out.value();
    return true;
  }
  template <class T>
  std::size_t take_bulk(async::queue<T, small>& q) {
    T out[2]{T(99U), T(99U)};
    const std::size_t taken = q.bulk_dequeue(out, 2);
    for (std::size_t i = 0; i < taken; ++i) seen[count++] = out[i].value();
    return taken;
  }
  void check_order() const {
    for (unsigned i = 0; i < count; ++i) {
      for (unsigned k = i + 1; k < count; ++k) {
        model::check(seen[i] / 10 != seen[k] / 10 || seen[i] < seen[k], "a producer's elements come in order");
      }
    }
  }
};

/// All consumers and the final drain together saw exactly the elements that went in.
inline void check_all(ledger* ledgers, unsigned size, unsigned expected) {
  unsigned total = 0;
  unsigned count = 0;
  for (unsigned i = 0; i < size; ++i) {
    ledgers[i].check_order();
    for (unsigned k = 0; k < ledgers[i].count; ++k) total += ledgers[i].seen[k];
    count += ledgers[i].count;
  }
  model::check(count * 1000 + total == expected, "each element comes out once");
}

struct one_to_one : rl::test_suite<one_to_one, 2> {
  queue q;
  ledger seen[2];
  void thread(unsigned index) {
    if (index == 0) {
      for (unsigned i = 1; i <= 3; ++i) q.enqueue(10 + i);
    } else {
      for (unsigned i = 0; i < 4; ++i) seen[0].take(q);
    }
  }
  void after() {
    while (seen[1].take(q)) {
    }
    check_all(seen, 2, 3036);
  }
};

struct two_producers : rl::test_suite<two_producers, 3> {
  queue q;
  ledger seen[2];
  void thread(unsigned index) {
    if (index < 2) {
      q.enqueue(10 * (index + 1) + 1);
      q.enqueue(10 * (index + 1) + 2);
    } else {
      for (unsigned i = 0; i < 3; ++i) seen[0].take(q);
    }
  }
  void after() {
    while (seen[1].take(q)) {
    }
    check_all(seen, 2, 4066);
  }
};

struct two_consumers : rl::test_suite<two_consumers, 3> {
  queue q;
  ledger seen[3];
  void before() { q.enqueue(11U); }
  void thread(unsigned index) {
    if (index == 0) {
      q.enqueue(12U);
      q.enqueue(13U);
    } else {
      seen[index].take(q);
      seen[index].take(q);
    }
  }
  void after() {
    while (seen[0].take(q)) {
    }
    check_all(seen, 3, 3036);
  }
};

/// Segments are used again while others still hold words of their last use; or free ones lose their memory.
template <unsigned Rounds, bool Trims>
struct reuse : rl::test_suite<reuse<Rounds, Trims>, 2> {
  queue q;
  ledger seen[2];
  void thread(unsigned index) {
    for (unsigned i = 1; i <= Rounds; ++i) {
      q.enqueue(10 * (index + 1) + i);
      model::check(seen[index].take(q), "there is an element for each own enqueue");
      if (Trims) q.trim();
    }
  }
  void after() {
    unsigned total = 0;
    for (const ledger& each : seen) {
      for (unsigned k = 0; k < each.count; ++k) total += each.seen[k];
    }
    model::check(total == Rounds * 30 + Rounds * (Rounds + 1) && q.empty(), "each element comes out once");
  }
};

/// One thread may still be inside a slot of a segment that another has used up and needs again, while a third trims.
template <bool Trims>
struct reuse_beside_a_reader : rl::test_suite<reuse_beside_a_reader<Trims>, Trims ? 3 : 2> {
  queue q;
  ledger seen[3];
  void before() {
    q.enqueue(11U);
    q.enqueue(12U);
  }
  void thread(unsigned index) {
    if (index == 2) return static_cast<void>(q.trim());
    seen[index].take(q);
    if (index == 0) return;
    q.enqueue(13U);  // the second segment
    seen[index].take(q);
    q.enqueue(14U);
    q.enqueue(15U);  // the first one again, or another, when the reader has left it
  }
  void after() {
    while (seen[2].take(q)) {
    }
    check_all(seen, 3, 5065);
  }
};

struct bulk : rl::test_suite<bulk, 2> {
  queue q;
  ledger seen[2];
  void thread(unsigned index) {
    if (index == 0) {
      const unsigned in[] = {11, 12, 13};
      q.bulk_enqueue(in, 3);
    } else {
      for (unsigned i = 0; i < 3; ++i) seen[0].take(q);
    }
  }
  void after() {
    while (seen[1].take(q)) {
    }
    check_all(seen, 2, 3036);
  }
};

/// Runs of elements are taken at once, over the end of a segment.
template <class T>
struct bulks : rl::test_suite<bulks<T>, 3> {
  async::queue<T, small> q;
  ledger seen[3];
  void before() { q.enqueue(11U); }
  void thread(unsigned index) {
    if (index == 0) {
      const unsigned in[] = {12, 13};
      q.bulk_enqueue(in, 2);
    } else {
      seen[index].take_bulk(q);
    }
  }
  void after() {
    while (seen[0].take(q)) {
    }
    check_all(seen, 3, 3036);
  }
};

/// One producer, one consumer, without the fences of the skip.
struct without_skip : rl::test_suite<without_skip, 2> {
  stuck_queue q;
  ledger seen[2];
  void thread(unsigned index) {
    if (index == 0) {
      for (unsigned i = 1; i <= 3; ++i) q.enqueue(10 + i);
    } else {
      for (unsigned i = 0; i < 3; ++i) seen[0].take(q);
    }
  }
  void after() {
    while (seen[1].take(q)) {
    }
    check_all(seen, 2, 3036);
  }
};

/// Each thread fills its queue and looks into the other's: at least one finds something, as if calls took turns. No
/// fence of a skip helps. The `polls` before make a consumer look at the tail first.
template <int Polls>
struct empties_of_two_queues : rl::test_suite<empties_of_two_queues<Polls>, 2> {
  stuck_queue queues[2];
  ledger seen[2];
  bool found[2] = {};
  void before() {
    for (int i = 0; i < Polls; ++i) {
      for (stuck_queue& q : queues) model::check(!seen[0].take(q), "it is empty");
    }
  }
  void thread(unsigned index) {
    queues[index].enqueue(7U);
    found[index] = seen[index].take(queues[1 - index]);
  }
  void after() { model::check(found[0] || found[1], "one finds the other's element"); }
};

/// The same where the head stands at the end of a segment.
struct empties_at_ends : rl::test_suite<empties_at_ends, 2> {
  stuck_queue queues[2];
  ledger seen[2];
  bool found[2] = {};
  void before() {
    for (stuck_queue& q : queues) {
      for (int i = 0; i < 2; ++i) {
        q.enqueue(1U);
        stuck out(0U);
        q.dequeue(out);
      }
    }
  }
  void thread(unsigned index) {
    queues[index].enqueue(7U);
    found[index] = seen[index].take(queues[1 - index]);
  }
  void after() { model::check(found[0] || found[1], "one finds the other's element"); }
};

/// A look at the size while others come and go, to a segment that the looker has not seen.
struct looked_at : rl::test_suite<looked_at, 2> {
  queue q;
  ledger seen[1];
  void before() {
    q.enqueue(11U);
    seen[0].take(q);
  }
  void thread(unsigned index) {
    if (index == 1) return model::check(q.approx_size() <= 3, "no more than are put in");
    q.enqueue(12U);
    seen[0].take(q);
    q.enqueue(13U);
    q.enqueue(14U);
    seen[0].take(q);
  }
  void after() { model::check(q.approx_size() == 1 && seen[0].count == 3, "one is left"); }
};

/// Elements of which those with the value 0 cannot be made.
struct alignas(128) failing : element {
  explicit failing(unsigned v) : element(v) {
    if (v == 0) throw 0;
  }
};

/// A failed element moves the head, as consumers do, also in a segment that came while it was under way. One thread
/// alone throws: see relacy_seam.hpp.
struct failures : rl::test_suite<failures, 2> {
  async::queue<failing, small> q;
  ledger seen[2];
  void before() {
    q.enqueue(11U);
    seen[0].take(q);
  }
  void thread(unsigned index) {
    if (index == 1) {
      q.enqueue(21U);
      for (unsigned i = 0; i < 2; ++i) seen[1].take(q);
      return;
    }
    try {
      q.enqueue(0U);
    } catch (int) {
    }
  }
  void after() {
    while (seen[0].take(q)) {
    }
    model::check(q.empty(), "it is empty");
    check_all(seen, 2, 2032);
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("queue", argc, argv);
  const model::effort some{.at_most = 250'000, .random = 50'000};
  // More schedules than a search gets through: chance finds more than the first of them.
  const model::effort vast{.at_most = 60'000, .random = 150'000};
  run.check<one_to_one>("one producer, one consumer");
  run.check<two_producers>("two producers, one consumer", vast);
  run.check<two_consumers>("one producer, two consumers", vast);
  run.check<reuse<3, false>>("each thread enqueues and dequeues; segments are used again", vast);
  run.check<reuse_beside_a_reader<false>>("a segment is used again beside a reader", some);
  run.check<reuse<2, true>>("each thread enqueues, dequeues and trims", some);
  run.check<reuse_beside_a_reader<true>>("a segment is trimmed beside a reader", some);
  run.check<bulk>("a bulk against single dequeues");
  run.check<bulks<wide>>("a bulk against bulks", vast);
  run.check<bulks<stuck>>("a bulk against bulks, where none is skipped", vast);
  run.check<without_skip>("one producer, one consumer, where none is skipped");
  run.check<empties_of_two_queues<0>>("empty is empty, across two queues");
  run.check<empties_of_two_queues<1>>("empty is empty, across two queues that were polled");
  run.check<empties_at_ends>("empty is empty, across two queues at the ends of segments");
  run.check<looked_at>("a look at the size");
  run.check<failures>("constructors that throw beside a consumer", some);
  return run.result();
}
