// SPDX-License-Identifier: BSL-1.0
//
// Workers that drive event loops. Messages, tasks and the crew end a worker's sleep; a loop goes from one worker to
// another. The steps of worker_role, loop_assignment and hosted_loop on the words of the inbox and of the sleepers.
#include "relacy_runner.hpp"

#include "async/detail/loop/inbox.hpp"
#include "async/detail/pool/loop_driver.hpp"
#include "async/detail/pool/sleepers.hpp"

using async::detail::atomic;
using async::detail::basic_sleepers;
using async::detail::cell;
using async::detail::inbox;
using async::detail::message;
using model::check;

namespace {

/// Replaces std::mutex.
class mutex {
 public:
  void lock() noexcept {
    while (taken_.exchange(1, std::memory_order_acquire) != 0) async::detail::yield_thread();
  }
  void unlock() noexcept { taken_.store(0, std::memory_order_release); }

 private:
  atomic<unsigned> taken_{0};
};
using sleepers = basic_sleepers<mutex>;

struct letter : message {
  letter() : message(nullptr) {}
  cell<unsigned> content{0};
  cell<unsigned> read{0};
};

struct hosted;

struct worker {
  sleepers::sleeper parking_slot;
  cell<bool> made{false};  // by the crew
  atomic<unsigned> exit_requested{0};
  atomic<unsigned> must_review{0};
  cell<hosted*> given{nullptr};  // guarded by the crew's mutex
  hosted* driven = nullptr;      // own thread only
};

struct hosted {
  inbox box;
  async::detail::loop_driver<worker> driver;
  cell<unsigned> turns{0};  // only the driver touches it
};

/// Two workers, one loop, which the first worker drives at the beginning, and a source of tasks.
struct pool {
  sleepers all;
  worker workers[2];
  hosted loop;
  mutex crew;
  atomic<unsigned> tasks{0};
  atomic<unsigned> done{0};  // tasks and messages
  unsigned expected = 0;

  pool() {
    workers[0].driven = &loop;
    for (worker& w : workers) w.made.set(true);
    loop.driver.set(workers[0]);
  }

  // --- from outside ---

  void push(letter& m) {
    m.content.set(7);
    const inbox::pushed result = loop.box.push(m);
    check(result != inbox::pushed::refused, "the loop is open");
    if (result != inbox::pushed::wake_embedder) return;
    if (worker* const w = loop.driver.to_wake()) {
      check(w->made.get(), "the woken worker exists");
      all.wake(w->parking_slot);
    }
    loop.box.woken();
  }
  void post() {
    tasks.fetch_add(1, std::memory_order_release);
    all.notify();
  }
  void request_exit(unsigned which) {
    const std::lock_guard lock(crew);
    workers[which].exit_requested.store(1, std::memory_order_relaxed);
    all.wake(workers[which].parking_slot);
  }
  /// The loop's owner has a thread again.
  void ask_for_loop() {
    const std::lock_guard lock(crew);
    worker* const driver = loop.driver.get();
    driver->must_review.store(1, std::memory_order_relaxed);
    all.wake(driver->parking_slot);
  }

  // --- a worker's life ---

