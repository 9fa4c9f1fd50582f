// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <condition_variable>  // for condition_variable
#include <cstddef>             // for size_t
#include <cstdint>             // for uint64_t
#include <iterator>            // for next
#include <list>                // for list
#include <mutex>               // for mutex, lock_guard, unique_lock
#include <thread>              // for thread
#include <utility>             // for move

#include "async/detail/base/atomics.hpp"  // for atomic, wait_clock
#include "async/detail/base/chrono.hpp"   // for microseconds, milliseconds
#include "async/detail/base/config.hpp"   // for ASYNCSTEPS_FUNCTION
#include "async/task.hpp"                 // for task

namespace async::inline v0_1::detail {

/// Threads that stand in for workers which sleep in a wait although tasks are queued. A stand-in runs tasks until there
/// are none, or until the workers are back. Then it rests for 50 ms, and ends if it is not called again.
///
/// Without stand-ins, a pool whose workers all wait for a queued task would deadlock.
///
/// The pool's lookout is a thread of such a set, too.
///
/// Threads     any; nap() and rest() by a stand-in; close() once.
/// Progress    takes a mutex; is_surplus() is wait-free.
class stand_ins {
 public:
  /// `after_end`: to be called with `of` when a thread has ended and no longer counts as at work; or null.
  explicit stand_ins(void (*after_end)(void* of) noexcept = nullptr, void* of = nullptr) noexcept;
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

  static constexpr std::chrono::milliseconds rest_time{50}, forever = (std::chrono::milliseconds::max)();

  /// By a stand-in that is not needed; waits for `limit`. Only one thread rests `forever`, the others for
  /// rest_time. True: it is called again, or is_needed(), asked once it no longer counts as at work, is true. False: it
  /// has to end.
  template <class IsNeeded>
  bool rest(std::chrono::milliseconds limit, IsNeeded is_needed) {
    std::unique_lock lock(mutex_);
    at_work_.fetch_sub(1, std::memory_order_relaxed);
    if (resting_++ != 0 && limit == forever) limit = rest_time;
    const bool is_called = is_needed() || wait_for_call(lock, limit);
    --resting_;
    if (!is_called || called_ == 0) {
      at_work_.fetch_add(1, std::memory_order_relaxed);  // until it has ended
      return is_called;
    }
    --called_;
    return true;
  }

  /// By a stand-in at work: sleeps for `length`. False: the set is closed, and it has to end.
  bool nap(std::chrono::milliseconds length);

  /// Ends and joins all, and starts none any more. To be called when no task is left.
  void close() noexcept;

 private:
  static constexpr std::chrono::microseconds pause{200};

  struct entry {
    std::thread thread;
    std::list<entry> before;  // ended threads that this one joins at its end
    bool has_ended = false;   // guarded by the mutex
  };
  static void join(std::list<entry>& all) noexcept;
  struct end_of_thread;
  bool wait_for_call(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit);

  void (*const after_end_)(void*) noexcept;
  void* const of_;
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
ASYNCSTEPS_FUNCTION stand_ins::stand_ins(void (*after_end)(void*) noexcept, void* of) noexcept
    : after_end_(after_end), of_(of) {}

ASYNCSTEPS_FUNCTION stand_ins::~stand_ins() = default;

struct stand_ins::end_of_thread {
  stand_ins& all;
  entry& self;
  ~end_of_thread() {
    {
      const std::lock_guard lock(all.mutex_);
      all.at_work_.fetch_sub(1, std::memory_order_relaxed);  // another one may run what the ended threads wait for
    }
    if (all.after_end_ != nullptr) all.after_end_(all.of_);
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
  entry& fresh = threads_.emplace_back();
  // The next thread joins those that have ended. This call does not: their thread-local destructors may still run,
  // and wait for something.
  for (auto e = threads_.begin(); e != threads_.end();) {
    const auto next = std::next(e);
    if (e->has_ended) fresh.before.splice(fresh.before.end(), threads_, e);
    e = next;
  }
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

ASYNCSTEPS_FUNCTION bool stand_ins::wait_for_call(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit) {
  const auto is_over = [this] { return called_ != 0 || is_closed_; };
  if (limit == forever) {
    wake_.wait(lock, is_over);
  } else {
    wake_.wait_for(lock, limit, is_over);
  }
  return called_ != 0;
}

ASYNCSTEPS_FUNCTION bool stand_ins::nap(std::chrono::milliseconds length) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, length, [this] { return is_closed_; });
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
