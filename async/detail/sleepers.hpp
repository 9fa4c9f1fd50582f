// SPDX-License-Identifier: BSL-1.0
// floor: 4
#pragma once
#include <cstdint>  // for uint64_t
#include <mutex>    // for lock_guard

#include "async/detail/atomics.hpp"  // for atomic, light_fence, heavy_fence
#include "async/detail/config.hpp"   // for no_sharing
#include "async/detail/parker.hpp"   // for parker

namespace async::detail {

/// Who sleeps and who searches: decides whether new work needs a wake-up and gives it to exactly one thread.
///
/// One word counts the threads asleep and the threads searching for work.
///   producer   publishes the work; light fence; looks at the word. Nobody asleep, or somebody searching: done. Else it
///              takes one sleeper off the list, counts it as searching and unparks it.
///   searcher   looks at every source. Finding work, it ends its search; the last one to do so wakes another, so that a
///              burst wakes threads in a chain. Finding none, it announces its sleep, heavy fence, looks at every
///              source once more, and only then parks; if that look finds work, it is a searcher again.
/// Why no wake-up is lost: the fences order the producer's (publish, look at the word) with the sleeper's (change the
/// word, look at the sources). If the producer does not see the sleeper's announcement, the sleeper's last look sees
/// the work. If it does see it, either it wakes a thread, or there is a searcher, who ends its search with such a look,
/// or by finding work, and then wakes another. A thread taken off the list is searching, so it looks again, too.
///
/// Threads     all members by any thread; a sleeper belongs to one thread at a time.
/// Progress    notify() is wait-free while nobody sleeps or somebody searches; everything else takes a short mutex and,
///             to wake, one system call.
class sleepers {
 public:
  /// What a thread sleeps in. Lives on its stack or in its worker.
  struct sleeper {
    parker place;
    sleeper* next = nullptr;       // guarded by the mutex
    sleeper* previous = nullptr;   // guarded by the mutex
    bool listed = false;           // guarded by the mutex
    bool searches = false;         // set by the waker: counted as searching
    bool waits_for_event = false;  // sleeps inside a task, for an event that the end of another task may bring
  };

  /// After work was published: sees to it that somebody will look for it.
  void notify() noexcept {
    light_fence();                                                     // pairs with announce()'s heavy fence
    const std::uint64_t word = word_.load(std::memory_order_relaxed);  // relaxed: ordered by the fence
    if (asleep(word) != 0 && searching(word) == 0) wake_one();
  }

  /// After a task has ended: wakes the threads that wait for an event inside a task, to look at it.
  void notify_event() noexcept {
    light_fence();  // pairs with announce()'s heavy fence
    if (event_waiters_.load(std::memory_order_relaxed) != 0) wake_event_waiters();  // relaxed: ordered by the fence
  }

