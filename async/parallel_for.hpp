// SPDX-License-Identifier: BSL-1.0
// floor: 15
#pragma once
#include <algorithm>    // for min, max
#include <chrono>       // for microseconds
#include <concepts>     // for integral, invocable
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <exception>    // for exception_ptr
#include <functional>   // for invoke
#include <iterator>     // for random_access_iterator, iter_reference_t
#include <memory>       // for destroy_at
#include <new>          // for operator new
#include <type_traits>  // for is_integral_v
#include <utility>      // for move

#include "async/detail/atomics.hpp"          // for atomic, wait_clock
#include "async/detail/block_cache.hpp"      // for allocate_block, free_block
#include "async/detail/config.hpp"           // for cache_line
#include "async/detail/join_state.hpp"       // for join_state
#include "async/detail/parker.hpp"           // for parker
#include "async/detail/pool_core.hpp"        // for pool_core
#include "async/detail/pool_help.hpp"        // for help_until
#include "async/detail/pool_worker.hpp"      // for job, worker
#include "async/detail/reference_count.hpp"  // for reference_count
#include "async/threadpool.hpp"              // for threadpool

namespace async {

/// The grain that lets parallel_for find out how long the calls take.
inline constexpr std::size_t auto_grain = 0;

/// What parallel_for counts or walks: an integer type but bool, or a random-access iterator.
template <class I>
concept parallel_index = (std::integral<I> && !std::same_as<I, bool> && sizeof(I) <= sizeof(std::uint64_t)) ||
                         std::random_access_iterator<I>;

/// What parallel_for calls: with the integer, with the element or, if that cannot be, with the iterator.
template <class F, class I>
concept parallel_body =
    (std::random_access_iterator<I> && std::invocable<F&, std::iter_reference_t<I>>) || std::invocable<F&, I>;

namespace detail {

/// The calls of one loop, which the thread that wants them made shares with helpers from the pool.
///
/// Each takes runs of numbers from the front until none is left. The thread of the loop waits for the helpers that are
/// at work, not for those that the pool has not come to: a full pool does not delay a loop. So this object lives in a
/// block that the last of them frees; the function and the iterator are the loop's, and nobody touches them after it.
class shared_loop {
 public:
  shared_loop(const shared_loop&) = delete;
  shared_loop& operator=(const shared_loop&) = delete;

  /// Makes the calls together with the pool. The caller holds a reference.
  void run() {
    worker* const self = pool_.own_worker();
    call_helpers();
    work();
    helpers_.cancel();  // who has not come so far comes too late
    if (self != nullptr) {
      while (references_.has_others()) {
        job* const next = self->own.pop();  // a helper that nobody has stolen, as a rule
        if (next == nullptr) break;
        pool_.run_job(self, next);
      }
      if (!helpers_.is_done()) pool_.help_until([this] { return helpers_.announce_sleep(); });
    } else {
      while (!helpers_.is_done()) {
        if (!helpers_.announce_sleep()) outside_.park();
      }
    }
    if (has_failed_.load(std::memory_order_relaxed)) std::rethrow_exception(std::move(error_));
  }

  void release() noexcept {
    if (references_.drop()) destroy();
  }

 protected:
  shared_loop(pool_core& pool, std::uint64_t count, std::uint64_t grain) noexcept
      : pool_(pool),
        count_(count),
        grain_(grain),
        is_outside_(pool.own_worker() == nullptr),
        most_helpers_(most_helpers(pool.size())) {}
  ~shared_loop() = default;

  virtual void call(std::uint64_t first, std::uint64_t count) = 0;
  virtual void destroy() noexcept = 0;

 private:
  struct helper : job {
    explicit helper(shared_loop& l) noexcept : job{&come}, loop(&l) {}
    static void come(job* base) noexcept {
      shared_loop& loop = *static_cast<helper*>(base)->loop;
      free_block(base, sizeof(helper), alignof(helper));
      if (loop.helpers_.add()) {
        loop.call_helpers();
        loop.work();
      }
      if (loop.helpers_.finish()) loop.wake();
      loop.release();
    }
    shared_loop* loop;
  };

  /// The threads of the pool that are not at work on this loop yet.
  std::uint64_t most_helpers(std::size_t threads) const noexcept {
    return is_outside_ || threads == 0 ? threads : threads - 1;
  }

  /// Asks the pool for two threads more, while there are some and there is work for them. Each helper does so, too, so
  /// that a few steps call all. Without memory, or where the pool takes no tasks, the loop does with fewer.
  void call_helpers() noexcept {
    for (int i = 0; i < 2 && count_ - next_.load(std::memory_order_relaxed) > 1; ++i) {
      if (called_.fetch_add(1, std::memory_order_relaxed) >= most_helpers_) return;
      references_.add();
      void* block = nullptr;
      try {
        block = allocate_block(sizeof(helper), alignof(helper));
        pool_.submit_job(::new (block) helper(*this), false);
      } catch (...) {
        if (block != nullptr) free_block(block, sizeof(helper), alignof(helper));
        references_.undo_add();
        return;
      }
    }
  }

