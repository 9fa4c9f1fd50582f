// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>    // for size_t
#include <cstdint>    // for uint8_t, uint64_t
#include <memory>     // for unique_ptr
#include <mutex>      // for mutex, lock_guard
#include <stdexcept>  // for length_error
#include <thread>     // for thread
#include <utility>    // for move
#include <vector>     // for vector

#include "async/detail/base/atomics.hpp"         // for atomic
#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_FUNCTION
#include "async/detail/base/min_max.hpp"         // for max_of, min_of
#include "async/detail/pool/idle_condition.hpp"  // for idle_condition
#include "async/detail/pool/pool_worker.hpp"     // for worker
#include "async/detail/pool/published_list.hpp"  // for published_list
#include "async/detail/pool/quiescence.hpp"      // for quiescence
#include "async/detail/pool/sleepers.hpp"        // for sleepers
#include "async/errors.hpp"                      // for stopped
#include "async/threadpool_options.hpp"          // for threadpool_stats

namespace async::inline v0_1::detail {

/// The workers of a pool and their threads: starts, ends and joins them; lets thieves visit all.
///
/// A worker has a thread that may run tasks while it is wanted, and until that thread has noticed the request to exit.
/// A worker that is wanted again before that simply goes on. Wanted: the number that the user has asked
/// for and, unless that is 0, one more for each blocking_section. If it falls, workers in no section exit first, the
/// last one first; if it grows, those in sections come first: so no more run beside sections than the user has asked
/// for.
///
/// Threads     everything by any thread; the hot paths never take the mutex.
/// Lifetime    workers stay until the end, since a thief may be looking at one.
class worker_crew {
 public:
  static constexpr std::size_t most_workers = 65535;
  static constexpr std::size_t most_sections = 512;  // further ones get no extra worker

  /// Each thread calls `body`, which returns once confirm_exit() has returned true. Each new worker is given to
  /// `prepare` first; its loop has `setting`.
  worker_crew(pool_core& pool, sleepers& all, quiescence& counts, idle_condition& idle, const pool_timers& timers,
              void (*body)(worker&), const loop_setting& setting, void (*prepare)(worker&));
  ~worker_crew();
  worker_crew(const worker_crew&) = delete;
  worker_crew& operator=(const worker_crew&) = delete;

  // --- threads -------------------------------------------------------------------------------------------------------

  /// Sets the number of workers that the user asks for. Does not wait for running tasks, nor for threads that end:
  /// the next thread of the same worker begins when they have called the stop hook. Throws stopped. Throws
  /// std::length_error and std::bad_alloc; then nothing has changed. Throws what starting a thread throws; then those
  /// that did start stay.
  void configure(std::size_t threads);

  /// A thread of the pool is about to block: one worker more, if a thread can be started. `w`: that of the thread, or
  /// null. False: there is none for this section, and end_section() is not called.
  bool begin_section(worker* w) noexcept;
  void end_section(worker* w) noexcept;

  /// Refuses configure() from here on. A paused crew gets one worker if needs_one(pool). If no thread can be started
  /// for it, and none is free, returns a worker without one, whose place the calling thread takes; else null.
  worker* close(bool (*needs_one)(const pool_core&) noexcept) noexcept;

  /// While it lives, the calling thread has the place of the worker that close() has returned.
  class occupant;

  /// Makes every worker, later ones too, look at its requests after each task: discard_request or priorities_in_use.
  void request(std::uint8_t what) noexcept;

  /// Ends all threads and joins them. After close().
  void join_all() noexcept;

  /// By the thread of `w`, when its exit is requested. True: it ends and touches `w` no more. False: it is wanted
  /// again.
  bool confirm_exit(worker& w) noexcept;

  /// The loop of worker number `index`, modulo the number of all workers. After the first configure().
  pool_loop& loop(std::size_t index) const noexcept;

  /// How many workers the user has asked for.
  std::size_t size() const noexcept { return asked_.load(std::memory_order_relaxed); }  // relaxed: a figure
  /// How many are wanted.
  std::size_t wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }  // relaxed: a figure
  /// How many are in sections.
  std::size_t in_sections() const noexcept { return in_sections_.load(std::memory_order_relaxed); }  // likewise

  /// Whether a worker is inside a task. A guess.
  bool is_in_task() const noexcept {
    return any_of(0, [](const worker& w) noexcept { return w.is_in_task.load(std::memory_order_relaxed); });
  }

