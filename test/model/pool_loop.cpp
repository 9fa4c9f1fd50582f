// SPDX-License-Identifier: BSL-1.0
//
// The loops of a pool: messages, claims between turns and bounded turns, as loop_core, loop_entry, loop_driver and
// pool_loops put them together from the inbox, the lock and the word. loop_core itself tells threads apart by their
// thread-local storage, of which the threads of a model have one.
#include "relacy_runner.hpp"

#include "async/detail/loop/biased_lock.hpp"
#include "async/detail/loop/inbox.hpp"
#include "async/detail/loop/tenant_count.hpp"
#include "async/detail/pool/turn_word.hpp"

using async::detail::atomic;
using async::detail::biased_lock;
using async::detail::cell;
using async::detail::inbox;
using async::detail::message;
using async::detail::tenant_count;
using async::detail::turn_word;
using model::check;

namespace {

constexpr biased_lock::token token_of(unsigned thread) { return 8 * (thread + 1); }

struct letter : message {
  letter() : message(nullptr) {}
  cell<unsigned> content{0};
  cell<unsigned> read{0};
};

/// A turn delivers one message. `CountsMessages`: as loop_driver::turn::has_work().
template <bool CountsMessages = true>
struct hosted {
  turn_word word;
  inbox box;
  biased_lock owner;
  atomic<unsigned> in_queue{0};
  cell<message*> left_over{nullptr};  // only touched inside, as is what follows
  cell<unsigned> ready{0};
  cell<unsigned> ran{0};
  tenant_count tenants;
  cell<unsigned> is_vacant{0};

  hosted() {
    box.always_wake();
    owner.leave(owner.enter(token_of(7)));  // made by a thread that is its owner
    owner.disown();
    owner.share();
  }

  void wake() {
    if (word.schedule()) enqueue();
  }
  void enqueue() { check(in_queue.exchange(1, std::memory_order_relaxed) == 0, "a loop is in one queue at most"); }
  bool dequeue() {
    unsigned there = 1;
    return in_queue.compare_exchange_strong(there, 0, std::memory_order_relaxed, std::memory_order_relaxed);
  }

  void push(letter& l) {
    l.content.set(7);
    const inbox::pushed result = box.push(l);
    check(result == inbox::pushed::quietly || result == inbox::pushed::wake_embedder, "the loop is open");
    if (result == inbox::pushed::quietly) return;
    wake();
    box.woken();
  }
  /// False: a thread is in the loop.
  bool claim(unsigned thread) {
    const biased_lock::way how = owner.claim(token_of(thread));
    if (how == biased_lock::way::refused) return false;
    ready.set(ready.get() + 1);
    wake();
    owner.leave(how);
    return true;
  }
  void claim_or_push(unsigned thread, letter& l) {
    if (!claim(thread)) push(l);
  }

