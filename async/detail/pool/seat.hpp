// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>   // for atomic
#include <cstdint>  // for uint32_t, uint64_t
#include <mutex>    // for lock_guard, unique_lock
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_SHARED
#include "async/detail/base/forks.hpp"           // for fork_member, forks, hold_at_fork
#include "async/detail/base/immortal.hpp"        // for immortal, static_mutex
#include "async/detail/base/platform.hpp"        // for keep_until_thread_end, wait_on_word, wake_all, wake_table
#include "async/detail/base/would_deadlock.hpp"  // for throw_would_deadlock, unknown_here, cannot_wake
#include "async/detail/loop/loop_core.hpp"       // for loop_core
#include "async/detail/pool/foreign_pools.hpp"   // for pools_of_others
#include "async/detail/pool/participant.hpp"     // for guest, participant
#include "async/detail/pool/pool_worker.hpp"     // for this_pool, pool_around

namespace async::inline v0_1::detail {

/// The part in a pool that a thread from outside keeps: from its first task_group or loop there until the thread ends,
/// or until it needs the seat for another pool.
struct seat {
  std::uint64_t pool;  // the pool's number; 0: none
  guest* place;        // valid while the pool exists
  unsigned uses;       // visits on this thread's stack that rely on it
};
/// In the pool that the thread visits, or in one that it has visited.
ASYNCSTEPS_SHARED inline constinit thread_local seat this_seat{};
/// In other pools.
ASYNCSTEPS_SHARED inline constinit thread_local seat other_seats[3]{};

/// The part of this thread in the pool that has started it, as a worker, a stand-in or a lookout; null: no pool has.
ASYNCSTEPS_SHARED inline constinit thread_local participant* this_home = nullptr;

/// The pool whose task this thread runs, as the module knows that compiled this function; null: none.
inline const pool_core* current_pool() noexcept { return this_pool; }

/// The existing pools, by number. A thread that ends asks it, and gives a seat back only while the pool exists.
///
/// In a child of fork() all pools are left behind, and the registry keeps them in a list of their own.
class pool_registry : fork_member {
 public:
  struct entry {
    entry(pool_core& p, void (*f)(pool_core&) noexcept) noexcept : pool(p), leave_behind(f) {}
    /// Throws where the calling thread runs a task of the pool.
    void refuse_inside_a_task(const char* what) const {
      if (is_around()) throw_would_deadlock(what);
      refuse_if_unknown_here();
    }
    /// Whether the calling thread runs a task of the pool, which may have led it into other pools.
    bool is_around() const noexcept {
      const auto is_used = [this](const seat& s) noexcept { return s.uses != 0 && s.pool == number; };
      bool is_here = this_pool == &pool || is_used(this_seat) || pool_around::is_any(number);
      is_here = is_here || (this_home != nullptr && &this_home->pool == &pool);
      for (const seat& s : other_seats) is_here = is_here || is_used(s);
      return is_here && !instance().has_left_behind(&pool);
    }
    /// Whether a task of the pool has led the calling thread into another pool. Callbacks belong to no task.
    bool has_led_away() const noexcept {
      return this_pool != nullptr && detail::current_loop == nullptr && is_around();
    }
    /// Throws where it does, but only the module knows that has made the pool, and that shares nothing with this one.
    void refuse_if_unknown_here() const {
      if (this_pool != &pool && current() == &pool) throw_would_deadlock(unknown_here);
    }
    /// Throws where this module cannot wake the pool's threads: no system call wakes, and the modules share nothing.
    void refuse_if_unwakeable() const {
      if constexpr (platform::wakes_only_own_module) {
        if (wake_table != platform::wake_table()) throw_would_deadlock(cannot_wake);
      }
    }
    /// To be called before this module hands in a call, for which threads may wait.
    void note_if_foreign() const noexcept {
      if (globals != &forks) [[unlikely]]
        pools_of_others.value.note(&pool, current);
    }
    pool_core& pool;
    const void* const globals = &forks;                            // of the module that has made the pool
    const void* const wake_table = platform::wake_table();         // likewise
    const pool_core* (*const current)() noexcept = &current_pool;  // as that module knows it
    const loop_core::view current_loop = &loop_core::current;      // likewise
    void (*const leave_behind)(pool_core&) noexcept;
    std::uint64_t number = 0;    // no pool of another module has it, which may have a registry of its own
    std::uint32_t visitors = 0;  // calls of for_each() that are in it
    entry* next = nullptr;
    entry** link = nullptr;
  };
  constexpr pool_registry() noexcept : fork_member(&forked) {}
  static pool_registry& instance() noexcept;