  /// Takes runs of numbers, long enough not to be felt and short enough to be shared, until there are none.
  void work() noexcept {
    constexpr auto run_time = std::chrono::microseconds(20);
    std::uint64_t length = 1;
    auto start = wait_clock::now();
    try {
      std::uint64_t first = 0;
      while (const std::uint64_t count = take(length, first)) {
        call(first, count);
        if (grain_ != auto_grain) continue;
        const auto end = wait_clock::now();
        if (end - start > 2 * run_time) length = (std::max)(length / 2, std::uint64_t{1});
        if (end - start < run_time / 2 && count == length) length *= 2;
        start = end;
      }
    } catch (...) {
      if (!has_failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
      next_.store(count_, std::memory_order_relaxed);
    }
  }

  /// Takes the next run; returns its length, 0 at the end. With a grain of its own choice a thread leaves enough for
  /// all others to do as much.
  std::uint64_t take(std::uint64_t wanted, std::uint64_t& first) noexcept {
    first = next_.load(std::memory_order_relaxed);
    std::uint64_t count = 0;
    do {
      const std::uint64_t left = count_ - first;
      if (left == 0) return 0;
      count = grain_ != auto_grain ? grain_ : (std::min)(wanted, left / (2 * (most_helpers_ + 1)));
      count = (std::min)((std::max)(count, std::uint64_t{1}), left);
    } while (!next_.compare_exchange_weak(first, first + count, std::memory_order_relaxed));
    return count;
  }

  void wake() noexcept {
    if (is_outside_) {
      outside_.unpark();
    } else {
      pool_.notify_waiters();
    }
  }

  pool_core& pool_;
  const std::uint64_t count_;
  const std::uint64_t grain_;
  const bool is_outside_;  // the thread of the loop is none of the pool's
  const std::uint64_t most_helpers_;
  std::exception_ptr error_;        // whoever sets has_failed_ writes it, run() reads it at the end:
  atomic<bool> has_failed_{false};  // helpers_ orders the two
  // The first number that nobody has taken; all write it.
  alignas(cache_line) atomic<std::uint64_t> next_{0};
  // Those at work; cancelled when the loop has ended.
  alignas(cache_line) join_state<void> helpers_;
  parker outside_;                   // where a thread sleeps that is none of the pool's
  atomic<std::uint64_t> called_{0};  // helpers that were called, or would have been, had there been more
  reference_count references_;       // run()'s and one for each helper
};

template <class I, class F>
class parallel_loop final : public shared_loop {
 public:
  parallel_loop(pool_core& pool, const I& first, std::uint64_t count, F& f, std::size_t grain) noexcept
      : shared_loop(pool, count, grain), first_(first), f_(f) {}

 private:
  void call(std::uint64_t from, std::uint64_t count) override {
    if constexpr (std::integral<I>) {
      const auto first = static_cast<I>(static_cast<std::uint64_t>(first_) + from);
      for (std::uint64_t i = 0; i < count; ++i) {
        static_cast<void>(std::invoke(f_, static_cast<I>(static_cast<std::uint64_t>(first) + i)));
      }
    } else {
      using difference = std::iter_difference_t<I>;
      I it = first_ + static_cast<difference>(from);
      for (std::uint64_t i = 0; i < count; ++i, ++it) {
        if constexpr (std::invocable<F&, std::iter_reference_t<I>>) {
          static_cast<void>(std::invoke(f_, *it));
        } else {
          static_cast<void>(std::invoke(f_, it));
        }
      }
    }
  }
  void destroy() noexcept override {
    std::destroy_at(this);
    free_block(this, sizeof(parallel_loop), alignof(parallel_loop));
  }

  const I& first_;  // parallel_for's, as is f_: helpers that come too late may be the last to go
  F& f_;
};

}  // namespace detail

/// Calls f(i) for each i of [first, last): an integer, or the element that an iterator points to, or the iterator if
/// that is what `f` takes. Returns when all calls are done; nothing happens unless first < last.
///
/// Use it for loops whose calls do not depend on each other. Do not use it to run blocking calls in the background
/// (threadpool::post), nor for tasks that find further tasks (task_group).
///
/// Threads     the calling thread, which may be the pool's or any other, and the threads of the pool that have nothing
///             better to do. One object `f` is called by all of them at the same time.
/// Order       none, and no two calls can rely on running at the same time. Each thread takes runs of neighbours.
/// Grain       how many neighbours a thread takes at a time. auto_grain measures and takes as many as last some 20 us,
///             which suits calls of any length, also of uneven ones.
/// Waiting     a pool that is busy, paused or stopped does not hold up the loop: the calling thread then makes all the
///             calls itself. Loops nest to any depth.
/// Exceptions  The first one ends the loop early, after the runs that other threads are at, and is thrown; others are
///             dropped. std::bad_alloc before the first call.
template <parallel_index I, parallel_body<I> F>
void parallel_for(threadpool& pool, I first, I last, F f, std::size_t grain = auto_grain) {
  if (!(first < last)) return;
  std::uint64_t count = 0;
  if constexpr (std::integral<I>) {
    count = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first);
  } else {
    count = static_cast<std::uint64_t>(last - first);
  }
  using loop = detail::parallel_loop<I, F>;
  auto* const shared =
      ::new (detail::allocate_block(sizeof(loop), alignof(loop))) loop(pool.core(), first, count, f, grain);
  struct release {
    loop* shared;
    ~release() { shared->release(); }
  };
  const release at_the_end{shared};
  shared->run();
}

}  // namespace async