  /// Counts the caller as searching, unless `limit` threads already are.
  bool begin_search(std::uint64_t limit) noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);  // relaxed: only a count
    while (searching(word) < limit) {
      // [S1] seq_cst, pairs with [S2]: one order of all changes of the word
      if (word_.compare_exchange_weak(word, word + one_searching, std::memory_order_seq_cst,
                                      std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  /// The search found work. The last searcher passes the baton, since there may be more.
  void found_work() noexcept {
    // [S2] seq_cst, pairs with [S1], [S3], [S4] and [S5]
    const std::uint64_t before = word_.fetch_sub(one_searching, std::memory_order_seq_cst);
    if (searching(before) == 1 && asleep(before) != 0) wake_one();
  }

  /// Announces sleep; a searching caller stops searching with it. The caller then looks at every source once more and
  /// calls cancel() or parks in `s`.
  void announce(sleeper& s, bool was_searching) noexcept {
    {
      const std::lock_guard lock(mutex_);
      link(s);
      // [S3] seq_cst, pairs with [S2]
      word_.fetch_add(one_asleep - (was_searching ? one_searching : 0), std::memory_order_seq_cst);
    }
    heavy_fence();  // pairs with the light fences of notify() and notify_event()
  }

  /// Takes the announcement back, or, when a waker was faster, takes the permit that it gives. True: the caller is
  /// counted as searching, so that it passes the baton on when it finds work: a producer may have relied on the search
  /// that ended with the announcement. False: it was woken for something else, and is neither asleep nor searching.
  bool cancel(sleeper& s) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (s.listed) {
        unlink(s);
        // [S4] seq_cst, pairs with [S2]: one order of all changes of the word
        word_.fetch_sub(one_asleep - one_searching, std::memory_order_seq_cst);
        return true;
      }
    }
    s.place.park();
    return s.searches;
  }

  /// Sleeps until woken. The result is cancel()'s.
  bool park(sleeper& s) noexcept {
    s.place.park();
    return s.searches;
  }
  bool park_until(sleeper& s, wait_clock::time_point deadline) noexcept {
    return s.place.park_until(deadline) ? s.searches : cancel(s);
  }

  /// Wakes this one, if it is asleep, without making it search: it has been told something else.
  void wake(sleeper& s) noexcept {
    bool woken = false;
    {
      const std::lock_guard lock(mutex_);
      woken = s.listed;
      if (woken) take(s, false);
    }
    if (woken) s.place.unpark();
  }

  /// How many threads without a task are asleep at this moment.
  std::size_t idle() const noexcept {
    const std::lock_guard lock(mutex_);
    return listed_idle_;
  }
  std::uint64_t wakes() const noexcept { return wakes_.load(std::memory_order_relaxed); }  // relaxed: a count

 private:
  static constexpr std::uint64_t one_searching = 1;
  static constexpr std::uint64_t one_asleep = std::uint64_t{1} << 32;
  static constexpr std::uint64_t searching(std::uint64_t word) noexcept { return word % one_asleep; }
  static constexpr std::uint64_t asleep(std::uint64_t word) noexcept { return word / one_asleep; }

  void link(sleeper& s) noexcept {
    s.next = first_;
    s.previous = nullptr;
    if (first_ != nullptr) first_->previous = &s;
    first_ = &s;
    s.listed = true;
    if (s.waits_for_event) {
      event_waiters_.fetch_add(1, std::memory_order_relaxed);  // relaxed: ordered by the fence that follows
    } else {
      ++listed_idle_;
    }
  }
  void unlink(sleeper& s) noexcept {
    (s.previous != nullptr ? s.previous->next : first_) = s.next;
    if (s.next != nullptr) s.next->previous = s.previous;
    s.listed = false;
    if (s.waits_for_event) {
      event_waiters_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: who still sees it finds it unlisted
    } else {
      --listed_idle_;
    }
  }
  void take(sleeper& s, bool to_search) noexcept {
    unlink(s);
    s.searches = to_search;
    // [S5] seq_cst, pairs with [S2]: one order of all changes of the word
    word_.fetch_sub(one_asleep - (to_search ? one_searching : 0), std::memory_order_seq_cst);
    wakes_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a count
  }

  [[gnu::noinline]] void wake_one() noexcept {
    sleeper* chosen = nullptr;
    {
      const std::lock_guard lock(mutex_);
      // relaxed: under the mutex nobody else takes a sleeper, and a search that begins makes the wake-up needless
      if (first_ == nullptr || searching(word_.load(std::memory_order_relaxed)) != 0) return;
      chosen = first_;
      take(*chosen, true);
    }
    chosen->place.unpark();
  }

  [[gnu::noinline]] void wake_event_waiters() noexcept {
    for (;;) {
      sleeper* chosen = nullptr;
      {
        const std::lock_guard lock(mutex_);
        chosen = first_;
        while (chosen != nullptr && !chosen->waits_for_event) chosen = chosen->next;
        if (chosen == nullptr) return;
        take(*chosen, false);
      }
      chosen->place.unpark();
    }
  }

  alignas(no_sharing) atomic<std::uint64_t> word_{0};  // [ asleep:32 | searching:32 ]
  atomic<std::uint32_t> event_waiters_{0};             // sleepers that wait for an event; written under the mutex
  alignas(no_sharing) mutable std::mutex mutex_;       // guards the list
  sleeper* first_ = nullptr;                           // latest to sleep first: its cache is warmest
  std::size_t listed_idle_ = 0;
  atomic<std::uint64_t> wakes_{0};
};

}  // namespace async::detail
