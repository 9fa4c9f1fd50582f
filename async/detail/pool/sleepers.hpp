// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint64_t
#include <mutex>    // for mutex, lock_guard

#include "async/detail/base/atomics.hpp"        // for atomic, cell, light_fence, heavy_fence
#include "async/detail/base/config.hpp"         // for no_sharing
#include "async/detail/base/parker.hpp"         // for parker
#include "async/detail/trace/trace_points.hpp"  // for ASYNCSTEPS_TRACE_SPAN

namespace async::inline v0_1::detail {

template <class Epoch>
class basic_task_scope;
struct cancel_epoch;

/// The sleeping and the searching threads of a pool. Decides whether new work needs a wake-up, and gives it to exactly
/// one thread. A thread sleeps because there is no work ("idle"), or inside a task until a condition holds ("waiting").
///
/// Word        [ changes:15 | watched:1 | waiting inside a task:16 | idle:16 | searching:16 ]; `changes` counts the
///             events that end a sleep; `watched`: a fence of a sleeper covers producers that have not looked since.
/// Producer    publishes the work, light fence, looks at the word. While a thread sleeps or the word is watched, it
///             also modifies the word: it clears `watched` when no thread sleeps, else it adds 0. If no thread sleeps,
///             or one searches, it is done. Else it takes one idle sleeper off the list, counts it as searching and
///             unparks it. Without an idle one it wakes a waiting thread that may run this work. This is best effort
///             and not covered by the proof: a waiting thread polls.
/// Searcher    looks at every source of work. When it finds some, it ends its search; if it was the last searcher and
///             there is more, it wakes the next, so that a burst wakes threads in a chain. When it finds none, it
///             announces its sleep, heavy fence, and looks at every source once more. Only then it parks; or it is a
///             searcher again. After the fence, while still announced, it sets the watch. A thread that announces
///             idleness to a watched word needs no fence. This saves a microsecond for threads that sleep after each
///             task, while a post costs nothing more as long as no thread sleeps. The word begins as watched: no
///             producer has looked at it yet.
///
/// Why no wake-up of an idle thread is lost. Let P have published a piece of work. S is a sleeper, T another
/// thread.
/// 1. P sees neither a watch nor the sleeper S, which has announced itself. If S has made a fence, the
///    fences make S see the work in its last look. If S has made none, it has found the watch of a thread T. T's fence
///    makes P see T's announcement, or else T, and S after it, see the work. From T's announcement to that of S the
///    word shows T asleep, then the watch; so P has not looked at it in between. Nor has it looked before S if S has
///    found the watch that the word began with.
/// 2. P sees sleepers or a watch, and so modifies the word. If that comes before S's announcement, S sees the work. If
///    it comes after, P sees S asleep, or awake again; then S looks at all sources before it sleeps.
/// 3. P sees sleepers and a searcher T, by its modification of the word. Each search ends with a modification of the
///    word. T's comes after P's, or P would not have seen T. So what P has published is visible to T, which then looks
///    once more: at all sources before it parks, or for more work after it has found some.
/// 4. P sees sleepers and no searcher. It wakes one, which is searching from then on and looks at every source.
/// A thread that is taken off the list but has not parked yet takes its permit and goes on as in 4.
///
/// Threads     a sleeper belongs to one thread at a time; everything else by any thread.
/// Progress    notify() and notify_event() are wait-free while no thread sleeps, notify() also while one searches. The
///             rest takes a short lock and, to wake, makes one system call. A search begins and ends without lock.
template <class Mutex = std::mutex, class Work = basic_task_scope<cancel_epoch>>
class basic_sleepers {
 public:
  /// The condition that a thread waits for inside a task. Other threads ask it, under the lock. It may be one that
  /// nobody asks, of a thread that runs no work of others meanwhile: who makes it true then calls wake(). So the work
  /// of a pool does not get dearer with the number of threads that wait for something else.
  struct wait_condition {
    bool (*is_ready)(const wait_condition&) noexcept;                   // null: nobody asks
    bool (*may_run)(const wait_condition&, const Work* work) noexcept;  // whether the thread may run it meanwhile
  };

  /// A parking slot. It lives in the thread's participant, and is off the list while the thread is awake.
  struct sleeper {
    /// Set by a thread that sleeps inside a task; null: the thread is idle.
    const wait_condition* condition = nullptr;
    bool is_unasked() const noexcept { return condition != nullptr && condition->is_ready == nullptr; }

    parker place;
    cell<sleeper*> next;      // guarded by the lock
    cell<sleeper*> previous;  // guarded by the lock
    cell<bool> listed;        // guarded by the lock
    cell<bool> searches;      // written by the waker, before the permit: this thread is counted as searching
  };

