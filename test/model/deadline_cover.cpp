// SPDX-License-Identifier: BSL-1.0
//
// A worker publishes a deadline, and then goes into a function that takes for ever. Others sleep. A sleeper that covers
// the deadline looks at the clock in time and ends the execution. A deadlock shows a deadline that no sleeper covers.
#include "relacy_runner.hpp"

#include "model_mutex.hpp"

#include "async/detail/pool/deadline_cover.hpp"
#include "async/detail/pool/sleepers.hpp"

using async::detail::atomic;
using async::detail::basic_sleepers;
using async::detail::deadline_cover;
using async::detail::wait_clock;
using model::check;
using model::mutex;

namespace {

struct work {};
using sleepers = basic_sleepers<mutex, work>;

constexpr std::int64_t slack = 1, earlier = 10, first = 11, late = 100;

/// A pool of three workers with tasks that never end. The looks are relaxed, as the pool's are.
struct pool {
  static constexpr unsigned workers = 3;

  sleepers all;
  sleepers::sleeper parking_slots[workers];
  deadline_cover deadline{slack};
  atomic<unsigned> tasks{0};
  atomic<unsigned> exit_requested{0};

  bool is_exit_requested() const { return exit_requested.load(std::memory_order_relaxed) != 0; }
  bool has_tasks() const { return tasks.load(std::memory_order_relaxed) != 0; }
  bool take_task() {
    unsigned there = 1;
    return has_tasks() && tasks.compare_exchange_strong(there, 0, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void post_task() {
    tasks.store(1, std::memory_order_release);
    all.notify();
  }
  void before_function() {
    if (deadline.is_uncovered()) all.notify();
  }
  void end_search(bool searching) {
    if (searching) all.end_search([this]() noexcept { return has_tasks() || deadline.is_uncovered(); });
  }
  void exit_all() {
    exit_requested.store(1, std::memory_order_relaxed);
    for (sleepers::sleeper& place : parking_slots) all.wake(place);
  }
  bool fire() {
    const std::int64_t due = deadline.first();
    if (due == deadline_cover::never || wait_clock::now().time_since_epoch().count() < due) return false;
    exit_all();
    return true;
  }

  /// Sleeps, with the limit that the deadline sets. The time does not reach `late`: a sleeper with that limit sleeps
  /// without one. True: searches.
  template <class IsWanted>
  bool park(unsigned index, bool searching, bool others_fire, IsWanted is_wanted) {
    sleepers::sleeper& place = parking_slots[index];
    all.announce(place, searching);
    if (is_wanted()) return all.cancel(place);
    const std::int64_t limit = deadline.cover(others_fire);
    if (limit <= first + slack) {
      model::pass_time(wait_clock::duration(limit));
      searching = all.park_until(place, wait_clock::time_point(wait_clock::duration(limit)));
    } else {
      searching = all.park(place);
    }
    deadline.uncover(limit);
    return searching;
  }

  /// A worker's life until it has found a task, or some thread has looked at the clock in time.
  void live(unsigned index, bool others_fire = true) {
    const auto is_wanted = [this] { return has_tasks() || is_exit_requested(); };
    bool searching = false;
    while (!is_exit_requested() && !fire()) {
      if (take_task()) {
        end_search(searching);
        return before_function();
      }
      searching = park(index, searching, others_fire, is_wanted);
    }
    end_search(searching);
  }
};

/// The first deadline of a pool, or an earlier one than before, while the others go to sleep.
template <std::int64_t Before>
struct published : rl::test_suite<published<Before>, 3> {
  pool p;
  void before() { p.deadline.publish(Before); }
  void thread(unsigned index) {
    if (index != 2) return p.live(index, index == 0);
    p.deadline.publish(first);
    p.before_function();
  }
};

/// The deadline that a sleeper covers goes, and one at about the same time comes.
struct replaced : rl::test_suite<replaced, 3> {
  pool p;
  void before() { p.deadline.publish(earlier); }
  void thread(unsigned index) {
    if (index != 2) return p.live(index);
    p.deadline.publish(deadline_cover::never);
    p.all.notify();  // for something that another thread has done
    p.deadline.publish(first);
    p.before_function();
  }
};

/// The same while the sleeper gets a task that never ends.
struct replaced_with_task : rl::test_suite<replaced_with_task, 3> {
  pool p;
  void before() { p.deadline.publish(earlier); }
  void thread(unsigned index) {
    if (index != 2) return p.live(index);
    p.deadline.publish(deadline_cover::never);
    p.post_task();
    p.deadline.publish(first);
    p.before_function();
  }
};

/// The same while the sleeper, which is inside a task, goes on with that, and never ends. `Asks`: before, as before a
/// function.
template <bool Asks>
struct coverer_goes_on : rl::test_suite<coverer_goes_on<Asks>, 3> {
  struct event : sleepers::wait_condition {
    event() : sleepers::wait_condition{&ask_ready, &ask_may_run} {}
    static bool ask_ready(const sleepers::wait_condition& self) noexcept {
      return static_cast<const event&>(self).is_ready();
    }
    static bool ask_may_run(const sleepers::wait_condition&, const work*) noexcept { return false; }
    bool is_ready() const { return flag.load(std::memory_order_acquire) != 0; }
    atomic<unsigned> flag{0};
  };
  pool p;
  event condition;

  void before() { p.deadline.publish(earlier); }
  void thread(unsigned index) {
    if (index == 0) return p.live(0);
    if (index == 2) {
      p.deadline.publish(deadline_cover::never);
      condition.flag.store(1, std::memory_order_release);
      p.all.notify_event();
      p.deadline.publish(first);
      return p.before_function();
    }
    const auto is_wanted = [this] { return condition.is_ready(); };
    p.parking_slots[1].condition = &condition;
    while (!condition.is_ready() && !p.fire()) {
      check(!p.park(1, false, true, is_wanted), "a waiting thread does not search");
    }
    p.parking_slots[1].condition = nullptr;
    if (Asks) p.before_function();
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("deadline_cover", argc, argv);
  const model::effort some{.at_most = 30'000, .random = 50'000};
  run.check<published<deadline_cover::never>>("a deadline is published while workers go to sleep", some);
  run.check<published<late>>("an earlier deadline is published while workers go to sleep", some);
  run.check<replaced>("a deadline is replaced while its coverer is woken", some);
  run.check<replaced_with_task>("a deadline is replaced while its coverer gets a task", some);
  run.check<coverer_goes_on<true>>("a deadline is replaced while its coverer goes on with its task", some);
  run.check_fails<coverer_goes_on<false>>("a coverer that goes on does not ask", some);
  return run.result();
}
