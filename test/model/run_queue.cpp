// SPDX-License-Identifier: BSL-1.0
//
// The run queue of a worker with rings of two and four slots, so that slots are used again at once, and the backlog
// beside it. Each item carries a number, which the pusher writes before the push and the taker reads and clears.
#include "relacy_runner.hpp"

#include "model_mutex.hpp"

#include "async/detail/pool/backlog.hpp"
#include "async/detail/pool/run_queue.hpp"

using async::detail::atomic;
using async::detail::backlog;
using async::detail::cell;
using async::detail::run_queue;
using model::check;
using model::mutex;

namespace {

struct item {
  /// A pointer whose accesses the checker sees.
  class link {
   public:
    link& operator=(item* to) {
      to_.set(to);
      return *this;
    }
    operator item*() const { return to_.get(); }

   private:
    cell<item*> to_;
  };
  cell<unsigned> number;
  link behind;
};

/// Items, each of which must be taken once, by a thread that sees what its pusher wrote.
struct items_of_all {
  static constexpr unsigned most = 8;
  item items[most];
  unsigned taken[most] = {};
  unsigned newest[4] = {};  // for each thread, and for after(): the number of its latest item from the queue, plus 1

  item& make(unsigned number) {
    items[number].number.set(number + 1);
    return items[number];
  }
  /// True: `got` is an item. Items come to `thread` in the order of their numbers.
  bool take(item* got, unsigned thread) {
    const bool is_item = take_in_any_order(got);
    if (is_item) {
      const unsigned number = static_cast<unsigned>(got - items) + 1;
      check(newest[thread] < number, "the oldest comes first");
      newest[thread] = number;
    }
    return is_item;
  }
  bool take_in_any_order(item* got) {
    if (got == nullptr) return false;
    const unsigned number = got->number.get();
    check(number != 0 && got == &items[number - 1], "the item is what was pushed");
    got->number.set(0);  // a second taker would race with this, or find it
    ++taken[number - 1];
    return true;
  }
  void check_all(unsigned pushed) {
    for (unsigned i = 0; i < most; ++i) check(taken[i] == (i < pushed ? 1U : 0U), "each item is taken once");
  }
};

template <std::uint32_t Capacity>
struct fixture : items_of_all {
  run_queue<item, Capacity> queue;

  bool push(unsigned number) { return queue.push(make(number)); }
  /// Owner: pushes, or runs the item itself when the queue is full.
  void push_or_run(unsigned number) {
    if (!push(number)) take_in_any_order(&items[number]);
  }
  /// Owner: pushes, and runs the oldest half when the queue is full.
  void push_or_spill(unsigned number, unsigned thread) {
    if (push(number)) return;
    queue.spill([&](item& spilled) { take(&spilled, thread); });
    check(push(number), "a spill makes room");
  }
  bool take_oldest(unsigned thread) { return take(queue.take(), thread); }

  void drain(unsigned pushed) {
    while (take_oldest(3)) {
    }
    check(queue.empty() && queue.size() == 0, "a queue that gives nothing is empty");
    check_all(pushed);
  }
};

/// The owner and one other after the last item.
struct last : rl::test_suite<last, 2>, fixture<2> {
  void thread(unsigned index) {
    if (index == 0) {
      push_or_run(0);
      take_oldest(0);
      push_or_run(1);
      take_oldest(0);
    } else {
      take_oldest(1);
      take_oldest(1);
    }
  }
  void after() { drain(2); }
};

/// Two take while the owner pushes and takes.
struct two_takers : rl::test_suite<two_takers, 3>, fixture<2> {
  void thread(unsigned index) {
    if (index == 0) {
      push_or_run(0);
      push_or_run(1);
      take_oldest(0);
      push_or_run(2);
    } else {
      take_oldest(index);
    }
  }
  void after() { drain(3); }
};

/// Slots are used again as soon as their items are taken.
struct reuse : rl::test_suite<reuse, 3>, fixture<2> {
  void before() {
    push_or_run(0);
    push_or_run(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      push_or_run(2);
      push_or_run(3);
      push_or_run(4);
    } else {
      take_oldest(index);
      if (index == 1) take_oldest(index);
    }
  }
  void after() { drain(5); }
};

/// The owner, with others taking, finds room after it has spilled, or others have made some.
template <unsigned Threads>
struct spilled : rl::test_suite<spilled<Threads>, static_cast<int>(Threads)>, fixture<2> {
  void thread(unsigned index) {
    if (index == 0) {
      for (unsigned i = 0; i < 4; ++i) push_or_spill(i, 0);
    } else {
      take_oldest(index);
      take_oldest(index);
    }
  }
  void after() { drain(4); }
};

/// A take that follows another one, or a spill, finds the items that the earlier one knew of.
struct known_to_taker : rl::test_suite<known_to_taker, 3>, fixture<2> {
  void thread(unsigned index) {
    if (index == 0) {
      push(0);
      push(1);
    } else if (index == 1) {
      if (queue.size() == 2) take_oldest(1);
    } else {
      if (queue.size() != 0) check(take_oldest(2), "one is left");
    }
  }
  void after() { drain(2); }
};
struct known_to_owner : rl::test_suite<known_to_owner, 2>, fixture<2> {
  void thread(unsigned index) {
    if (index == 0) {
      push(0);
      push(1);
      queue.spill([&](item& oldest) { take(&oldest, 0); });
    } else {
      if (queue.size() != 0) check(take_oldest(1), "one is left");
    }
  }
  void after() { drain(2); }
};

/// Queues of four slots, one for the owner and one for each thief.
template <int Threads>
struct halves_of : rl::test_suite<halves_of<Threads>, Threads>, fixture<4> {
  run_queue<item, 4> own[3];  // of the threads other than the owner