  // --- work ----------------------------------------------------------------------------------------------------------

  /// Calls f(worker&) for each worker, wanted or not, until one returns true; tells whether one did. Starts at number
  /// `first` modulo their count.
  template <class F>
  bool any_of(std::size_t first, F f) const {
    return all_.any_of(first, std::move(f));
  }
  /// Calls f(worker&) for each.
  template <class F>
  void for_each(F f) const {
    all_.for_each(std::move(f));
  }

  /// How many turns of loops the workers have run. Relaxed: a figure.
  std::uint64_t turns() const noexcept {
    std::uint64_t sum = 0;
    for_each([&sum](const worker& w) noexcept { sum += w.turns.load(std::memory_order_relaxed); });
    return sum;
  }
  /// Adds up the workers' counters.
  void count(threadpool_stats& all) const noexcept;

 private:
  struct predecessor;
  struct successor;
  /// By the thread of `w`, when it ends. Does nothing after confirm_exit().
  void replace(worker& w) noexcept;

  // All of these under the mutex.

  void thread_has_ended(worker& w) noexcept;
  std::size_t wanted_for(std::size_t asked) const noexcept {
    return asked == 0 ? 0 : min_of(asked + sections_, most_workers);
  }
  void configure_locked(std::size_t threads);
  void shrink(std::size_t threads) noexcept;
  void set_wanted(worker& w, bool is) noexcept;
  void set_in_section(worker* w, bool is) noexcept;
  void make_workers(std::size_t count);
  void start(worker& w);
  void request_exit(worker& w) noexcept;
  bool take_back(bool may_block) noexcept;
  worker* without_thread() noexcept;

  pool_core& pool_;
  sleepers& sleepers_;
  quiescence& quiescence_;
  idle_condition& idle_;
  const pool_timers& timers_;
  void (*const body_)(worker&);
  const loop_setting setting_;
  void (*const prepare_)(worker&);
  published_list<worker> all_;          // written under the mutex
  atomic<std::size_t> wanted_{0};       // written under the mutex
  atomic<std::size_t> asked_{0};        // written under the mutex
  atomic<std::size_t> in_sections_{0};  // written under the mutex
  std::mutex mutex_;                    // guards what follows
  bool is_closed_ = false;
  bool is_joining_ = false;
  std::size_t sections_ = 0;
  std::uint8_t lasting_requests_ = 0;
  std::vector<std::unique_ptr<worker>> members_;
};

class worker_crew::occupant {
 public:
  /// Waits until the worker's last thread has left it.
  occupant(worker_crew& crew, worker& place);
  /// Threads that have started meanwhile go on with what is left.
  ~occupant();
  occupant(const occupant&) = delete;
  occupant& operator=(const occupant&) = delete;

 private:
  worker_crew& crew_;
  worker& place_;
  const std::lock_guard<std::mutex> one_at_a_time_;
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION worker_crew::worker_crew(pool_core& pool, sleepers& all, quiescence& counts, idle_condition& idle,
                                             const pool_timers& timers, void (*body)(worker&),
                                             const loop_setting& setting, void (*prepare)(worker&))
    : pool_(pool),
      sleepers_(all),
      quiescence_(counts),
      idle_(idle),
      timers_(timers),
      body_(body),
      setting_(setting),
      prepare_(prepare) {}

ASYNCSTEPS_FUNCTION worker_crew::~worker_crew() = default;

ASYNCSTEPS_FUNCTION void worker_crew::configure(std::size_t threads) {
  if (threads > most_workers) throw std::length_error("async::threadpool: more threads than 65535");
  const std::lock_guard lock(mutex_);
  if (is_closed_) throw stopped();
  const std::size_t before = size();
  const struct asked_for {
    worker_crew& crew;
    const std::size_t before, threads;
    ~asked_for() {  // after a failure those that are there
      const std::size_t there = crew.wanted() - min_of(crew.sections_, crew.wanted());
      const std::size_t least = min_of(before, threads);
      // relaxed: as wanted_
      crew.asked_.store(min_of(max_of(there, least), threads), std::memory_order_relaxed);
    }
  } at_end{*this, before, threads};
  configure_locked(wanted_for(threads));
}

ASYNCSTEPS_FUNCTION bool worker_crew::begin_section(worker* w) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_joining_ || sections_ == most_sections) return false;
  ++sections_;
  set_in_section(w, true);
  try {
    configure_locked(wanted_for(size()));
  } catch (...) {  // the section goes on without it
  }
  return true;
}