  void count() {
    if (done.fetch_add(1, std::memory_order_acq_rel) + 1 != expected) return;
    request_exit(0);
    request_exit(1);
  }
  bool turn(worker& w) {
    if (w.driven == nullptr) return false;
    w.driven->turns.set(w.driven->turns.get() + 1);
    message* m = w.driven->box.take();
    const bool any = m != nullptr;
    while (m != nullptr) {
      auto& l = static_cast<letter&>(*m);
      m = m->next.get();
      check(l.content.get() == 7, "a message arrives whole");
      l.read.set(l.read.get() + 1);
      count();
    }
    return any;
  }
  bool has_task() const { return tasks.load(std::memory_order_relaxed) != 0; }
  bool take_task() {
    unsigned there = tasks.load(std::memory_order_relaxed);
    while (there != 0) {
      if (tasks.compare_exchange_strong(there, there - 1, std::memory_order_acquire, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  void give(hosted& h, worker& w) {  // under the crew's mutex
    w.given.set(&h);
    h.driver.set(w);
    w.must_review.store(1, std::memory_order_relaxed);
    all.wake(w.parking_slot);
  }
  void take_up(worker& w) {  // under the crew's mutex
    w.must_review.store(0, std::memory_order_relaxed);
    if (w.given.get() == nullptr) return;
    w.driven = w.given.get();
    w.given.set(nullptr);
  }
  /// Between turns. The second worker is the loop's owner, and keeps it.
  void review(unsigned index) {
    const std::lock_guard lock(crew);
    worker& w = workers[index];
    take_up(w);
    if (index == 0 && w.driven != nullptr) give(*std::exchange(w.driven, nullptr), workers[1]);
  }
  void leave(unsigned index) {
    const std::lock_guard lock(crew);
    worker& w = workers[index];
    take_up(w);
    if (w.driven == nullptr) return;
    hosted& h = *std::exchange(w.driven, nullptr);
    worker& other = workers[1 - index];
    if (other.exit_requested.load(std::memory_order_relaxed) == 0) {
      give(h, other);
    } else {
      h.driver.clear();
    }
  }
  void live(unsigned index) {
    worker& w = workers[index];
    bool searching = false;
    const auto end_search = [&] {
      if (std::exchange(searching, false)) all.end_search([this]() noexcept { return has_task(); });
    };
    for (;;) {
      if (w.must_review.load(std::memory_order_relaxed) != 0) review(index);
      if (turn(w)) end_search();
      if (w.exit_requested.load(std::memory_order_relaxed) != 0) {
        end_search();
        return leave(index);
      }
      if (take_task()) {
        end_search();
        count();
        continue;
      }
      if (!searching) searching = all.begin_search(1);
      all.announce(w.parking_slot, searching);
      const bool stay = has_task() || w.exit_requested.load(std::memory_order_relaxed) != 0 ||
                        w.must_review.load(std::memory_order_relaxed) != 0 ||
                        (w.driven != nullptr && !w.driven->box.sleep(true));
      searching = stay ? all.cancel(w.parking_slot) : all.park(w.parking_slot);
    }
  }
};

/// Messages and tasks wake a sleeping worker: it deals with each, and then the crew ends it.
struct sleep_of_worker : rl::test_suite<sleep_of_worker, 3> {
  pool p;
  letter letters[2];
  void before() { p.expected = 3; }
  void thread(unsigned index) {
    if (index == 0) return p.live(0);
    p.push(letters[index - 1]);
    if (index == 1) p.post();
  }
  void after() {
    for (letter& l : letters) check(l.read.get() == 1, "each message is delivered once");
  }
};

/// The crew ends a worker that sleeps, or is about to, while a message arrives: it is delivered, or stays in the loop.
struct exit_request : rl::test_suite<exit_request, 3> {
  pool p;
  letter l;
  void before() {
    p.expected = 9;
    p.workers[1].exit_requested.store(1, std::memory_order_relaxed);
  }
  void thread(unsigned index) {
    if (index == 0) return p.live(0);
    index == 1 ? p.push(l) : p.request_exit(0);
  }
  void after() {
    unsigned left = 0;
    for (message* m = p.loop.box.take(); m != nullptr; m = m->next.get()) ++left;
    check(left + l.read.get() == 1, "the message has been delivered, or is there");
  }
};

/// A loop goes to another worker while a message arrives, because its driver ends or its owner is back. One of them
/// delivers the message, and it wakes a sleeper.
template <bool Ends>
struct hand_over : rl::test_suite<hand_over<Ends>, 3> {
  pool p;
  letter l;
  void before() {
    p.expected = 1;
    if (Ends) {
      p.workers[0].exit_requested.store(1, std::memory_order_relaxed);
    } else {
      p.workers[0].must_review.store(1, std::memory_order_relaxed);
    }
  }
  void thread(unsigned index) {
    if (index != 2) return p.live(index);
    p.push(l);
  }
  void after() { check(l.read.get() == 1, "the message is delivered once"); }
};

/// The same for a driver that may be asleep when it is asked for the loop.
struct asked : rl::test_suite<asked, 3> {
  pool p;
  letter l;
  void before() { p.expected = 1; }
  void thread(unsigned index) {
    if (index != 2) return p.live(index);
    p.ask_for_loop();
    p.push(l);
  }
  void after() { check(l.read.get() == 1, "the message is delivered once"); }
};

/// A loop whose driver slept and has ended goes to a worker that has just been made, while a message arrives.
struct new_worker : rl::test_suite<new_worker, 2> {
  pool p;
  letter l;
  void before() {
    p.expected = 1;
    p.workers[1].made.set(false);
    p.workers[0].driven = nullptr;
    p.loop.driver.clear();
    check(p.loop.box.sleep(true), "there is no message");
  }
  void thread(unsigned index) {
    if (index == 1) return p.push(l);
    {
      const std::lock_guard lock(p.crew);
      p.workers[1].made.set(true);
      p.give(p.loop, p.workers[1]);
    }
    p.live(1);
  }
  void after() { check(l.read.get() == 1, "the message is delivered once"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("hosted_loop", argc, argv);
  const model::effort some{.at_most = 100'000, .random = 100'000};
  run.check<sleep_of_worker>("messages to its loop and tasks end a worker's sleep", some);
  run.check<exit_request>("a request to exit ends a worker's sleep", some);
  run.check<hand_over<true>>("a worker that ends hands its loop over while a message arrives", some);
  run.check<hand_over<false>>("a worker gives a loop back to its owner while a message arrives", some);
  run.check<asked>("a sleeping worker is asked for a loop, and a message arrives", some);
  run.check<new_worker>("a loop is given to a new worker while a message arrives");
  return run.result();
}
