// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <condition_variable>  // for condition_variable
#include <cstdint>             // for uint32_t, uint64_t
#include <mutex>               // for mutex, lock_guard, unique_lock

#include "async/detail/pool/participant.hpp"  // for guest, participant

namespace async::detail {

/// The part in a pool that a thread from outside keeps: from its first task_group or loop there until the thread ends,
/// or until it needs the seat for another pool.
struct seat {
  std::uint64_t pool;  // the pool's number; 0: none
  guest* place;        // valid while the pool exists
  unsigned uses;       // visits on this thread's stack that rely on it
};
inline constinit thread_local seat this_seat{};       // in the pool that the thread visits, or has visited last
inline constinit thread_local seat other_seats[3]{};  // in other pools

/// The part of this thread in the pool that has started it, as a worker or a stand-in; null: no pool has.
inline constinit thread_local participant* this_home = nullptr;

/// The existing pools, by number. A thread that ends asks it, and gives a seat back only while the pool exists.
class pool_registry {
 public:
  struct entry {
    explicit entry(pool_core& p) noexcept : pool(p) {}
    pool_core& pool;
    std::uint64_t number = 0;
    std::uint32_t visitors = 0;  // calls of for_each() that are in it
    entry* next = nullptr;
    entry** link = nullptr;
  };
  static pool_registry& instance() {
    static pool_registry* const immortal = new pool_registry;  // used until the last thread has ended
    return *immortal;
  }
  void add(entry& e) noexcept {
    const std::lock_guard lock(mutex);
    e.number = ++latest;
    e.next = first;
    e.link = &first;
    if (first != nullptr) first->link = &e.next;
    first = &e;
  }
  /// Waits until no for_each() is in the pool.
  void remove(entry& e) noexcept {
    std::unique_lock lock(mutex);
    left.wait(lock, [&e] { return e.visitors == 0; });
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
      if (--done->visitors == 0) left.notify_all();
    }
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
  bool exists(std::uint64_t number) const noexcept {
    for (const entry* e = first; e != nullptr; e = e->next) {
      if (e->number == number) return true;
    }
    return false;
  }

  std::mutex mutex;              // guards the list
  std::condition_variable left;  // a pool has no visitors
  entry* first = nullptr;
  std::uint64_t latest = 0;
};

/// Makes sure that the thread gives its seats back when it ends. False: it is ending, and can keep no seats.
inline bool keep_seats() {
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
  if (has_ended) return false;
  static thread_local keeper at_thread_end;
  static_cast<void>(at_thread_end);
  return true;
}

}  // namespace async::detail