ASYNCSTEPS_FUNCTION void worker_crew::end_section(worker* w) noexcept {
  const std::lock_guard lock(mutex_);
  --sections_;
  set_in_section(w, false);
  if (!is_joining_) shrink(wanted_for(size()));
}

ASYNCSTEPS_FUNCTION worker* worker_crew::close(bool (*needs_one)(const pool_core&) noexcept) noexcept {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  if (is_joining_ || wanted() != 0 || !needs_one(pool_)) return nullptr;
  asked_.store(1, std::memory_order_relaxed);  // relaxed: as wanted_
  try {
    configure_locked(wanted_for(1));
  } catch (...) {  // one that has a thread goes on, unless it blocks
    if (!take_back(false)) return without_thread();
  }
  return nullptr;
}

/// Makes sure that a worker with a thread is wanted, though it was to exit. False: there is none.
ASYNCSTEPS_FUNCTION bool worker_crew::take_back(bool may_block) noexcept {
  for (const auto& w : members_) {
    if (!w->has_thread || (w->blocks && !may_block)) continue;
    start(*w);
    return true;
  }
  return false;
}

/// A worker whose place is free. Null, without memory: another one goes on.
ASYNCSTEPS_FUNCTION worker* worker_crew::without_thread() noexcept {
  for (const auto& w : members_) {
    if (!w->has_thread) return w.get();
  }
  try {
    make_workers(members_.size() + 1);
    return members_.back().get();
  } catch (...) {
    take_back(true);
    return nullptr;
  }
}

ASYNCSTEPS_FUNCTION worker_crew::occupant::occupant(worker_crew& crew, worker& place)
    : crew_(crew), place_(place), one_at_a_time_(place.occupied) {
  const std::lock_guard lock(crew_.mutex_);
  // relaxed: as in start()
  place_.requests.fetch_and(static_cast<std::uint8_t>(~worker::exit_request), std::memory_order_relaxed);
  crew_.quiescence_.thread_starting();
  crew_.quiescence_.thread_arrived();
  place_.has_thread = true;
  crew_.set_wanted(place_, true);
}

ASYNCSTEPS_FUNCTION worker_crew::occupant::~occupant() {
  {
    const std::lock_guard lock(crew_.mutex_);
    if (place_.is_wanted) crew_.request_exit(place_);
    if (place_.has_thread) crew_.thread_has_ended(place_);
    if (crew_.wanted() == 0) crew_.take_back(true);
  }
  crew_.idle_.notify();
}

ASYNCSTEPS_FUNCTION void worker_crew::request(std::uint8_t what) noexcept {
  const std::lock_guard lock(mutex_);
  lasting_requests_ |= what;
  for (const auto& w : members_) w->requests.fetch_or(what, std::memory_order_relaxed);  // relaxed: a hint
}

ASYNCSTEPS_FUNCTION void worker_crew::join_all() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_joining_ = true;
    asked_.store(0, std::memory_order_relaxed);  // relaxed: as wanted_
    for (const auto& w : members_) {
      if (w->is_wanted) request_exit(*w);
    }
  }
  // There will be no more members. Without the mutex, which each thread takes before it ends.
  for (const auto& w : members_) sleepers_.wake(w->parking_slot);
  // The last one to be woken first: the calling thread then sleeps once, and finds most of the others gone.
  for (std::size_t next = members_.size(); next != 0;) {
    std::thread& last = members_[--next]->thread;
    if (last.joinable()) last.join();
  }
}

ASYNCSTEPS_FUNCTION bool worker_crew::confirm_exit(worker& w) noexcept {
  const std::lock_guard lock(mutex_);
  if (!w.is_exit_requested()) return false;  // written under the mutex
  thread_has_ended(w);
  return true;
}

ASYNCSTEPS_FUNCTION pool_loop& worker_crew::loop(std::size_t index) const noexcept {
  pool_loop* found = nullptr;
  any_of(index, [&found](worker& w) noexcept {
    found = &w.own_loop;
    return true;
  });
  return *found;
}

ASYNCSTEPS_FUNCTION void worker_crew::count(threadpool_stats& all) const noexcept {
  for_each([&all](const worker& w) noexcept {
    all.tasks += w.ran.load(std::memory_order_relaxed);  // relaxed, all: each is a figure of its own
    all.steals += w.steals.load(std::memory_order_relaxed);
    all.parks += w.parks.load(std::memory_order_relaxed);
    all.turns += w.turns.load(std::memory_order_relaxed);
    all.moves += w.moves.load(std::memory_order_relaxed);
  });
}

