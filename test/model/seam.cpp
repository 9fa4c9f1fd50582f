// SPDX-License-Identifier: BSL-1.0
//
// The model checker's seam itself: small algorithms that are right pass, and each broken on purpose is found.
#include "relacy_runner.hpp"

#include "async/detail/base/parker.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::parker;
using async::detail::wait_clock;
using model::element;

namespace {

/// A flag publishes plain data.
template <std::memory_order Store, std::memory_order Load>
struct publish : rl::test_suite<publish<Store, Load>, 2> {
  atomic<std::uint32_t> ready{0};
  cell<int> data;

  void thread(unsigned index) {
    if (index == 0) {
      data.set(7);
      ready.store(1, Store);
    } else if (ready.load(Load) == 1) {
      model::check(data.get() == 7, "the data is published");
    }
  }
};

/// Two threads announce themselves and look for the other: at least one must see the other.
template <bool Fenced>
struct announce : rl::test_suite<announce<Fenced>, 2> {
  atomic<std::uint32_t> here[2];
  cell<bool> saw[2];

  void thread(unsigned index) {
    here[index].store(1, std::memory_order_relaxed);
    if (Fenced) index == 0 ? async::detail::light_fence() : async::detail::heavy_fence();
    saw[index].set(here[1 - index].load(std::memory_order_relaxed) == 1);
  }
  void after() { model::check(saw[0].get() || saw[1].get(), "one sees the other"); }
};

/// One thread sleeps until another has set the word.
template <bool Wakes, bool Timed>
struct sleeper : rl::test_suite<sleeper<Wakes, Timed>, 2> {
  atomic<std::uint32_t> word{0};

  void thread(unsigned index) {
    if (index == 0) {
      word.store(1, std::memory_order_release);
      if (Wakes) async::detail::wake_all(word);
    } else {
      const wait_clock::time_point deadline = wait_clock::now() + std::chrono::seconds(1);
      while (word.load(std::memory_order_acquire) == 0) {
        if (!async::detail::wait_on_word(word, 0, Timed ? &deadline : nullptr)) {
          model::check(wait_clock::now() >= deadline, "a time-out comes in time");
          break;
        }
      }
    }
  }
};

/// A waker that looks for sleepers without telling them to look again: the wake-up falls between test and sleep.
struct lost_wake_up : rl::test_suite<lost_wake_up, 2> {
  atomic<std::uint32_t> work{0};
  atomic<std::uint32_t> sleeping{0};

  void thread(unsigned index) {
    if (index == 0) {
      work.store(1, std::memory_order_relaxed);
      if (sleeping.load(std::memory_order_relaxed) == 1) {
        sleeping.store(0, std::memory_order_relaxed);
        async::detail::wake_one(sleeping);
      }
    } else {
      sleeping.store(1, std::memory_order_relaxed);
      if (work.load(std::memory_order_relaxed) == 0) async::detail::wait_on_word(sleeping, 1);
    }
  }
};

struct spins_forever : rl::test_suite<spins_forever, 2> {
  atomic<std::uint32_t> word{0};
  void thread(unsigned index) {
    if (index == 0) return;
    while (word.load(std::memory_order_relaxed) == 0) async::detail::cpu_pause();
  }
};

/// Storage of one element is used again by another thread.
template <std::memory_order Order>
struct reuse : rl::test_suite<reuse<Order>, 2> {
  alignas(element) std::byte storage[sizeof(element)];
  atomic<std::uint32_t> free{0};

  element* slot() { return reinterpret_cast<element*>(storage); }
  void before() { ::new (static_cast<void*>(storage)) element(1); }
  void thread(unsigned index) {
    if (index == 0) {
      {
        const element taken = std::move(*slot());
        model::check(taken.value() == 1, "the element is the one that was put");
      }
      slot()->~element();
      free.store(1, Order);
    } else {
      while (free.load(std::memory_order_acquire) == 0) async::detail::cpu_pause();
      ::new (static_cast<void*>(storage)) element(2);
    }
  }
  void after() { slot()->~element(); }
};

template <int Fault>
struct element_misuse : rl::test_suite<element_misuse<Fault>, 1> {
  alignas(element) std::byte storage[sizeof(element)];
  void thread(unsigned) {
    element* const made = ::new (static_cast<void*>(storage)) element(1);
    if (Fault == 0) return;                                                                // left behind
    if (Fault == 1) ::new (static_cast<void*>(storage)) element(2);                        // over a living one
    if (Fault == 2) made->~element();                                                      // destroyed twice
    if (Fault == 3) static_cast<void>(element(std::move(*made)).value() + made->value());  // read after the move
    made->~element();
  }
};

/// The parker of the library: a permit wakes its owner and publishes what came before it.
struct parked : rl::test_suite<parked, 2> {
  parker p;
  cell<int> data;
  void thread(unsigned index) {
    for (int round = 1; round <= 2; ++round) {
      if (index == 0) {
        if (round == 1) data.set(1);
        p.unpark();
      } else if (round == 1) {
        p.park();
        model::check(data.get() == 1, "the permit publishes");
      }
    }
  }
};

struct parked_in_time : rl::test_suite<parked_in_time, 2> {
  parker p;
  cell<int> data;
  void thread(unsigned index) {
    if (index == 0) {
      data.set(1);
      p.unpark();
    } else {
      if (!p.park_until(wait_clock::now() + std::chrono::seconds(1))) p.park();  // what came too late is still there
      model::check(data.get() == 1, "the permit publishes");
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  constexpr auto relaxed = std::memory_order_relaxed;
  constexpr auto acquire = std::memory_order_acquire;
  constexpr auto release = std::memory_order_release;
  model::runner run("seam", argc, argv);
  run.check<publish<release, acquire>>("release and acquire publish");
  run.check_fails<publish<relaxed, acquire>>("a missing release is a data race");
  run.check_fails<publish<release, relaxed>>("a missing acquire is a data race");
  run.check<announce<true>>("fences on both sides: one sees the other");
  run.check_fails<announce<false>>("without fences both can miss the other");
  run.check<sleeper<true, false>>("a sleeper is woken");
  run.check<sleeper<true, true>>("a sleeper is woken or times out");
  run.check<sleeper<false, true>>("a sleeper with a deadline wakes without help");
  run.check_fails<sleeper<false, false>>("a missing wake-up is a deadlock");
  run.check_fails<lost_wake_up>("a lost wake-up is a deadlock");
  run.check_fails<spins_forever>("a loop without end is a livelock");
  run.check<reuse<release>>("storage handed back in order is used again");
  run.check_fails<reuse<relaxed>>("storage used again too early is a data race");
  run.check_fails<element_misuse<0>>("an element left behind is found");
  run.check_fails<element_misuse<1>>("an element made over another is found");
  run.check_fails<element_misuse<2>>("an element destroyed twice is found");
  run.check_fails<element_misuse<3>>("an element read after it was moved is found");
  run.check<parked>("park takes the permit and sees what came before it");
  run.check<parked_in_time>("a permit that misses its deadline is kept");
  return run.result();
}
