// SPDX-License-Identifier: BSL-1.0
//
// async::event under every schedule that Relacy finds: threads that sleep, and waiters that are notified.
#include "relacy_runner.hpp"

#include <optional>

// After the seam.
#include "async/event.hpp"
#include "listed_waiter.hpp"

using namespace model;
using async::event;
using async::detail::event_call;

namespace {

/// Waits for the event as a flow does, from the moment that `call` was made.
template <fault Fault = fault::none>
void wait_listed(mailbox& home, const event_call& call) {
  listed_waiter waiter(home);
  const listed_waiter::life here(waiter);
  waiter.wait<Fault>(call.events(), [&call] { return call.attempt(); });
}

/// One thread writes a value and sets the event; two wait and read it.
template <bool AreListed>
struct publishes : rl::test_suite<publishes<AreListed>, 3> {
  event e;
  async::detail::cell<int> value{0};
  mailbox homes[2];

  void thread(unsigned index) {
    if (index == 2) {
      value.set(1);
      e.set();
      return;
    }
    if (AreListed && index == 1) {
      wait_listed(homes[1], event_call(e));
    } else {
      e.wait();
    }
    model::check(value.get() == 1, "what was done before set() is visible");
  }
};

/// Two threads set the event. A wait behind the second one's set() sees what it has done, also if it was set already.
struct both_publish : rl::test_suite<both_publish, 3> {
  event e;
  async::detail::cell<int> values[2]{async::detail::cell<int>(0), async::detail::cell<int>(0)};
  async::detail::atomic<int> done{0};

  void thread(unsigned index) {
    if (index != 2) {
      values[index].set(1);
      e.set();
      done.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    e.wait();
    if (done.load(std::memory_order_relaxed) != 2) return;
    e.reset();  // reads the newest value of the word
    model::check(values[0].get() + values[1].get() == 2, "all is visible");
  }
};

/// One thread writes a value and resets the event; the other sees that.
struct reset_publishes : rl::test_suite<reset_publishes, 2> {
  event e{true};
  async::detail::cell<int> value{0};

  void thread(unsigned index) {
    if (index == 0) {
      value.set(1);
      e.reset();
    } else if (!e.is_set()) {
      model::check(value.get() == 1, "what was done before reset() is visible");
    }
  }
};

/// reset() follows set() at once: waits that began before have ended all the same.
template <bool IsListed, fault Fault>
struct pulse : rl::test_suite<pulse<IsListed, Fault>, 2> {
  event e;
  async::detail::atomic<int> has_begun{0};
  mailbox home;

  void thread(unsigned index) {
    if (index == 1) {
      while (has_begun.load(std::memory_order_acquire) == 0) async::detail::yield_thread();
      e.set();
      e.reset();
      return;
    }
    const event_call call(e);
    has_begun.store(1, std::memory_order_release);
    if constexpr (IsListed) {
      wait_listed<Fault>(home, call);
    } else {
      async::detail::wait_in_queue(call.events(), nullptr, [&call] { return call.attempt(); }, [] { return false; });
    }
  }
};

/// The one that has waited destroys the event.
struct destroys : rl::test_suite<destroys, 2> {
  std::optional<event> e{std::in_place};

  void thread(unsigned index) {
    if (index == 1) return e->set();
    e->wait();
    e.reset();
  }
};

/// A waiter that leaves passes its wake-up on.
struct leaves : rl::test_suite<leaves, 3> {
  event e;
  mailbox homes[2];

  void thread(unsigned index) {
    if (index == 2) return e.set();
    if (index == 0) return wait_listed(homes[0], event_call(e));
    listed_waiter waiter(homes[1]);
    const listed_waiter::life here(waiter);
    waiter.come_and_go(event_call(e).events());
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("event", argc, argv);
  const model::effort some{.at_most = 60'000, .random = 30'000};
  run.check<publishes<false>>("two sleepers", some);
  run.check<publishes<true>>("a sleeper and a listed waiter", some);
  run.check<both_publish>("two threads set it", some);
  run.check<reset_publishes>("one resets it", some);
  run.check<pulse<false, fault::none>>("a sleeper, and a reset", some);
  run.check<pulse<true, fault::none>>("a listed waiter, and a reset", some);
  run.check<destroys>("the waiter destroys it", some);
  run.check<leaves>("one leaves", some);
  run.check_fails<pulse<true, fault::lists_without_test>>("one does not test again", some);
  return run.result();
}