  /// To be called after work was published: makes sure that a thread will look for it. `work`: what waiting threads are
  /// asked about; null: none of them may run it.
  [[gnu::always_inline]] void notify(const Work* work = nullptr) noexcept {
    light_fence();  // pairs with announce()'s heavy fence
    // relaxed: ordered by the fence
    if ((word_.load(std::memory_order_relaxed) & (all_asleep_fields | watched)) != 0) [[unlikely]]
      notify_sleepers(work);
  }

  /// To be called after a task has ended: wakes the waiting threads whose condition has become true, and no others.
  void notify_event() noexcept {
    light_fence();  // pairs with announce()'s heavy fence
    // relaxed: ordered by the fence
    if (waiting(word_.load(std::memory_order_relaxed)) != 0) [[unlikely]]
      wake_ready();
  }

  /// Counts the caller as searching, unless `limit` threads already are.
  bool begin_search(std::uint64_t limit) noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);  // relaxed: only a count
    while (searching(word) < limit) {
      // relaxed: a producer that sees this searcher is seen at the end of the search
      if (word_.compare_exchange_weak(word, word + one_searching, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  /// Ends a search that has found work, or that other threads have to continue. has_more() tells whether there is work.
  template <class HasMore>
  void end_search(HasMore has_more) noexcept {
    const std::uint64_t before = change(-one_searching);
    if (searching(before) == 1 && has_idle(before) && has_more()) wake_one(nullptr);
  }

  /// Announces sleep; the search of a searching caller ends with it. The caller then looks at every source once more,
  /// and calls cancel() or parks in `s`.
  void announce(sleeper& s, bool was_searching) noexcept {
    std::uint64_t before = 0;
    {
      const std::lock_guard lock(mutex_);
      if (s.is_unasked()) return s.listed.set(true);
      push(s.condition != nullptr ? first_waiting_ : first_idle_, s);
      before = change(one_asleep(s) - (was_searching ? one_searching : 0));
    }
    if (s.condition == nullptr && (before & watched) != 0) return;
    heavy_fence();  // pairs with the light fences of notify() and notify_event()
    if ((before & watched) != 0) return;
    const std::lock_guard lock(mutex_);
    // [S2] release, pairs with [S1]: what the fence made visible here is visible to a thread that finds the watch;
    // not modelled: the fence of the model releases, too
    if (s.listed.get()) word_.fetch_or(watched, std::memory_order_release);
  }

  /// Takes the announcement back, or takes the permit when a waker was faster. True: the caller is counted as searching
  /// and goes on as a searcher. An idle caller becomes a searcher either way, unless woken for another reason: it may
  /// have found more work than it can run, and producers may have relied on its search.
  bool cancel(sleeper& s) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (s.listed.get()) {
        const bool was_idle = s.condition == nullptr;
        unlink(s);
        change(one_change - one_asleep(s) + (was_idle ? one_searching : 0));
        return was_idle;
      }
    }
    return park(s);
  }

  /// Sleeps until woken. True: the caller was woken to search, or timed out, and is counted as searching.
  bool park(sleeper& s) noexcept {
    ASYNCSTEPS_TRACE_SPAN(park, "park", trace_id(&s));
    s.place.park();
    return s.searches.get();
  }
  bool park_until(sleeper& s, wait_clock::time_point deadline) noexcept {
    ASYNCSTEPS_TRACE_SPAN(park, "park", trace_id(&s));
    return s.place.park_until(deadline) ? s.searches.get() : cancel(s);
  }

  /// Wakes this thread, if it is asleep, for another reason than to search. A thread that announces its sleep after
  /// this sees in its last look what the caller did before.
  void wake(sleeper& s) noexcept {
    bool is_asleep = false;
    {
      const std::lock_guard lock(mutex_);
      is_asleep = s.listed.get();
      if (is_asleep) take(s, false);
    }
    if (!is_asleep) return;
    ASYNCSTEPS_TRACE_SPAN(wake, "wake", trace_id(&s));
    s.place.unpark();
  }

  /// The number of idle threads, and a number that changes whenever one ceases to be idle.
  struct idleness {
    std::uint64_t word;
    std::size_t count() const noexcept { return static_cast<std::size_t>(word >> idle_shift & field); }
  };
  idleness idle() const noexcept {
    // [S3] acquire, pairs with [S1]: the caller, which looks for work after this, knows of all that the sleepers knew
    return {word_.load(std::memory_order_acquire)};
  }
  /// Whether all those are still idle, without a break. The caller's earlier looks then saw everything that those
  /// threads knew.
  bool is_still(idleness then) noexcept {
    const idleness at_present{change(0)};
    return at_present.count() == then.count() && at_present.word >> changes_shift == then.word >> changes_shift;
  }

  /// In a child of fork(), where none of the threads exists: from here on nobody is asleep, and nobody to wake.
  void forget() noexcept { word_.store(0, std::memory_order_relaxed); }  // relaxed: there is one thread

  /// The number of wake-ups.
  std::uint64_t wakes() const noexcept { return wakes_.load(std::memory_order_relaxed); }  // relaxed: a figure

 private:
  static constexpr unsigned idle_shift = 16, waiting_shift = 32, watched_shift = 48, changes_shift = 49;
  static constexpr std::uint64_t field = 0xffffU;
  static constexpr std::uint64_t all_asleep_fields = field << idle_shift | field << waiting_shift;
  static constexpr std::uint64_t watched = std::uint64_t{1} << watched_shift;
  static constexpr std::uint64_t one_searching = 1;
  static constexpr std::uint64_t one_change = std::uint64_t{1} << changes_shift;
  static constexpr std::uint64_t searching(std::uint64_t word) noexcept { return word & field; }
  static constexpr std::uint64_t waiting(std::uint64_t word) noexcept { return word >> waiting_shift & field; }
  static constexpr bool has_sleepers(std::uint64_t word) noexcept { return (word & all_asleep_fields) != 0; }
  static constexpr bool has_idle(std::uint64_t word) noexcept { return (word & field << idle_shift) != 0; }
  static std::uint64_t one_asleep(const sleeper& s) noexcept {
    if (s.is_unasked()) return 0;
    return std::uint64_t{1} << (s.condition != nullptr ? waiting_shift : idle_shift);
  }

  /// Every change of the word except begin_search()'s and those of the watch; returns the word before.
  std::uint64_t change(std::uint64_t by) noexcept {
    // [S1] acq_rel, pairs with itself, [S2] and [S3]: changes have one order, and a later one sees what was published
    // before an earlier one
    return word_.fetch_add(by, std::memory_order_acq_rel);
  }

  [[gnu::noinline]] void notify_sleepers(const Work* work) noexcept {
    const std::uint64_t word = change(0);
    if (!has_sleepers(word)) {
      // relaxed: a thread that has announced itself meanwhile is seen asleep
      word_.fetch_and(~watched, std::memory_order_relaxed);
    } else if (searching(word) == 0 && (work != nullptr || has_idle(word))) {
      wake_one(work);
    }
  }

  void push(cell<sleeper*>& first, sleeper& s) noexcept {
    sleeper* const old = first.get();
    s.next.set(old);
    s.previous.set(nullptr);
    if (old != nullptr) old->previous.set(&s);
    first.set(&s);
    s.listed.set(true);
  }
  void unlink(sleeper& s) noexcept {
    if (s.is_unasked()) return s.listed.set(false);
    sleeper* const next = s.next.get();
    sleeper* const previous = s.previous.get();
    (previous != nullptr ? previous->next : s.condition != nullptr ? first_waiting_ : first_idle_).set(next);
    if (next != nullptr) next->previous.set(previous);
    s.listed.set(false);
  }
  void take(sleeper& s, bool to_search) noexcept {
    unlink(s);
    s.searches.set(to_search);
    change(one_change - one_asleep(s) + (to_search ? one_searching : 0));
    wakes_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a figure
  }

  [[gnu::noinline]] void wake_one(const Work* work) noexcept {
    sleeper* chosen = nullptr;
    {
      const std::lock_guard lock(mutex_);
      // relaxed: not older than the change that the caller has made, and a search that began after it sees the work
      if (searching(word_.load(std::memory_order_relaxed)) != 0) return;
      chosen = first_idle_.get();
      const bool is_idle = chosen != nullptr;
      if (!is_idle && work != nullptr) {
        chosen = first_waiting_.get();
        while (chosen != nullptr && !chosen->condition->may_run(*chosen->condition, work)) chosen = chosen->next.get();
      }
      if (chosen == nullptr) return;
      take(*chosen, is_idle);
    }
    ASYNCSTEPS_TRACE_SPAN(wake, "wake", trace_id(chosen));
    chosen->place.unpark();
  }

  [[gnu::noinline]] void wake_ready() noexcept {
    for (;;) {
      sleeper* chosen = nullptr;
      {
        const std::lock_guard lock(mutex_);
        chosen = first_waiting_.get();
        while (chosen != nullptr && !chosen->condition->is_ready(*chosen->condition)) chosen = chosen->next.get();
        if (chosen == nullptr) return;
        take(*chosen, false);
      }
      ASYNCSTEPS_TRACE_SPAN(wake, "wake", trace_id(chosen));
      chosen->place.unpark();
    }
  }

  alignas(no_sharing) atomic<std::uint64_t> word_{watched};  // read by all; written by those that sleep, wake or search
  alignas(no_sharing) Mutex mutex_;                          // guards the lists
  cell<sleeper*> first_idle_{nullptr};                       // the latest to sleep is first: its cache is warmest
  cell<sleeper*> first_waiting_{nullptr};                    // inside a task
  atomic<std::uint64_t> wakes_{0};
};

using sleepers = basic_sleepers<>;

}  // namespace async::inline v0_1::detail
