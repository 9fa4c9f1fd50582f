// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>    // for size_t
#include <memory>     // for unique_ptr
#include <mutex>      // for mutex
#include <stdexcept>  // for length_error
#include <thread>     // for thread
#include <utility>    // for exchange, move
#include <vector>     // for vector

#include "async/detail/base/atomics.hpp"         // for atomic
#include "async/detail/pool/pool_worker.hpp"     // for worker, job
#include "async/detail/pool/published_list.hpp"  // for published_list
#include "async/detail/pool/quiescence.hpp"      // for quiescence
#include "async/detail/pool/sleepers.hpp"        // for sleepers
#include "async/detail/trace/trace_points.hpp"   // for ASYNC_TRACE_INSTANT
#include "async/errors.hpp"                      // for stopped
#include "async/threadpool_options.hpp"          // for threadpool_stats

namespace async::detail {

/// The workers of a pool and their threads: starts, retires and joins them; lets thieves visit all.
///
/// Worker number i has a thread that may run tasks when i < wanted, or until it has noticed that it is to retire. A
/// worker that is wanted again before it has noticed simply goes on.
///
/// Each worker's event loop is driven by its own thread or, when it has none, by that of a wanted worker; by nobody
/// while none is wanted. Loops change hands under the mutex: whoever drives one gives it away between two turns, when
/// it ends or is asked to, and the other takes it before its next task.
///
/// Threads     everything by any thread; the hot paths never take the mutex.
/// Lifetime    workers stay until the end, since a thief may be looking at one.
class worker_crew {
 public:
  static constexpr std::size_t most_workers = 65535;

  /// `body` is what each thread does; it returns once confirm_exit() has returned true. `prepare` is called with the
  /// loop of each new worker.
  worker_crew(pool_core& pool, sleepers& all, quiescence& counts, void (*body)(worker&), void (*prepare)(worker&))
      : pool_(pool), sleepers_(all), quiescence_(counts), body_(body), prepare_(prepare) {}
  worker_crew(const worker_crew&) = delete;
  worker_crew& operator=(const worker_crew&) = delete;

  // --- threads -------------------------------------------------------------------------------------------------------

  /// Sets the number of wanted workers. Does not wait for running tasks, nor for threads that end: the next thread of
  /// the same worker joins them before it begins. Throws stopped; std::length_error and std::bad_alloc, then nothing
  /// has changed; what starting a thread throws, then those that did start stay.
  void configure(std::size_t threads) {
    if (threads > most_workers) throw std::length_error("async::threadpool: more threads than 65535");
    const std::lock_guard lock(mutex_);
    if (is_closed_) throw stopped();
    configure_locked(threads);
  }

  /// No configure() from here on. A paused crew gets one worker if needs_one(), and a thread can be had.
  template <class NeedsOne>
  void close(NeedsOne needs_one) noexcept {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    if (size() != 0 || !needs_one()) return;
    try {
      configure_locked(1);
    } catch (...) {  // who stops the pool runs the tasks
    }
  }

