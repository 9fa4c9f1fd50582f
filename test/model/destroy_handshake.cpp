// SPDX-License-Identifier: BSL-1.0
//
// A flow is destroyed on another thread than its loop's: the message that ends it is delivered in a turn of the loop,
// or taken back by the destroyer when nobody drives the loop any more; then the flow is the destroyer's.
#include "relacy_runner.hpp"

#include "async/detail/loop/biased_lock.hpp"
#include "async/detail/loop/inbox.hpp"
#include "steps/detail/flow/destroy_handshake.hpp"

using async::detail::biased_lock;
using async::detail::cell;
using async::detail::delivery;
using async::detail::inbox;
using async::detail::message;
using async::detail::wait_clock;
using model::check;
using steps::detail::destroy_handshake;

namespace {

struct flow {
  cell<unsigned> ends{0};
  cell<bool> destroyed{false};
};

struct destroy_request : message {
  explicit destroy_request(flow& f) : message(&arrived), target(&f) {}
  static void arrived(message& m, delivery) {
    auto& self = static_cast<destroy_request&>(m);
    self.target->ends.set(self.target->ends.get() + 1);
    self.used.set(1);
    self.word.finish();
  }

  destroy_handshake word;
  flow* const target;
  cell<unsigned> used{0};
};

/// Thread 0 drives the loop for a number of turns; thread 1 destroys the flow.
template <unsigned Turns>
struct destruction : rl::test_suite<destruction<Turns>, 2> {
  static constexpr biased_lock::token thread_token[2] = {8, 16};

  biased_lock owner;
  inbox box;
  flow f;

  void deliver() {
    for (message* m = box.take(); m != nullptr;) {
      message& each = *std::exchange(m, m->next.get());
      each.deliver(each, delivery::on_loop);
    }
  }
  void before() { owner.leave(owner.enter(thread_token[0])); }
  void thread(unsigned index) {
    if (index == 0) {
      for (unsigned i = 0; i != Turns; ++i) {
        const biased_lock::way turn = owner.enter(thread_token[0]);
        check(turn != biased_lock::way::refused, "nobody else takes turns");
        deliver();
        owner.leave(turn);
      }
      return;
    }
    auto* const mine = new destroy_request(f);
    box.push(*mine);
    while (!mine->word.wait_until(wait_clock::now() + std::chrono::milliseconds(1))) {
      const biased_lock::way claim = owner.claim(thread_token[1]);
      if (claim != biased_lock::way::refused) {
        deliver();
        owner.leave(claim);
      }
      async::detail::yield_thread();
    }
    check(f.ends.get() == 1, "the flow has ended once");
    f.ends.set(0);
    f.destroyed.set(true);
    mine->used.set(2);
    delete mine;
  }
  void after() { check(f.destroyed.get(), "it is destroyed"); }
};

/// The loop's thread ends the flow; the destroyer only waits, and is woken.
struct wake_up : rl::test_suite<wake_up, 2> {
  destroy_handshake* word = nullptr;
  cell<unsigned> ended{0};

  void before() { word = new destroy_handshake; }
  void thread(unsigned index) {
    if (index == 0) {
      ended.set(1);
      word->finish();
    } else {
      while (!word->wait_until((wait_clock::time_point::max)())) async::detail::yield_thread();
      check(ended.get() == 1, "what was done to the flow is seen");
      ended.set(0);
      delete word;  // the model finds an access that follows
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("destroy_handshake", argc, argv);
  run.check<wake_up>("the destroyer waits for the end");
  run.check<destruction<0>>("a flow of a loop that nobody drives is destroyed");
  run.check<destruction<1>>("a flow is destroyed during the last turn of its loop");
  run.check<destruction<2>>("a flow is destroyed during the last turns of its loop");
  return run.result();
}
