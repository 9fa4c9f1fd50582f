// SPDX-License-Identifier: BSL-1.0
//
// The stealing deque with rings of two slots, so that slots are used again and the ring is outgrown. Thieves look at
// the tag of an element before they take it, and so at what its owner wrote there before the push.
#include "relacy_runner.hpp"

#include "async/detail/pool/stealing_deque.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::stealing_deque;
using model::check;

namespace {

struct item {
  cell<unsigned> number;  // written by who pushes, read and written by who takes
};
struct label {
  cell<unsigned> number;  // written by who pushes, read by who looks
};

// A thief may meet a slot of a wider ring that was never used, because the element had gone before.
bool is_odd(const label* tag) { return tag != nullptr && tag->number.get() % 2 != 0; }
bool is_even(const label* tag) { return tag != nullptr && tag->number.get() % 2 == 0; }
bool is_any(const label* tag) { return is_odd(tag) || is_even(tag); }

/// A deque and four elements; each must be taken once, by a thread that sees what its owner wrote. The owner lowers the
/// guard at each `Patience`-th pop of a shared element.
template <unsigned Patience>
struct fixture_of {
  using items_deque = stealing_deque<item, label, 2, Patience>;
  items_deque deque;
  item items[4];
  label tags[4];
  unsigned taken[4] = {};

  void push(unsigned number) {
    items[number].number.set(number + 1);
    tags[number].number.set(number);
    deque.push(&items[number], &tags[number]);
  }
  bool take(items_deque::element got_with_tag) {
    item* const got = got_with_tag.item;
    if (got == nullptr) return false;
    const unsigned number = got->number.get();
    check(number != 0 && got_with_tag.tag == &tags[number - 1], "the tag is that of the element");
    check(number != 0 && got == &items[number - 1], "the element is what was pushed");
    got->number.set(0);  // a second taker would race with this, or find it
    ++taken[number - 1];
    return true;
  }
  bool pop() { return take(deque.pop()); }
  bool steal() { return take(deque.steal()); }
  bool steal_if(bool (*fits)(const label*)) { return take(deque.steal_if(fits)); }
  bool pop_if(unsigned number) { return take(deque.pop_if(&tags[number])); }