  void add(entry& e) noexcept {
    const std::lock_guard lock(mutex);
    e.number = (std::uint64_t{reinterpret_cast<std::uintptr_t>(this)} << 16) + ++latest;
    e.next = first;
    e.link = &first;
    if (first != nullptr) first->link = &e.next;
    first = &e;
  }
  /// Waits until no for_each() is in the pool.
  void remove(entry& e) noexcept {
    std::unique_lock lock(mutex);
    while (e.visitors != 0) {
      const std::uint32_t seen = left.load(std::memory_order_relaxed);  // relaxed, as below: written under the mutex
      lock.unlock();
      wait_on_word(left, seen);
      lock.lock();
    }
    *e.link = e.next;
    if (e.next != nullptr) e.next->link = e.link;
  }
  /// Calls f(pool_core&) for each pool that existed before the call. f must not destroy a pool.
  template <class F>
  void for_each(F f) noexcept {
    std::unique_lock lock(mutex);
    for (entry* e = first; e != nullptr;) {
      ++e->visitors;
      lock.unlock();
      f(e->pool);
      lock.lock();
      entry* const done = e;
      e = e->next;
      if (--done->visitors != 0) continue;
      left.store(left.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      wake_all(left);
    }
  }
  /// In a child of fork(), for a pool that may have gone: whether it is one of an ancestor, whose memory stays.
  bool has_left_behind(const pool_core* pool) const noexcept {
    for (const entry* e = left_behind; e != nullptr; e = e->next) {
      if (&e->pool == pool) return true;
    }
    return false;
  }
  /// Forgets the seat if its pool has gone. True: it is free.
  bool forget_if_gone(seat& s) noexcept {
    const std::lock_guard lock(mutex);
    if (s.pool != 0 && exists(s.pool)) return false;
    s = {};
    return true;
  }
  /// Frees the seat, unless a visit relies on it or jobs lie in its deque. True: it is free.
  bool vacate(seat& s) noexcept {
    const std::lock_guard lock(mutex);
    if (exists(s.pool)) {
      if (s.uses != 0 || !s.place->own.empty()) return false;
      s.place->leave();
    }
    s = {};
    return true;
  }
  /// Gives the seat back when the thread ends. Other threads steal the jobs that are left.
  void end(const seat& s) noexcept {
    const std::lock_guard lock(mutex);
    if (exists(s.pool)) s.place->leave();
  }

 private:
  static bool forked(fork_member& member, fork_stage at) noexcept {
    auto& self = static_cast<pool_registry&>(member);
    if (at == fork_stage::in_child) {
      entry** end = &self.first;
      for (; *end != nullptr; end = &(*end)->next) (*end)->leave_behind((*end)->pool);
      *end = self.left_behind;
      self.left_behind = std::exchange(self.first, nullptr);
      // `latest` stays, so that no seat of this thread is taken for one in a new pool
    }
    return hold_at_fork(self.mutex, at);
  }
  bool exists(std::uint64_t number) const noexcept {
    for (const entry* e = first; e != nullptr; e = e->next) {
      if (e->number == number) return true;
    }
    return false;
  }

  static_mutex mutex;                  // guards the list
  std::atomic<std::uint32_t> left{0};  // changes when a pool has no visitors
  entry* first = nullptr;
  entry* left_behind = nullptr;  // changes while a child has one thread
  std::uint64_t latest = 0;
};
ASYNCSTEPS_SHARED inline constinit immortal<pool_registry> all_pools;
inline pool_registry& pool_registry::instance() noexcept {
  forks.value.join(all_pools.value);
  return all_pools.value;
}

/// Makes sure that the thread gives its seats back when it ends. False: it is ending, or has no memory for that, and
/// can keep no seats.
ASYNCSTEPS_SHARED inline bool keep_seats() noexcept {
  static constinit thread_local bool has_ended = false;
  struct keeper {
    ~keeper() {
      has_ended = true;
      if (this_seat.uses == 0) leave(this_seat);  // else a destructor of a thread-local waits in this pool
      for (seat& s : other_seats) leave(s);
    }
    static void leave(seat& s) noexcept {
      if (s.pool != 0) pool_registry::instance().end(s);
      s = {};
    }
  };
  static constinit thread_local bool is_kept = false;
  if (!is_kept) is_kept = platform::keep_until_thread_end<keeper>();
  return is_kept && !has_ended;
}

}  // namespace async::inline v0_1::detail