ASYNCSTEPS_FUNCTION void worker_crew::replace(worker& w) noexcept {
  const std::lock_guard lock(mutex_);
  if (!w.has_thread || w.thread.get_id() != std::this_thread::get_id()) return;
  thread_has_ended(w);
  if (!w.is_wanted) return;
  try {
    start(w);  // it is wanted meanwhile: a thread that stops the pool asks without the mutex
  } catch (...) {
    set_wanted(w, false);  // the others go on without it
  }
}

ASYNCSTEPS_FUNCTION void worker_crew::thread_has_ended(worker& w) noexcept {
  w.has_thread = false;
  quiescence_.thread_left();
}

ASYNCSTEPS_FUNCTION void worker_crew::configure_locked(std::size_t threads) {
  make_workers(threads != 0 ? threads : 1);  // flows that start while the pool is paused need a loop
  shrink(threads);
  for (const bool all : {false, true}) {
    for (std::size_t next = 0; wanted() < threads && next != members_.size(); ++next) {
      worker& w = *members_[next];
      if (!w.is_wanted && (w.blocks || all)) start(w);
    }
  }
}

ASYNCSTEPS_FUNCTION void worker_crew::shrink(std::size_t threads) noexcept {
  for (const bool are_in_sections : {false, true}) {
    for (std::size_t next = members_.size(); wanted() > threads && next != 0;) {
      worker& w = *members_[--next];
      if (!w.is_wanted || w.blocks != are_in_sections) continue;
      request_exit(w);
      sleepers_.wake(w.parking_slot);
    }
  }
}

ASYNCSTEPS_FUNCTION void worker_crew::set_wanted(worker& w, bool is) noexcept {
  w.is_wanted = is;
  wanted_.store(is ? wanted() + 1 : wanted() - 1, std::memory_order_relaxed);  // relaxed: a figure, else read here
}

ASYNCSTEPS_FUNCTION void worker_crew::set_in_section(worker* w, bool is) noexcept {
  if (w == nullptr) return;
  w->blocks = is;
  in_sections_.store(is ? in_sections() + 1 : in_sections() - 1, std::memory_order_relaxed);  // relaxed: a figure
}

ASYNCSTEPS_FUNCTION void worker_crew::make_workers(std::size_t count) {
  while (members_.size() < count) {
    const std::size_t known = members_.size();
    members_.reserve(known + 1);
    auto fresh = std::make_unique<worker>(pool_, known, timers_, setting_);
    prepare_(*fresh);
    fresh->requests.store(lasting_requests_, std::memory_order_relaxed);  // relaxed: no other thread knows it yet
    all_.reserve_one();
    members_.push_back(std::move(fresh));
    all_.add(*members_.back());
  }
}

/// The thread that a worker had before. Its destructors of thread_local objects may still run, and wait for a task.
struct worker_crew::predecessor {
  std::thread thread;
  ~predecessor() {
    if (thread.joinable()) thread.join();
  }
};

/// Starts another thread in place of one that a task has ended with pthread_exit().
struct worker_crew::successor {
  worker_crew& crew;
  worker& self;
  ~successor() {
    crew.replace(self);
    crew.idle_.notify();  // the pool may be idle without this thread
  }
};

ASYNCSTEPS_FUNCTION void worker_crew::start(worker& w) {
  // relaxed: a running thread asks under the mutex before it ends
  w.requests.fetch_and(static_cast<std::uint8_t>(~worker::exit_request), std::memory_order_relaxed);
  if (!w.has_thread) {
    quiescence_.thread_starting();
    w.before = std::move(w.thread);
    try {
      w.thread = std::thread([this, &w] {
        const predecessor at_the_end{std::move(w.before)};
        const std::lock_guard one_at_a_time(w.occupied);
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
  if (!w.is_wanted) set_wanted(w, true);
}

ASYNCSTEPS_FUNCTION void worker_crew::request_exit(worker& w) noexcept {
  // relaxed: ordered by the sleepers' lock, else seen in time
  w.requests.fetch_or(worker::exit_request, std::memory_order_relaxed);
  set_wanted(w, false);
}
#endif

}  // namespace async::inline v0_1::detail