  void drain(unsigned pushed) {
    while (pop()) {
    }
    for (unsigned i = 0; i < pushed; ++i) check(taken[i] == 1, "each element is taken once");
    check(deque.empty(), "a deque that gives nothing is empty");
  }
};

using fixture = fixture_of<1>;
using patient_fixture = fixture_of<100>;

/// The owner and the thief after the last element.
struct last : rl::test_suite<last, 2>, fixture {
  void thread(unsigned index) {
    if (index == 0) {
      push(0);
      pop();
      push(1);
      pop();
    } else {
      steal();
      steal();
    }
  }
  void after() { drain(2); }
};

/// The owner empties a full deque while a thief takes from it, and then tries again.
struct emptied : rl::test_suite<emptied, 2>, fixture {
  void before() {
    push(0);
    push(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      pop();
      pop();
    } else {
      steal();
      steal();
    }
  }
  void after() { drain(2); }
};

/// Two thieves against the owner's pops of two elements.
struct two_thieves : rl::test_suite<two_thieves, 3>, fixture {
  void thread(unsigned index) {
    if (index == 0) {
      push(0);
      push(1);
      pop();
      pop();
    } else {
      steal();
    }
  }
  void after() { drain(2); }
};

/// A slot is written again after its element was stolen.
struct reuse : rl::test_suite<reuse, 2>, fixture {
  void before() {
    push(0);
    push(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      push(2);
      pop();
      push(3);
      pop();
    } else {
      steal();
      steal();
    }
  }
  void after() { drain(4); }
};

/// The ring is outgrown while thieves read the old one.
struct growth : rl::test_suite<growth, 3>, fixture {
  void thread(unsigned index) {
    if (index == 0) {
      for (unsigned i = 0; i < 4; ++i) push(i);
      pop();
    } else {
      steal();
      steal();
    }
  }
  void after() { drain(4); }
};

/// The owner discards the outgrown ring and unused slots while thieves read them.
struct trimmed : rl::test_suite<trimmed, 3>, fixture {
  void before() {
    push(0);
    push(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      push(2);  // the ring grows, unless thieves have taken one
      deque.trim();
      push(3);
      pop();
    } else {
      steal();
    }
  }
  void after() { drain(4); }
};

/// A hint is right about an element that stays, while the owner discards the ring that the hint may look at.
struct hint_and_trim : rl::test_suite<hint_and_trim, 2>, fixture {
  void before() {
    push(1);
    push(0);
  }
  void thread(unsigned index) {
    if (index == 0) {
      push(2);
      deque.trim();
    } else {
      check(deque.oldest_fits(is_odd), "it does not go");
    }
  }
  void after() { drain(3); }
};

/// Thieves take the oldest element first, and a steal fails only when the deque was empty.
struct order : rl::test_suite<order, 2>, fixture {
  void before() {
    push(0);
    push(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      push(2);
    } else {
      check(steal() && taken[0] == 1, "the oldest comes first");
      check(steal() && taken[1] == 1, "then the next");
    }
  }
  void after() { drain(3); }
};

/// A thief looks at the tag of the oldest element, which goes meanwhile, and whose slot is used again.
struct look_and_reuse : rl::test_suite<look_and_reuse, 2>, fixture {
  void before() {
    push(0);
    push(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      pop();
      pop();
      push(2);
      push(3);
    } else {
      steal_if(is_any);
    }
  }
  void after() { drain(4); }
};

/// The same by a look alone; two more wait behind the ones that go.
struct hint_and_reuse : rl::test_suite<hint_and_reuse, 3>, fixture {
  void before() {
    push(0);
    push(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      push(2);
      push(3);
    } else if (index == 1) {
      steal();
      steal();
    } else {
      deque.oldest_fits(is_any);
    }
  }
  void after() { drain(4); }
};

/// A thief takes what fits and leaves what does not.
struct picky : rl::test_suite<picky, 2>, fixture {
  unsigned stolen = 0;
  void thread(unsigned index) {
    if (index == 0) {
      push(1);
      push(0);
      push(3);
    } else {
      while (!steal_if(is_odd)) async::detail::yield_thread();
      check(taken[1] == 1, "the oldest fits and is taken");
      check(!steal_if(is_odd), "what fits behind it is not the oldest");
    }
  }
  void after() {
    check(taken[0] + taken[3] == 0, "what does not fit is left, and what lies behind it");
    check(!deque.oldest_fits(is_odd) && deque.oldest_fits(is_even), "so it is");
    push(2);
    drain(4);
  }
};

/// Two that take only what fits race for the same element; the owner adds, and the ring grows.
struct picky_thieves : rl::test_suite<picky_thieves, 3>, fixture {
  void before() { push(1); }
  void thread(unsigned index) {
    if (index == 0) {
      push(0);
      push(3);
    } else {
      steal_if(is_odd);
    }
  }
  void after() {
    check(taken[1] == 1 && taken[0] + taken[3] == 0, "one of them has taken the oldest");
    push(2);
    drain(4);
  }
};

/// A hint is right about an element that stays, once it can be seen, while the ring grows.
struct hint : rl::test_suite<hint, 2>, fixture {
  atomic<unsigned> pushed{0};
  void thread(unsigned index) {
    if (index == 0) {
      push(1);
      pushed.store(1, std::memory_order_release);
      push(0);
      push(2);
      push(3);
    } else {
      if (deque.oldest_fits(is_any)) check(deque.oldest_fits(is_odd), "it is the oldest, as pushed");
      if (pushed.load(std::memory_order_acquire) != 0) check(deque.oldest_fits(is_odd), "and does not go");
    }
  }
  void after() { drain(4); }
};

/// The owner takes the newest only if it has the right tag; the thief is after the same.
struct own_kind : rl::test_suite<own_kind, 2>, fixture {
  void thread(unsigned index) {
    if (index == 0) {
      push(0);
      push(1);
      check(!pop_if(0), "the newest is another");
      check(pop_if(1) || taken[1] == 1, "the newest is the owner's or stolen");
      const bool got = pop_if(0);
      check(!got || taken[0] == 1, "then the next");
      check(!pop_if(0), "which is there once");
    } else {
      steal();
      steal();
    }
  }
  void after() { drain(2); }
};

/// The owner takes back what it has pushed last, if nobody else has taken it.
struct taken_back : rl::test_suite<taken_back, 2>, fixture {
  bool take_back(unsigned number) {
    const bool got = deque.pop_this(&items[number]);
    if (got) {
      items[number].number.set(0);
      ++taken[number];
    }
    return got;
  }
  void thread(unsigned index) {
    if (index == 0) {
      push(0);
      push(1);
      check(!take_back(0), "the newest is another");
      if (!take_back(1)) check(!take_back(0), "who has taken the newest has taken all before");
      take_back(0);
      check(!take_back(0) && !take_back(1), "each is there once");
    } else {
      steal();
      steal();
    }
  }
  void after() { drain(2); }
};

/// The owner takes one from below: it sets aside what is newer and puts it back; thieves come from the other side.
struct from_below : rl::test_suite<from_below, 2>, fixture {
  void before() {
    push(0);
    push(1);
    push(2);
  }
  void thread(unsigned index) {
    if (index != 0) {
      steal();
      steal();
      return;
    }
    const auto fits = [](const items_deque::element& e) { return is_odd(e.tag); };
    const std::int64_t end = deque.position();
    std::int64_t newer = 0;
    check(end == 3, "the deque reaches as far as was pushed");
    check(!deque.find(1, fits, newer), "the newest does not fit");
    if (deque.find(3, fits, newer)) {
      check(newer == 1, "it lies below one");
      const auto aside = deque.pop();
      const auto found = aside ? deque.pop() : aside;
      check(!found || found.tag == &tags[1], "it is still there or nothing is");
      if (aside) deque.push(aside.item, aside.tag);
      take(found);
    } else {
      check(!pop_if(1), "what is not found has gone");
    }
  }
  void after() { drain(3); }
};

/// Thieves raise the guard while the owner pops what was private before.
template <class Fixture>
struct raised : rl::test_suite<raised<Fixture>, 3>, Fixture {
  void before() {
    this->push(0);
    this->push(1);
    this->push(2);
  }
  void thread(unsigned index) {
    if (index == 0) {
      this->pop();
      this->pop();
      this->push(3);
      this->pop();
    } else {
      this->steal();
      if (index == 1) this->steal();
    }
  }
  void after() { this->drain(4); }
};

/// The guard has been raised. The owner lowers it above other elements and uses the position of its pop again, which
/// thieves reach meanwhile.
struct lowered_above_others : rl::test_suite<lowered_above_others, 3>, fixture {
  void before() {
    push(0);
    push(1);
    push(2);
    check(steal(), "which raises the guard");
  }
  void thread(unsigned index) {
    if (index == 0) {
      pop();
      push(3);
      pop();
    } else {
      steal();
      if (index == 1) steal();
    }
  }
  void after() { drain(4); }
};

/// The same when the pop takes the last element, or a thief does.
struct lowered_to_nothing : rl::test_suite<lowered_to_nothing, 3>, fixture {
  void before() {
    push(0);
    push(1);
    check(steal(), "which raises the guard");
  }
  void thread(unsigned index) {
    if (index == 0) {
      pop();
      push(2);
      pop();
      push(3);
      pop();
    } else {
      steal();
    }
  }
  void after() { drain(4); }
};

/// The guard is lowered, raised and lowered again.
struct lowered_twice : rl::test_suite<lowered_twice, 2>, fixture {
  void before() {
    push(0);
    push(1);
    check(steal(), "which raises the guard");
  }
  void thread(unsigned index) {
    if (index == 0) {
      push(2);
      pop();
      push(3);
      pop();
      pop();
    } else {
      steal();
      steal();
    }
  }
  void after() { drain(4); }
};

/// The ring is outgrown by private elements while thieves raise the guard.
struct private_growth : rl::test_suite<private_growth, 3>, fixture {
  void before() {
    push(0);
    push(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      pop();
      push(2);
      push(3);
      pop();
      pop();
    } else {
      steal();
    }
  }
  void after() { drain(4); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("stealing_deque", argc, argv);
  const model::effort some{.at_most = 250'000, .random = 100'000};
  // More schedules than a search gets through: chance finds more than the first of them.
  const model::effort vast{.at_most = 60'000, .random = 200'000};
  run.check<last>("owner and thief after the last element");
  run.check<emptied>("owner and thief empty the deque");
  run.check<two_thieves>("two thieves and the owner", some);
  run.check<reuse>("slots are used again");
  run.check<growth>("two thieves while the ring grows", vast);
  run.check<trimmed>("two thieves while the owner trims", vast);
  run.check<hint_and_trim>("a hint about the oldest while the owner trims");
  run.check<order>("thieves take the oldest first");
  run.check<look_and_reuse>("a thief looks at a tag whose slot is used again");
  run.check<hint_and_reuse>("a look at the oldest tag, whose slot is used again", some);
  run.check<picky>("a thief takes what fits and leaves what does not");
  run.check<picky_thieves>("two thieves after what fits while the ring grows", vast);
  run.check<hint>("a hint about the oldest while the ring grows", some);
  run.check<own_kind>("the owner takes the newest if it is of a kind");
  run.check<taken_back>("the owner takes back what it has pushed last");
  run.check<from_below>("the owner takes one from below others");
  run.check<raised<fixture>>("thieves raise the guard while the owner pops", vast);
  run.check<raised<patient_fixture>>("and it stays raised", vast);
  run.check<lowered_above_others>("the guard is lowered above elements that go", some);
  run.check<lowered_to_nothing>("the guard is lowered with the last element", some);
  run.check<lowered_twice>("the guard is lowered twice", some);
  run.check<private_growth>("private elements outgrow the ring", vast);
  return run.result();
}
