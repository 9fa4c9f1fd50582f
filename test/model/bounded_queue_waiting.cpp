// SPDX-License-Identifier: BSL-1.0
//
// async::bounded_queue under every schedule that Relacy finds: calls that wait, closing, constructors that throw.
#include "bounded_queue.hpp"

using namespace model;

namespace {

// --- calls that wait -------------------------------------------------------------------------------------------------

/// Both sides wait for each other on one slot.
struct waiting : rl::test_suite<waiting, 2> {
  ring<1> queue{1};
  basket got;
  void thread(unsigned index) {
    for (unsigned i = 1; i <= 3; ++i) {
      model::check(index == 0 ? queue.blocking_enqueue(i) : wait_and_take(queue, got), "it is open");
    }
  }
  void after() { model::check(got.sum() == 6, "each comes out once"); }
};

/// Two wait for one element each.
struct waiting_consumers : rl::test_suite<waiting_consumers, 3> {
  ring<2> queue{2};
  basket got[2];
  void thread(unsigned index) {
    if (index == 2) {
      model::check(queue.enqueue(1U) && queue.enqueue(2U), "there is room");
    } else {
      model::check(wait_and_take(queue, got[index]), "it is open");
    }
  }
  void after() { model::check(got[0].sum() + got[1].sum() == 3, "each comes out once"); }
};

struct waiting_producers : rl::test_suite<waiting_producers, 3> {
  ring<1> queue{1};
  basket got;
  void before() { queue.enqueue(1U); }
  void thread(unsigned index) {
    if (index == 2) {
      model::check(take(queue, got), "there is one");
      model::check(wait_and_take(queue, got), "it is open");
    } else {
      model::check(queue.blocking_enqueue(index + 2), "it is open");
    }
  }
  void after() {
    model::check(take(queue, got) && got.sum() == 6, "each comes out once");
    model::check(got.values[0] == 1, "first in, first out");
  }
};

struct waiting_for_bulk : rl::test_suite<waiting_for_bulk, 3> {
  ring<2> queue{2};
  basket got[2];
  void thread(unsigned index) {
    if (index == 2) {
      const unsigned values[2] = {1, 2};
      model::check(queue.bulk_enqueue(values, 2) == 2, "there is room");
    } else {
      model::check(wait_and_take(queue, got[index]), "it is open");
    }
  }
  void after() { model::check(got[0].sum() + got[1].sum() == 3, "each comes out once"); }
};

/// One waits with a limit, one without; a waiter that times out does not take the other's wake-up with it.
struct waiting_in_time : rl::test_suite<waiting_in_time, 3> {
  ring<2> queue{2};
  basket got[2];
  bool in_time = false;
  void thread(unsigned index) {
    if (index == 2) {
      queue.enqueue(1U);
      queue.enqueue(2U);
    } else if (index == 1) {
      model::check(wait_and_take(queue, got[1]), "it is open");
    } else {
      element e;
      in_time = queue.dequeue_for(e, std::chrono::seconds(1));
      if (in_time) got[0].put(e);
    }
  }
  void after() {
    if (!in_time) take(queue, got[0]);
    model::check(got[0].sum() + got[1].sum() == 3, "each comes out once");
  }
};

struct room_in_time : rl::test_suite<room_in_time, 2> {
  ring<1> queue{1};
  basket got;
  bool in_time = false;
  void before() { queue.enqueue(1U); }
  void thread(unsigned index) {
    if (index == 0) {
      in_time = queue.enqueue_for(std::chrono::seconds(1), 2U);
    } else {
      model::check(take(queue, got), "there is one");
    }
  }
  void after() { model::check(take(queue, got) == in_time, "what is accepted is there"); }
};

// --- closing ---------------------------------------------------------------------------------------------------------

/// Closing wakes a consumer and a producer that wait.
struct close_wakes : rl::test_suite<close_wakes, 3> {
  ring<1> empty{1};
  ring<1> full{1};
  basket got;
  void before() { full.enqueue(1U); }
  void thread(unsigned index) {
    if (index == 0) {
      empty.close();
      full.close();
    } else if (index == 1) {
      model::check(!wait_and_take(empty, got), "closed and drained");
    } else {
      model::check(!full.blocking_enqueue(2U), "closed");
    }
  }
  void after() {
    model::check(wait_and_take(full, got) && got.sum() == 1, "what is in is still there");
    model::check(!wait_and_take(full, got), "closed and drained");
  }
};

/// Elements that are accepted before the end come out before the end.
struct close_loses_nothing : rl::test_suite<close_loses_nothing, 3> {
  ring<2> queue{2};
  basket got;
  unsigned accepted = 0;
  void thread(unsigned index) {
    if (index == 0) {
      queue.close();
    } else if (index == 1) {
      for (unsigned i = 1; i <= 2 && queue.blocking_enqueue(i); ++i) accepted += i;
      model::check(!queue.is_closed() || !queue.enqueue(9U), "closed");
    } else {
      while (wait_and_take(queue, got)) {
      }
      model::check(queue.is_closed(), "only the end stops a consumer");
    }
  }
  void after() {
    model::check(got.sum() >= accepted, "what was accepted has come out");
    basket rest;
    model::check(!take(queue, rest), "and nothing is left");
  }
};

struct close_with_sleepers : rl::test_suite<close_with_sleepers, 3> {
  ring<1> queue{1};
  basket got[2];
  bool accepted = false;
  void thread(unsigned index) {
    if (index == 2) {
      accepted = queue.enqueue(1U);
      queue.close();
    } else {
      wait_and_take(queue, got[index]);
    }
  }
  void after() { model::check(accepted && got[0].sum() + got[1].sum() == 1, "one gets it, both return"); }
};

// --- constructors that throw -----------------------------------------------------------------------------------------

struct maker {
  unsigned value;
};
/// Made from a constant maker before a slot is claimed, from another one or a number afterwards.
struct throwing {
  explicit throwing(unsigned v) : value(v) {
    if (v == 0) throw 0;
  }
  explicit throwing(maker m) : throwing(m.value) {}
  element value;
};
using throwing_ring = ring<1, throwing>;

void put_nothing(auto& queue) {
  try {
    queue.enqueue(maker{0});
  } catch (int) {
  }
}

/// An element that is made before the claim never takes the last slot.
struct no_slot_for_failure : rl::test_suite<no_slot_for_failure, 2> {
  throwing_ring queue{1};
  void thread(unsigned index) {
    const maker constant{index};
    if (index == 1) return model::check(queue.enqueue(constant), "there is room");
    try {
      queue.enqueue(constant);
    } catch (int) {
    }
  }
  void after() { model::check(queue.approx_size() == 1 && queue.dequeue()->value.value() == 1, "one is in"); }
};

/// A slot is given back while another producer takes it, and a consumer waits for its element.
struct slot_given_back : rl::test_suite<slot_given_back, 3> {
  ring<2, throwing> queue{2};
  unsigned got = 0;
  void thread(unsigned index) {
    if (index == 0) {
      put_nothing(queue);
    } else if (index == 1) {
      model::check(queue.blocking_enqueue(maker{1}) && queue.blocking_enqueue(maker{2}), "it is open");
    } else {
      std::optional<throwing> out;
      model::check(queue.blocking_dequeue(out), "it is open");
      got = out->value.value();
    }
  }
  void after() {
    model::check(got == 1 && queue.dequeue()->value.value() == 2 && queue.empty(), "each comes out once");
    model::check(queue.enqueue(1U) && queue.enqueue(2U) && !queue.enqueue(3U), "all slots are there");
  }
};

/// A bulk gives back the slots that it could not fill, also of a queue that is closed meanwhile.
struct bulk_given_back : rl::test_suite<bulk_given_back, 2> {
  ring<4, throwing> queue{4};
  unsigned got = 0;
  void thread(unsigned index) {
    if (index == 1) {
      queue.close();
      std::optional<throwing> out;
      while (queue.blocking_dequeue(out)) got += out->value.value();
      return;
    }
    const unsigned values[] = {1, 0, 2};
    try {
      queue.bulk_enqueue(values, 3);
    } catch (int) {
    }
  }
  void after() { model::check(got <= 1 && queue.is_closed() && queue.empty(), "the end is the end"); }
};

/// An element whose constructor throws leaves its slot to a producer that sleeps.
struct void_slot_makes_room : rl::test_suite<void_slot_makes_room, 2> {
  throwing_ring queue{1};
  void thread(unsigned index) {
    if (index == 0) {
      put_nothing(queue);
    } else {
      model::check(queue.blocking_enqueue(maker{1}), "it is open");
    }
  }
  void after() { model::check(queue.approx_size() == 1, "one is in"); }
};

/// The void slot is behind elements that a third thread takes; until then it makes no room for sleepers.
struct void_slot_behind : rl::test_suite<void_slot_behind, 3> {
  ring<2, throwing> queue{2};
  unsigned got = 0;
  void before() { queue.enqueue(maker{1}); }
  void thread(unsigned index) {
    if (index == 0) {
      put_nothing(queue);
    } else if (index == 1) {
      for (int i = 0; i < 2; ++i) {
        std::optional<throwing> out;
        model::check(queue.blocking_dequeue(out), "it is open");
        got += out->value.value();
      }
    } else {
      model::check(queue.blocking_enqueue(maker{2}), "it is open");
      model::check(queue.blocking_enqueue(maker{4}), "it is open");
    }
  }
  void after() {
    while (const std::optional<throwing> out = queue.dequeue()) got += out->value.value();
    model::check(got == 7, "each comes out once");
    model::check(queue.empty(), "and nothing is left");
  }
};

/// The last of two threads frees the void slot: its producer or the consumer of the element before it.
struct void_slot_and_consumer : rl::test_suite<void_slot_and_consumer, 2> {
  ring<2, throwing> queue{2};
  void before() { queue.enqueue(maker{1}); }
  void thread(unsigned index) {
    if (index == 0) {
      put_nothing(queue);
      model::check(queue.blocking_enqueue(maker{2}) && queue.blocking_enqueue(maker{3}), "it is open");
    } else {
      model::check(queue.dequeue().has_value(), "there is one");
    }
  }
  void after() { model::check(queue.dequeue()->value.value() == 2, "the void slot is passed over"); }
};

/// Two void slots behind one element, and a producer that needs the room of all.
struct void_slots : rl::test_suite<void_slots, 3> {
  ring<2, throwing> queue{2};
  void thread(unsigned index) {
    if (index == 2) {
      model::check(queue.blocking_enqueue(maker{2}) && queue.blocking_enqueue(maker{3}), "it is open");
    } else {
      put_nothing(queue);
      if (index == 0) model::check(queue.blocking_enqueue(maker{4}), "it is open");
      if (index == 1) {
        std::optional<throwing> out;
        model::check(queue.blocking_dequeue(out), "it is open");
        model::check(queue.blocking_dequeue(out), "it is open");
      }
    }
  }
};

/// A consumer that sleeps is not kept from the element behind a void slot.
struct void_slot_before : rl::test_suite<void_slot_before, 3> {
  ring<2, throwing> queue{2};
  void thread(unsigned index) {
    if (index == 0) {
      put_nothing(queue);
    } else if (index == 1) {
      queue.blocking_enqueue(maker{1});
    } else {
      std::optional<throwing> out;
      model::check(queue.blocking_dequeue(out) && out->value.value() == 1, "it comes out");
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("bounded_queue_waiting", argc, argv);
  // More schedules than a search gets through: chance finds more than the first of them.
  const model::effort vast{.at_most = 60'000, .random = 100'000};
  run.check<waiting>("both sides wait");
  run.check<waiting_consumers>("two consumers wait");
  run.check<waiting_producers>("two producers wait");
  run.check<waiting_for_bulk>("two consumers wait for a bulk");
  run.check<waiting_in_time>("one consumer times out, one waits", vast);
  run.check<room_in_time>("a producer times out");
  run.check<close_wakes>("close wakes both sides");
  run.check<close_loses_nothing>("close loses nothing that was accepted");
  run.check<close_with_sleepers>("close with two consumers");
  run.check<no_slot_for_failure>("an element that is made early takes no slot");
  run.check<slot_given_back>("a slot is given back");
  run.check<bulk_given_back>("a bulk gives slots back");
  run.check<void_slot_makes_room>("a void slot makes room");
  run.check<void_slot_behind>("a void slot behind an element");
  run.check<void_slot_and_consumer>("the last thread passes over a void slot");
  run.check<void_slots>("two void slots", vast);
  run.check<void_slot_before>("a void slot before an element");
  return run.result();
}