  /// Retires all workers and joins their threads. After close().
  void join_all() noexcept {
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t wanted = size(); wanted != 0; --wanted) request_exit(wanted - 1);
    }
    for (const auto& w : members_) {  // which change no more: the crew is closed
      if (w->thread.joinable()) w->thread.join();
    }
  }

  /// By the thread of `w`, when it is to retire. True: it ends and touches `w` no more. False: it is wanted again.
  bool confirm_exit(worker& w) noexcept {
    w.loops.release();
    const std::lock_guard lock(mutex_);
    if (!w.exit_requested.load(std::memory_order_relaxed)) return false;  // relaxed: written under the mutex
    take_given(w);                                                        // which it has not hosted yet
    hand_on(w.loops.take([](const hosted_loop&) noexcept { return true; }));
    w.has_thread = false;
    quiescence_.thread_left();
    return true;
  }

  /// By the thread of `w`, between turns of its loops, when it is to review them.
  void review(worker& w) noexcept {
    hosted_loop* list = nullptr;
    {
      const std::lock_guard lock(mutex_);
      take_given(w);
      list = w.loops.take([this, &w](const hosted_loop& h) noexcept { return &h.home != &w && is_wanted(h.home); });
    }
    if (list == nullptr) return;
    driven_loops::release(list);
    const std::lock_guard lock(mutex_);
    hand_on(list);
  }

  /// The loop of worker number `index` modulo the number of those that ever were; there is one after configure().
  hosted_loop& loop(std::size_t index) const noexcept {
    hosted_loop* found = nullptr;
    any_of(index, [&found](worker& w) noexcept {
      found = &w.own_loop;
      return true;
    });
    return *found;
  }

  /// How many workers are wanted.
  std::size_t size() const noexcept { return wanted_.load(std::memory_order_relaxed); }  // relaxed: a figure

  /// After join_all(): cancels the flows of all loops, with what that leads to, and closes the loops. more_tasks() runs
  /// tasks that were posted meanwhile, and tells whether there were any.
  template <class MoreTasks>
  void end_loops(MoreTasks more_tasks) noexcept {
    for (const auto& w : members_) w->own_loop.host.begin_close();
    for (bool again = true; again;) {
      again = more_tasks();
      for (const auto& w : members_) again = w->own_loop.host.drain() || again;
    }
    for (const auto& w : members_) w->own_loop.host.core().close();
    static_cast<void>(more_tasks());
  }

  /// How many workers have nothing but flows that never wait, see flow_watch. A guess.
  std::size_t with_flows_only() const noexcept {
    std::size_t found = 0;
    any_of(0, [&found](const worker& w) noexcept {
      if (w.flows.are_all()) ++found;
      return false;
    });
    return found;
  }

  // --- work ----------------------------------------------------------------------------------------------------------

  /// Calls f(worker&) for each that ever was until one returns true; tells whether one did. Starts at number `first`
  /// modulo their count.
  template <class F>
  bool any_of(std::size_t first, F f) const {
    return all_.any_of(first, std::move(f));
  }

  /// Whether others have brought work to a loop that its driver does not know of yet. Relaxed: a look.
  bool is_called() const noexcept {
    return any_of(
        0, [](const worker& w) noexcept { return w.own_loop.host.is_called() && w.own_loop.driver.get() != nullptr; });
  }

  /// Adds up the workers' counters.
  void count(threadpool_stats& all) const noexcept {
    any_of(0, [&all](const worker& w) noexcept {
      all.tasks += w.ran.load(std::memory_order_relaxed);  // relaxed, all: each is a figure of its own
      all.steals += w.steals.load(std::memory_order_relaxed);
      all.parks += w.parks.load(std::memory_order_relaxed);
      return false;
    });
  }

 private:
  /// Puts another thread in the place of one that a task has ended with pthread_exit().
  struct successor {
    worker_crew& crew;
    worker& self;
    ~successor() { crew.replace(self); }
  };
  /// By the thread of `w`, when it ends. Nothing to be done after confirm_exit().
  void replace(worker& w) noexcept {
    const std::lock_guard lock(mutex_);
    if (!w.has_thread || w.thread.get_id() != std::this_thread::get_id()) return;
    w.loops.release();
    take_given(w);
    hosted_loop* const list = w.loops.take([](const hosted_loop&) noexcept { return true; });
    w.has_thread = false;
    quiescence_.thread_left();
    if (is_wanted(w)) {
      const std::size_t wanted = size();
      try {
        start(w.index);
      } catch (...) {  // the others go on without it
      }
      wanted_.store(wanted, std::memory_order_relaxed);  // relaxed: written under the mutex
    }
    hand_on(list);
  }

  // All of these under the mutex.

  void configure_locked(std::size_t threads) {
    make_workers(threads != 0 ? threads : 1);  // flows that start while the pool is paused need a loop
    std::size_t wanted = wanted_.load(std::memory_order_relaxed);  // relaxed: written under the mutex
    for (; wanted > threads; --wanted) request_exit(wanted - 1);
    struct placer {
      worker_crew& crew;
      ~placer() { crew.place_orphans(); }
    } const at_end{*this};
    for (; wanted < threads; ++wanted) start(wanted);
  }

  void make_workers(std::size_t count) {
    while (members_.size() < count) {
      const std::size_t known = members_.size();
      members_.reserve(known + 1);
      auto fresh = std::make_unique<worker>(pool_, known, sleepers_);
      prepare_(*fresh);
      all_.reserve_one();
      orphan(fresh->own_loop);
      members_.push_back(std::move(fresh));
      all_.add(*members_.back());
    }
  }

  /// Makes worker number `last` a wanted one.
  void start(std::size_t last) {
    worker& w = *members_[last];
    w.exit_requested.store(false,
                           std::memory_order_relaxed);  // relaxed: a running thread asks under the mutex before it ends
    if (!w.has_thread) {
      quiescence_.thread_starting();
      w.before = std::move(w.thread);
      try {
        w.thread = std::thread([this, &w] {
          if (w.before.joinable()) w.before.join();
          quiescence_.thread_arrived();
          const successor at_exit{*this, w};
          body_(w);
        });
      } catch (...) {
        quiescence_.thread_not_started();
        w.thread = std::move(w.before);
        throw;
      }
      w.has_thread = true;
    }
    wanted_.store(last + 1, std::memory_order_relaxed);  // relaxed: a figure, else read under the mutex
  }

  /// Worker number `last`, the last wanted one, is wanted no more.
  void request_exit(std::size_t last) noexcept {
    worker& w = *members_[last];
    w.exit_requested.store(true,
                           std::memory_order_relaxed);  // relaxed: ordered by the sleepers' lock, else seen in time
    sleepers_.wake(w.parking_slot);
    wanted_.store(last, std::memory_order_relaxed);  // relaxed: a figure, else read under the mutex
  }

  bool is_wanted(const worker& w) const noexcept { return w.index < size(); }

  /// Nobody drives the loop.
  void orphan(hosted_loop& h) noexcept {
    h.driver.clear();
    h.next = orphans_;
    orphans_ = &h;
  }
  /// The loop's next driver is `w`, who has a thread.
  static void give(hosted_loop& h, worker& w) noexcept {
    h.next = w.given;
    w.given = &h;
    h.driver.set(w);
    w.must_review.store(true, std::memory_order_relaxed);  // relaxed: as with retire()
    worker::wake(w);
  }
  /// Finds drivers for the orphans, and has loops given back to workers that have a thread again.
  void place_orphans() noexcept {
    const std::size_t wanted = size();
    if (wanted == 0) return;
    for (hosted_loop* list = std::exchange(orphans_, nullptr); list != nullptr;) {
      hosted_loop& h = *list;
      list = h.next;
      give(h, is_wanted(h.home) ? h.home : *members_[h.home.index % wanted]);
    }
    for (std::size_t i = 0; i != wanted; ++i) {
      worker* const driver = members_[i]->own_loop.driver.get();
      if (driver == members_[i].get()) continue;
      driver->must_review.store(true, std::memory_order_relaxed);  // relaxed: as with retire()
      worker::wake(*driver);
    }
  }
  /// Finds drivers for loops that have been released.
  void hand_on(hosted_loop* list) noexcept {
    while (list != nullptr) orphan(*std::exchange(list, list->next));
    place_orphans();
  }
  static void take_given(worker& w) noexcept {
    w.must_review.store(false, std::memory_order_relaxed);  // relaxed: written under the mutex
    w.loops.add(std::exchange(w.given, nullptr));
  }

  pool_core& pool_;
  sleepers& sleepers_;
  quiescence& quiescence_;
  void (*const body_)(worker&);
  void (*const prepare_)(worker&);
  published_list<worker> all_;     // written under the mutex
  atomic<std::size_t> wanted_{0};  // written under the mutex
  std::mutex mutex_;               // guards what follows
  bool is_closed_ = false;
  hosted_loop* orphans_ = nullptr;  // loops that nobody drives
  std::vector<std::unique_ptr<worker>> members_;
};

}  // namespace async::detail