  item* steal(unsigned thief) { return own[thief].steal_half(queue); }
  void drain_all(unsigned pushed) {
    for (auto& q : own) {
      newest[3] = 0;
      while (take(q.take(), 3)) {
      }
    }
    newest[3] = 0;
    drain(pushed);
  }
};

/// A thief takes half while the owner takes, and uses the slots again.
struct half : halves_of<2> {
  void before() {
    for (unsigned i = 0; i < 4; ++i) push_or_run(i);
  }
  void thread(unsigned index) {
    if (index == 0) {
      take_oldest(0);
      push_or_run(4);
      push_or_run(5);
    } else {
      check(take(steal(1), 1), "there are always some");
      take(own[1].take(), 1);
    }
  }
  void after() { drain_all(6); }
};

/// Two thieves and the owner after the last item.
struct last_for_thieves : halves_of<3> {
  void before() { push_or_run(0); }
  void thread(unsigned index) {
    if (index == 0) {
      push_or_run(1);
    } else {
      take_in_any_order(steal(index));
    }
  }
  void after() { drain_all(2); }
};

/// Two thieves and the owner; the owner's new items go to slots that a slower thief may still be reading.
struct two_thieves : halves_of<3> {
  void before() {
    for (unsigned i = 0; i < 4; ++i) push_or_run(i);
  }
  void thread(unsigned index) {
    if (index == 0) {
      push_or_run(4);
      push_or_run(5);
    } else {
      take(steal(index), index);
      take(own[index].take(), index);
    }
  }
  void after() { drain_all(6); }
};

/// Half of what the owner has pushed goes to a thief, and from its queue to a third thread.
struct passed_on : halves_of<3> {
  void thread(unsigned index) {
    if (index == 0) {
      for (unsigned i = 0; i < 3; ++i) push(i);
    } else if (index == 1) {
      take_in_any_order(steal(1));
    } else {
      take_in_any_order(own[1].take());
    }
  }
  void after() { drain_all(3); }
};

/// The thief's own queue is nearly full, and a third thread takes from it: what is stolen goes to slots that this
/// thread has read or reads.
struct full_thief : halves_of<3> {
  void before() {
    for (unsigned i = 0; i < 4; ++i) push_or_run(i);
    for (unsigned i = 4; i < 8; ++i) check(own[1].push(make(i)), "there is room");
  }
  void thread(unsigned index) {
    if (index == 0) {
      take_oldest(0);
    } else if (index == 1) {
      check(take_in_any_order(steal(1)), "one fits: the one that is returned");
      take_in_any_order(steal(1));
    } else {
      check(take_in_any_order(own[1].take()) && taken[4] == 1, "the oldest of the thief");
      check(take_in_any_order(own[1].take()) && taken[5] == 1, "and the next");
    }
  }
  void after() {
    for (const unsigned expected : {6U, 7U}) {
      check(take_in_any_order(own[1].take()) && taken[expected] == 1, "then the others of the thief");
    }
    drain_all(8);
  }
};

/// The pusher makes a light fence and finds the announced sleeper, or the sleeper's heavy fence makes it find the item;
/// a third thread takes an older one.
struct announced : rl::test_suite<announced, 3>, fixture<2> {
  atomic<unsigned> asleep{0};
  unsigned seen_asleep = 0;
  unsigned seen_empty = 0;
  unsigned seen_taken = 0;
  void before() { push(0); }
  void thread(unsigned index) {
    if (index == 0) {
      push(1);
      async::detail::light_fence();
      seen_asleep = asleep.load(std::memory_order_relaxed);
    } else if (index == 1) {
      asleep.store(1, std::memory_order_relaxed);
      async::detail::heavy_fence();
      seen_empty = queue.empty() ? 1 : 0;
    } else {
      seen_taken = take_oldest(2) ? 1 : 0;
    }
  }
  void after() {
    check(seen_asleep != 0 || seen_empty == 0, "the pusher or the sleeper sees the other");
    check(seen_taken == 1, "the older one is taken");
    drain(2);
  }
};

struct backlog_fixture : items_of_all {
  backlog<item, mutex> all;

