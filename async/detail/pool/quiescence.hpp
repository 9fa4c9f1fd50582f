// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint64_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace async::inline v0_1::detail {

/// Quiescence detection: counts the threads that may have a task of a pool in hand, which are the pool's threads and
/// helpers from outside. Tells whether none has, and no task waits. A started thread has nothing in hand until it
/// arrives.
///
/// Word        [ changes:27 | helpers:20 | threads:17 ]; `changes` counts arrivals and departures.
/// Threads     any.
/// Progress    wait-free.
class quiescence {
 public:
  /// A thread is about to be started. It counts as starting until it arrives.
  void thread_starting() noexcept {
    starting_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the reader knows of the start
  }
  /// The thread could not be started.
  void thread_not_started() noexcept {
    starting_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: nothing is published
  }
  /// By the started thread, before it looks for tasks.
  void thread_arrived() noexcept {
    arrive(one_thread);
    // [W16] release, pairs with [W17]: publishes the arrival; not modelled: there, a modification of the word sees it
    // anyway
    starting_.fetch_sub(1, std::memory_order_release);
  }
  /// By the thread, after its last task.
  void thread_left() noexcept { left(one_thread); }
  /// A thread from outside is about to look for tasks.
  void helper_arrived() noexcept { arrive(one_helper); }
  void helper_left() noexcept { left(one_helper); }

  /// Whether a started thread has not arrived yet. A later is_idle() sees those that have.
  bool has_starting() const noexcept {
    return starting_.load(std::memory_order_acquire) != 0;  // [W17] acquire, pairs with [W16]; not modelled: see there
  }

  /// Whether there is a thread, or a helper. Relaxed: a guess.
  bool has_threads_or_helpers() const noexcept { return has_starting() || threads() != 0 || has_helpers(); }
  /// The number of threads. Relaxed: a figure.
  std::size_t threads() const noexcept { return threads_of(word_.load(std::memory_order_relaxed)); }
  /// Relaxed: a guess.
  bool has_helpers() const noexcept { return helpers_of(word_.load(std::memory_order_relaxed)) != 0; }
  /// False: all that helpers have done is visible, and those that arrive later see what this thread has done before.
  bool has_helpers_now() noexcept {
    // [W43] acq_rel, pairs with [W10] and [W12]: orders this look and the arrivals, as [W11] does; not modelled: see
    // [W11]
    return helpers_of(word_.fetch_add(0, std::memory_order_acq_rel)) != 0;
  }

  /// True: at one moment of the call no task waited and none ran; all threads slept, see basic_sleepers, and there was
  /// no helper. All that the threads had done by then is visible.
  ///
  /// Proof: between the first looks at the two words and their confirmations no thread arrived, left or woke. So a task
  /// that has_work() did not find in between was in no thread's hand. A thread that arrived after the confirmation took
  /// its tasks after it.
  template <class Sleepers, class HasWork>
  bool is_idle(Sleepers& all, HasWork has_work) noexcept {
    const std::uint64_t before = word_.load(std::memory_order_acquire);  // [W15] acquire, pairs with [W12]
    const auto asleep = all.idle();
    if (asleep.count() != threads_of(before) || helpers_of(before) != 0 || has_work()) return false;
    // [W11] release, pairs with [W10]: has_work() has not seen tasks that threads take which arrive after this; not
    // modelled: no load of the model reads what is stored later
    return word_.fetch_add(0, std::memory_order_release) == before && all.is_still(asleep);
  }

 private:
  static constexpr unsigned helpers_shift = 17, changes_shift = 37;
  static constexpr std::uint64_t one_thread = 1;
  static constexpr std::uint64_t one_helper = std::uint64_t{1} << helpers_shift;
  static constexpr std::uint64_t one_change = std::uint64_t{1} << changes_shift;
  static constexpr std::size_t threads_of(std::uint64_t word) noexcept {
    return static_cast<std::size_t>(word & (one_helper - 1));
  }
  static constexpr std::uint64_t helpers_of(std::uint64_t word) noexcept {
    return (word & (one_change - 1)) >> helpers_shift;
  }

  void arrive(std::uint64_t one) noexcept {
    // [W10] acquire, pairs with [W11] and [W43]: a thread that looked earlier has seen the tasks that this one takes;
    // not modelled: see there
    word_.fetch_add(one_change + one, std::memory_order_acquire);
  }
  void left(std::uint64_t one) noexcept {
    // [W12] release, pairs with [W15] and [W43]: what the tasks have done
    word_.fetch_add(one_change - one, std::memory_order_release);
  }

  atomic<std::uint64_t> word_{0};
  atomic<std::uint32_t> starting_{0};
};

}  // namespace async::inline v0_1::detail
