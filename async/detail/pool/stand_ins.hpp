// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>              // for microseconds, milliseconds
#include <condition_variable>  // for condition_variable
#include <cstddef>             // for size_t
#include <cstdint>             // for uint64_t
#include <iterator>            // for next
#include <list>                // for list
#include <mutex>               // for mutex, lock_guard, unique_lock
#include <thread>              // for thread
#include <utility>             // for move

#include "async/detail/base/atomics.hpp"  // for atomic, wait_clock
#include "async/detail/base/config.hpp"   // for ASYNCSTEPS_FUNCTION
#include "async/task.hpp"                 // for task

namespace async::inline v0_1::detail {

/// Threads that stand in for workers which sleep in a wait although tasks are queued. A stand-in runs tasks until there
/// are none, or until the workers are back. Then it rests for 50 ms, and ends if it is not called again.
///
/// Without stand-ins, a pool whose workers all wait for a queued task would deadlock.
///
/// Threads     any; rest() by a stand-in; close() once.
/// Progress    takes a mutex; is_surplus() is wait-free.
class stand_ins {
 public:
  stand_ins() = default;
  ~stand_ins();
  stand_ins(const stand_ins&) = delete;
  stand_ins& operator=(const stand_ins&) = delete;

  /// Puts one more stand-in to work, if fewer are at work than are `missed`. Calls one that rests; else, if it
  /// `may_start`, starts a thread that calls body(). Between two starts at least 200 microseconds pass, more when there
  /// are many stand-ins. Throws what starting a thread throws.
  void call(std::size_t missed, bool may_start, task body);

  /// Whether more stand-ins would be at work than are missed, if `more` were added. Relaxed: a guess.
  bool is_surplus(std::size_t missed, std::size_t more = 0) const noexcept {
    return at_work_.load(std::memory_order_relaxed) + more > missed;
  }

  /// The number of threads started.
  std::uint64_t started() const noexcept { return started_.load(std::memory_order_relaxed); }  // relaxed: a figure

  /// By a stand-in that is not needed; waits. True: it is called again. False: it has to end.
  bool rest();

  /// Ends and joins all, and starts none any more. To be called when no task is left.
  void close() noexcept;

 private:
  static constexpr std::chrono::microseconds pause{200};
  static constexpr std::chrono::milliseconds rest_time{50};

  struct entry {
    std::thread thread;
    std::list<entry> before;  // ended threads that this one joins at its end
    bool has_ended = false;   // guarded by the mutex
  };
  static void join(std::list<entry>& all) noexcept;
  struct end_of_thread;

  atomic<std::size_t> at_work_{0};
  atomic<std::uint64_t> started_{0};  // written under the mutex
  std::mutex mutex_;                  // guards what follows
  std::condition_variable wake_;
  bool is_closed_ = false;
  std::size_t resting_ = 0;
  std::size_t called_ = 0;  // resting ones that are called and have not noticed it
  wait_clock::time_point latest_{};
  std::list<entry> threads_;
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION stand_ins::~stand_ins() = default;

struct stand_ins::end_of_thread {
  stand_ins& all;
  entry& self;
  ~end_of_thread() {
    {
      const std::lock_guard lock(all.mutex_);
      all.at_work_.fetch_sub(1, std::memory_order_relaxed);  // another one may run what the ended threads wait for
    }
    join(self.before);
    const std::lock_guard lock(all.mutex_);
    self.has_ended = true;
  }
};

ASYNCSTEPS_FUNCTION void stand_ins::call(std::size_t missed, bool may_start, task body) {
  if (is_surplus(missed, 1)) return;
  const std::lock_guard lock(mutex_);
  const std::size_t there = at_work_.load(std::memory_order_relaxed);  // relaxed: raised under the mutex only
  if (is_closed_ || there + 1 > missed) return;
  if (called_ != resting_) {
    ++called_;
    at_work_.fetch_add(1, std::memory_order_relaxed);  // relaxed, all: a count
    return wake_.notify_one();
  }
  const wait_clock::time_point now = wait_clock::now();
  if (!may_start || now < latest_ + pause * (1 + there / 64)) return;
  // The next thread joins those that have ended. This call does not: their thread-local destructors may still run,
  // and wait for something.
  std::list<entry> ended;
  for (auto e = threads_.begin(); e != threads_.end();) {
    const auto next = std::next(e);
    if (e->has_ended) ended.splice(ended.end(), threads_, e);
    e = next;
  }
  entry& fresh = threads_.emplace_back();
  fresh.before.splice(fresh.before.end(), ended);
  at_work_.fetch_add(1, std::memory_order_relaxed);
  try {
    fresh.thread = std::thread([this, &fresh, work = std::move(body)]() mutable {
      const end_of_thread at_end{*this, fresh};
      work();
    });
  } catch (...) {
    at_work_.fetch_sub(1, std::memory_order_relaxed);
    threads_.splice(threads_.begin(), fresh.before);
    threads_.pop_back();
    throw;
  }
  started_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a figure
  latest_ = now;
}

ASYNCSTEPS_FUNCTION bool stand_ins::rest() {
  std::unique_lock lock(mutex_);
  at_work_.fetch_sub(1, std::memory_order_relaxed);
  ++resting_;
  wake_.wait_for(lock, rest_time, [this] { return called_ != 0 || is_closed_; });
  --resting_;
  if (called_ != 0) {
    --called_;
    return true;
  }
  at_work_.fetch_add(1, std::memory_order_relaxed);  // until it has ended
  return false;
}

ASYNCSTEPS_FUNCTION void stand_ins::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  wake_.notify_all();
  join(threads_);
}

ASYNCSTEPS_FUNCTION void stand_ins::join(std::list<entry>& all) noexcept {
  for (entry& e : all) e.thread.join();  // which has joined those before it
  all.clear();
}
#endif

}  // namespace async::inline v0_1::detail