  void take_chain(std::size_t most_items, unsigned thread) {
    for (item* next = all.take(most_items); next != nullptr;) {
      item* const here = next;
      next = here->behind;
      take(here, thread);
    }
  }
  void drain(unsigned pushed) {
    take_chain(most, 3);
    check(all.empty(), "a backlog that gives nothing is empty");
    check_all(pushed);
  }
};

/// Two push, one of them a chain, and one takes.
struct backlog_chain : rl::test_suite<backlog_chain, 3>, backlog_fixture {
  void thread(unsigned index) {
    if (index == 0) {
      make(0).behind = &make(1);
      all.push_all(&items[0], &items[1], 2);
    } else if (index == 1) {
      item& late = make(2);
      all.push(late);
    } else {
      for (item* next = all.take(2); next != nullptr;) {
        item* const here = next;
        next = here->behind;
        take_in_any_order(here);
        check(taken[1] <= taken[0], "the oldest comes first");
      }
    }
  }
  void after() {
    for (item* next = all.take(most); next != nullptr;) {
      item* const here = next;
      next = here->behind;
      take_in_any_order(here);
    }
    drain(3);
  }
};

/// As `announced`, for the backlog.
struct backlog_announced : rl::test_suite<backlog_announced, 2>, backlog_fixture {
  atomic<unsigned> asleep{0};
  unsigned seen_asleep = 0;
  unsigned seen_empty = 0;
  void thread(unsigned index) {
    if (index == 0) {
      all.push(make(0));
      async::detail::light_fence();
      seen_asleep = asleep.load(std::memory_order_relaxed);
    } else {
      asleep.store(1, std::memory_order_relaxed);
      async::detail::heavy_fence();
      seen_empty = all.empty() ? 1 : 0;
      take_chain(1, 1);
      check(seen_empty != 0 || taken[0] == 1, "what is seen is there");
    }
  }
  void after() {
    check(seen_asleep != 0 || seen_empty == 0, "the pusher or the sleeper sees the other");
    drain(1);
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("run_queue", argc, argv);
  const model::effort some{.at_most = 150'000, .random = 60'000};
  run.check<last>("the owner and a taker after the last item", some);
  run.check<two_takers>("two takers and the owner", some);
  run.check<reuse>("slots are used again", some);
  run.check<spilled<2>>("the owner spills while one takes", some);
  run.check<spilled<3>>("the owner spills while two take", some);
  run.check<known_to_taker>("a take finds what an earlier one knew of", some);
  run.check<known_to_owner>("a take finds what the owner's spill knew of", some);
  run.check<half>("a thief takes half while the owner takes and pushes", some);
  run.check<last_for_thieves>("two thieves after the last item", some);
  run.check<two_thieves>("two thieves take halves", some);
  run.check<passed_on>("what a thief has moved is taken from it", some);
  run.check<full_thief>("a thief takes as many as fit", some);
  run.check<announced>("a sleeper or the pusher sees the other", some);
  run.check<backlog_chain>("a chain and an item in the backlog", some);
  run.check<backlog_announced>("a sleeper or the pusher to the backlog sees the other", some);
  return run.result();
}