  /// `biased`: as a worker that keeps the loop in hand for more turns.
  void run(unsigned thread, bool biased = false) {
    if (!dequeue()) return;
    word.begin();
    if (biased) owner.bias(token_of(thread));
    const biased_lock::way how = owner.enter(token_of(thread));
    check(how != biased_lock::way::refused, "no other thread is in a turn");
    if (left_over.get() == nullptr) left_over.set(box.take());
    if (message* const m = left_over.get()) {
      left_over.set(m->next.get());
      auto& l = static_cast<letter&>(*m);
      check(l.content.get() == 7, "a message arrives whole");
      l.read.set(l.read.get() + 1);
    }
    ran.set(ran.get() + ready.get());
    ready.set(0);
    const bool has_work = left_over.get() != nullptr || (CountsMessages && box.has_messages());
    // As loop_driver::vacate(): then the loop serves another flow.
    const bool is_left = ready.get() == 0 && !tenants.any() && left_over.get() == nullptr && !box.has_messages();
    is_vacant.set(is_left ? 1 : 0);
    if (how == biased_lock::way::biased) {
      owner.leave(how);
    } else {
      owner.leave_without_owner();
    }
    if (biased) owner.unbias();
    if (!has_work && word.end()) return;
    word.requeue();
    enqueue();
  }
  void run_all(unsigned thread) {
    while (in_queue.load(std::memory_order_relaxed) != 0) run(thread);
  }
};

/// One thread pushes, one claims the loop, one runs it.
struct push_and_claim : rl::test_suite<push_and_claim, 3> {
  hosted<> loop;
  letter letters[2];
  bool is_claimed = false;
  void thread(unsigned index) {
    if (index == 0) {
      loop.push(letters[0]);
    } else if (index == 1) {
      is_claimed = loop.claim(1);
      if (!is_claimed) loop.push(letters[1]);
    } else {
      loop.run(2);
      loop.run(2);
    }
  }
  void after() {
    loop.run_all(3);
    check(letters[0].read.get() == 1, "each message is delivered once");
    check(letters[1].read.get() == (is_claimed ? 0U : 1U), "a refused thread's message is delivered once");
    check(loop.ran.get() == (is_claimed ? 1U : 0U), "what a claim leaves is run");
  }
};

/// Two threads claim the loop and then run it, while a third runs it.
struct two_claims : rl::test_suite<two_claims, 3> {
  hosted<> loop;
  letter letters[3];
  unsigned claimed[3] = {};
  void thread(unsigned index) {
    if (index == 2) {
      loop.push(letters[2]);
    } else {
      claimed[index] = loop.claim(index) ? 1 : 0;
      if (claimed[index] == 0) loop.push(letters[index]);
    }
    loop.run(index);
  }
  void after() {
    loop.run_all(3);
    unsigned read = 0;
    for (letter& l : letters) read += l.read.get();
    check(loop.ran.get() == claimed[0] + claimed[1], "what a claim leaves is run");
    check(read + loop.ran.get() == 3, "nothing is lost");
  }
};

/// Threads run a loop that they bias to themselves, while another one claims it or sends a message.
struct biased_turns : rl::test_suite<biased_turns, 3> {
  hosted<> loop;
  letter letters[2];
  unsigned claimed = 0;
  void before() { loop.push(letters[0]); }
  void thread(unsigned index) {
    if (index != 2) {
      loop.run(index, true);
      return loop.run(index, true);
    }
    claimed = loop.claim(2) ? 1 : 0;
    if (claimed == 0) loop.push(letters[1]);
  }
  void after() {
    loop.run_all(3);
    check(letters[0].read.get() == 1, "each message is delivered once");
    check(letters[1].read.get() + claimed == 1 && loop.ran.get() == claimed, "nothing is lost");
  }
};

/// Two flows that have ended send their last messages, or claim the loop, and go while turns ask whether the loop may
/// serve another flow.
template <bool Claims>
struct tenants_go : rl::test_suite<tenants_go<Claims>, 3> {
  hosted<> loop;
  letter letters[2];
  unsigned claimed = 0;
  void before() {
    loop.tenants.add();
    loop.tenants.add();
    loop.wake();
  }
  void check_vacant() {
    check(loop.is_vacant.get() == 0 || letters[0].read.get() == 1, "a vacant loop has the first tenant's message");
    check(loop.is_vacant.get() == 0 || letters[1].read.get() + claimed == 1, "and the second one's");
  }
  void thread(unsigned index) {
    if (index != 2) {
      const bool is_claimed = Claims && index == 1 && loop.claim(index);
      if (is_claimed) {
        claimed = 1;
      } else {
        loop.push(letters[index]);
      }
      return loop.tenants.remove();
    }
    for (int i = 0; i != 3; ++i) {
      loop.run(2);
      check_vacant();
    }
  }
  void after() {
    loop.run_all(3);
    loop.wake();
    loop.run_all(3);
    check_vacant();
    check(loop.is_vacant.get() == 1, "the loop is vacant when all have gone");
  }
};

/// A message arrives while a bounded turn leaves older ones over.
template <bool CountsMessages>
struct left_over : rl::test_suite<left_over<CountsMessages>, 2> {
  hosted<CountsMessages> loop;
  letter letters[3];
  void before() {
    loop.push(letters[0]);
    loop.push(letters[1]);
  }
  void thread(unsigned index) {
    if (index == 0) return loop.push(letters[2]);
    loop.run(1);
    loop.run(1);
    loop.run(1);
  }
  void after() {
    loop.run_all(3);
    for (letter& l : letters) check(l.read.get() == 1, "each message is delivered once");
  }
};

/// The same with two runners and two pushers.
struct left_over_of_many : rl::test_suite<left_over_of_many, 4> {
  hosted<> loop;
  letter letters[3];
  void before() { loop.push(letters[0]); }
  void thread(unsigned index) {
    if (index != 0 && index != 1) {
      loop.run(index);
      return loop.run(index);
    }
    loop.push(letters[index + 1]);
  }
  void after() {
    loop.run_all(4);
    for (letter& l : letters) check(l.read.get() == 1, "each message is delivered once");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("pool_loop", argc, argv);
  run.check<push_and_claim>("a message and a claim while a thread runs the loop");
  run.check<two_claims>("two claims and a message, by threads that run the loop");
  run.check<biased_turns>("turns of a loop that is biased to its thread, and a claim");
  run.check<tenants_go<false>>("ended flows send their last messages, and go");
  run.check<tenants_go<true>>("an ended flow claims the loop, and goes");
  run.check<left_over<true>>("a message arrives while older ones are left over");
  run.check_fails<left_over<false>>("a turn that does not count new messages as work");
  run.check<left_over_of_many>("messages while older ones are left over, with two runners");
  return run.result();
}
