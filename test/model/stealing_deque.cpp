// SPDX-License-Identifier: BSL-1.0
//
// The stealing deque with rings of two slots, so that slots are used again and the ring is outgrown.
#include "relacy_runner.hpp"

#include "async/detail/stealing_deque.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::stealing_deque;
using model::check;

namespace {

struct item {
  cell<unsigned> number;  // written by who pushes, read and written by who takes
};

/// A deque and four elements; each must be taken once, by somebody who sees what its owner wrote.
struct fixture {
  stealing_deque<item, 2> deque;
  item items[4];
  unsigned taken[4] = {};

  void push(unsigned number) {
    items[number].number.set(number + 1);
    deque.push(&items[number]);
  }
  bool take(item* got) {
    if (got == nullptr) return false;
    const unsigned number = got->number.get();
    check(number != 0 && got == &items[number - 1], "the element is what was pushed");
    got->number.set(0);  // a second taker would race with this, or find it
    ++taken[number - 1];
    return true;
  }
  bool pop() { return take(deque.pop()); }
  bool steal() { return take(deque.steal()); }

  void drain(unsigned pushed) {
    while (pop()) {
    }
    for (unsigned i = 0; i < pushed; ++i) check(taken[i] == 1, "each element is taken once");
    check(deque.empty(), "a deque that gives nothing is empty");
  }
};

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

}  // namespace

int main(int argc, char** argv) {
  model::runner run("stealing_deque", argc, argv);
  const model::effort some{.at_most = 250'000, .random = 100'000};
  run.check<last>("owner and thief after the last element");
  run.check<emptied>("owner and thief empty the deque");
  run.check<two_thieves>("two thieves and the owner", some);
  run.check<reuse>("slots are used again");
  run.check<growth>("two thieves while the ring grows", some);
  run.check<order>("thieves take the oldest first");
  return run.result();
}
