// SPDX-License-Identifier: BSL-1.0
//
// async::bounded_queue under every schedule that Relacy finds: non-blocking calls.
#include "bounded_queue.hpp"

#include <type_traits>

using namespace model;

namespace {

// --- calls that return at once ---------------------------------------------------------------------------------------

/// One thread puts three through two slots, one takes.
struct in_turn : rl::test_suite<in_turn, 2> {
  ring<2> queue{2};
  basket got;
  void thread(unsigned index) {
    for (unsigned i = 1; i <= 3; ++i) {
      if (index == 0) {
        while (!queue.enqueue(i)) async::detail::yield_thread();
      } else {
        while (!take(queue, got)) async::detail::yield_thread();
      }
    }
  }
  void after() {
    model::check(got.values[0] == 1 && got.values[1] == 2 && got.values[2] == 3, "first in, first out");
    model::check(queue.empty() && queue.approx_size() == 0, "all are out");
  }
};

/// Two threads put one each, then take one each: what is in cannot be missed.
template <unsigned Capacity>
struct put_then_take : rl::test_suite<put_then_take<Capacity>, 2> {
  ring<Capacity> queue{Capacity};
  basket got[2];
  bool put[2] = {};
  void thread(unsigned index) {
    put[index] = queue.enqueue(index + 1);
    model::check(put[index] || Capacity == 1, "there is room");
    const bool took = take(queue, got[index]);
    model::check(took || !put[index] || Capacity == 1, "what was put is there, or the other has taken it for its own");
  }
  void after() {
    unsigned in = 0;
    basket rest;
    while (take(queue, rest)) {
    }
    for (unsigned i = 0; i < 2; ++i) in += put[i] ? i + 1 : 0;
    model::check(in == got[0].sum() + got[1].sum() + rest.sum(), "each comes out once");
  }
};

/// Two producers, one consumer, fewer slots than elements.
struct many_in : rl::test_suite<many_in, 3> {
  ring<2> queue{2};
  basket got;
  void thread(unsigned index) {
    if (index == 2) {
      while (got.count != 3) {
        if (!take(queue, got)) async::detail::yield_thread();
      }
    } else {
      for (unsigned i = 1; i <= 2 - index; ++i) {
        while (!queue.enqueue(100 * index + i)) async::detail::yield_thread();
      }
    }
  }
  void after() {
    got.check_order();
    model::check(got.sum() == 1 + 2 + 101, "each comes out once");
  }
};

/// One producer, two consumers.
struct many_out : rl::test_suite<many_out, 3> {
  ring<2> queue{2};
  basket got[2];
  void thread(unsigned index) {
    if (index == 2) {
      for (unsigned i = 1; i <= 3; ++i) {
        while (!queue.enqueue(i)) async::detail::yield_thread();
      }
    } else {
      for (unsigned i = 0; i < 2 - index; ++i) {
        while (!take(queue, got[index])) async::detail::yield_thread();
      }
    }
  }
  void after() {
    for (const basket& g : got) g.check_order();
    model::check(got[0].sum() + got[1].sum() == 6, "each comes out once");
  }
};

/// Each thread fills its queue and looks into the other's: at least one finds something, as if calls took turns.
template <bool Bulk, bool Asks>
struct empties_of_two_queues : rl::test_suite<empties_of_two_queues<Bulk, Asks>, 2> {
  ring<1> queues[2]{ring<1>{1}, ring<1>{1}};
  bool found[2] = {};
  basket got[2];
  void thread(unsigned index) {
    const unsigned one[1] = {7};
    model::check(Bulk ? queues[index].bulk_enqueue(one, 1) == 1 : queues[index].enqueue(7U), "there is room");
    found[index] = Asks ? !queues[1 - index].empty() : take(queues[1 - index], got[index]);
  }
  void after() { model::check(found[0] || found[1], "one finds the other's element"); }
};

template <bool Bulk>
struct fulls_of_two_queues : rl::test_suite<fulls_of_two_queues<Bulk>, 2> {
  using item = std::conditional_t<Bulk, staying, element>;
  ring<1, item> queues[2]{ring<1, item>{1}, ring<1, item>{1}};
  basket got[2];
  bool put[2] = {};
  void before() {
    for (auto& q : queues) q.enqueue(7U);
  }
  void thread(unsigned index) {
    item one[1];
    model::check(Bulk ? queues[index].bulk_dequeue(one, 1) == 1 : take(queues[index], got[index]), "there is one");
    put[index] = queues[1 - index].enqueue(8U);
  }
  void after() { model::check(put[0] || put[1], "one finds the other's room"); }
};

struct ends_of_two_queues : rl::test_suite<ends_of_two_queues, 2> {
  ring<1> queues[2]{ring<1>{1}, ring<1>{1}};
  bool closed[2] = {};
  void thread(unsigned index) {
    queues[index].close();
    closed[index] = queues[1 - index].is_closed();
  }
  void after() { model::check(closed[0] || closed[1], "one finds the other's queue closed"); }
};

template <class T>
struct in_bulk : rl::test_suite<in_bulk<T>, 3> {
  ring<2, T> queue{2};
  basket got;
  void thread(unsigned index) {
    if (index == 2) {
      while (got.count != 4) {
        T some[2];
        const std::size_t taken = queue.bulk_dequeue(some, 2);
        for (std::size_t i = 0; i < taken; ++i) got.put(some[i]);
        if (taken == 0) async::detail::yield_thread();
      }
    } else {
      const unsigned values[2] = {100 * index + 1, 100 * index + 2};
      for (std::size_t put = 0; put != 2;) {
        const std::size_t more = queue.bulk_enqueue(values + put, 2 - put);
        put += more;
        if (more == 0) async::detail::yield_thread();
      }
    }
  }
  void after() {
    got.check_order();
    model::check(got.sum() == 1 + 2 + 101 + 102, "each comes out once");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("bounded_queue", argc, argv);
  // More schedules than a search gets through: chance finds more than the first of them.
  const model::effort vast{.at_most = 60'000, .random = 100'000};
  run.check<in_turn>("one producer, one consumer, turns wrap");
  run.check<put_then_take<2>>("each thread puts and takes");
  run.check<put_then_take<1>>("each thread puts and takes, one slot");
  run.check<many_in>("two producers, one consumer");
  run.check<many_out>("one producer, two consumers", vast);
  run.check<empties_of_two_queues<false, false>>("empty is empty, across two queues");
  run.check<empties_of_two_queues<true, false>>("empty is empty, across two queues, in bulk");
  run.check<empties_of_two_queues<false, true>>("empty() is true, across two queues");
  run.check<fulls_of_two_queues<false>>("full is full, across two queues");
  run.check<fulls_of_two_queues<true>>("full is full, across two queues, in bulk");
  run.check<ends_of_two_queues>("closed is closed, across two queues");
  run.check<in_bulk<staying>>("bulk", vast);
  run.check<in_bulk<element>>("bulk, taken one by one", vast);
  return run.result();
}
