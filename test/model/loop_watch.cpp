// SPDX-License-Identifier: BSL-1.0
//
// A worker that queues a single loop wakes nobody while another worker watches, and then goes into a function that
// takes for ever. A deadlock shows a loop that is left in the queue while all other workers sleep without limit.
#include "relacy_runner.hpp"

#include "model_mutex.hpp"

#include "async/detail/pool/loop_watch.hpp"
#include "async/detail/pool/sleepers.hpp"

using async::detail::atomic;
using async::detail::basic_sleepers;
using async::detail::loop_watch;
using async::detail::wait_clock;
using model::check;
using model::mutex;

namespace {

struct work {};
using sleepers = basic_sleepers<mutex, work>;

/// The work of a pool of three workers: a loop, and tasks that never end. The looks are relaxed, as the pool's are.
struct pool {
  static constexpr unsigned workers = 3;

  sleepers all;
  sleepers::sleeper parking_slots[workers];
  loop_watch watch;
  atomic<unsigned> loops{0};
  atomic<unsigned> tasks{0};
  atomic<unsigned> exit_requested{0};
  work loop_waits;

  bool has_loops() const { return loops.load(std::memory_order_relaxed) != 0; }
  bool has_work() const { return has_loops() || tasks.load(std::memory_order_relaxed) != 0; }
  bool is_exit_requested() const { return exit_requested.load(std::memory_order_relaxed) != 0; }
  static bool take(atomic<unsigned>& source) {
    unsigned there = 1;
    return source.load(std::memory_order_relaxed) != 0 &&
           source.compare_exchange_strong(there, 0, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void queue_loop() {
    loops.store(1, std::memory_order_release);
    if (!watch.is_on()) all.notify(&loop_waits);
  }
  void post_task() {
    tasks.store(1, std::memory_order_release);
    all.notify();
  }
  void end_search(bool searching) {
    if (searching) all.end_search([this]() noexcept { return has_work(); });
  }
  /// Sleeps, as a watcher if it `may_watch` and no other one does. True: searches.
  template <class IsWanted>
  bool park(unsigned index, bool searching, bool may_watch, IsWanted is_wanted) {
    sleepers::sleeper& place = parking_slots[index];
    const bool watches = may_watch && watch.begin();
    all.announce(place, searching);
    if (is_wanted()) {
      searching = all.cancel(place);
    } else if (!watches) {
      searching = all.park(place);
    } else {
      const wait_clock::time_point limit = wait_clock::now() + loop_watch::interval;
      model::pass_time(limit.time_since_epoch());
      searching = all.park_until(place, limit);
    }
    if (watches) watch.end();
    return searching;
  }

  /// A worker's life until it has found a task, or some thread the loop. It watches `watches` times: the loops make no
  /// progress, so that it then sleeps without limit.
  void live(unsigned index, unsigned watches) {
    const auto is_wanted = [this] { return has_work() || is_exit_requested(); };
    bool searching = false;
    while (!is_exit_requested()) {
      if (take(loops)) {
        end_search(searching);
        exit_requested.store(1, std::memory_order_relaxed);
        for (sleepers::sleeper& place : parking_slots) all.wake(place);
        return;
      }
      if (take(tasks)) return end_search(searching);
      searching = park(index, searching, watches != 0, is_wanted);
      if (watches != 0) --watches;
    }
    end_search(searching);
  }
};

/// A worker queues a loop while another one may watch, and a third one sleeps.
template <unsigned Watches>
struct queued : rl::test_suite<queued<Watches>, 3> {
  pool p;
  void thread(unsigned index) {
    if (index != 2) return p.live(index, index == 0 ? 1 : Watches);
    p.queue_loop();
  }
};

/// The watcher is woken for a task that never ends.
struct watcher_gets_task : rl::test_suite<watcher_gets_task, 3> {
  pool p;
  void thread(unsigned index) {
    if (index != 2) return p.live(index, 1);
    p.post_task();
    p.queue_loop();
  }
};

/// The watcher sleeps inside a task. It is woken because that goes on, and never ends. `PassesOn`: before, it looks for
/// loops, and wakes another worker for them.
template <bool PassesOn>
struct watcher_goes_on : rl::test_suite<watcher_goes_on<PassesOn>, 3> {
  struct event : sleepers::wait_condition {
    event() : sleepers::wait_condition{&ask_ready, &ask_may_run} {}
    static bool ask_ready(const sleepers::wait_condition& self) noexcept {
      return static_cast<const event&>(self).is_ready();
    }
    static bool ask_may_run(const sleepers::wait_condition&, const work*) noexcept { return true; }
    bool is_ready() const { return flag.load(std::memory_order_acquire) != 0; }
    atomic<unsigned> flag{0};
  };
  pool p;
  event condition;

  void thread(unsigned index) {
    if (index == 0) return p.live(0, 0);
    if (index == 2) {
      condition.flag.store(1, std::memory_order_release);
      p.all.notify_event();
      return p.queue_loop();
    }
    const auto is_wanted = [this] { return condition.is_ready() || p.has_loops(); };
    bool may_watch = true;
    p.parking_slots[1].condition = &condition;
    while (!condition.is_ready()) {
      if (pool::take(p.loops)) {
        p.exit_requested.store(1, std::memory_order_relaxed);
        for (sleepers::sleeper& place : p.parking_slots) p.all.wake(place);
        break;
      }
      check(!p.park(1, false, may_watch, is_wanted), "a waiting thread does not search");
      may_watch = false;
    }
    p.parking_slots[1].condition = nullptr;
    if (PassesOn && p.has_loops()) p.all.notify(&p.loop_waits);
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("loop_watch", argc, argv);
  const model::effort some{.at_most = 30'000, .random = 50'000};
  run.check<queued<0>>("a loop is queued while one worker watches and one sleeps", some);
  run.check<queued<1>>("a loop is queued while two workers would watch", some);
  run.check<watcher_gets_task>("a loop is queued while the watcher gets a task", some);
  run.check<watcher_goes_on<true>>("a loop is queued while the watcher goes on with its task", some);
  run.check_fails<watcher_goes_on<false>>("a watcher that goes on does not look for loops", some);
  return run.result();
}
