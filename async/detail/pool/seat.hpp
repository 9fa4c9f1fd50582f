// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t
#include <mutex>    // for mutex, lock_guard

#include "async/detail/pool/participant.hpp"  // for guest, participant

namespace async::detail {

/// Where a thread outside a pool sits that forks and joins in it: from its first task_group or loop there until it
/// ends, or until it does so in another pool.
struct seat {
  std::uint64_t pool;  // the pool's number; 0: none
  guest* place;        // valid as long as the pool
  unsigned uses;       // calls on this thread that rely on it
};
inline constinit thread_local seat this_seat{};       // the current one
inline constinit thread_local seat other_seats[3]{};  // those in other pools

/// The part of a thread in the pool that has started it, as a worker or a stand-in; null: none has.
inline constinit thread_local participant* this_home = nullptr;

/// The pools that exist, by number, so that a thread that ends gives a seat back only if there is still a pool.
class pool_registry {
 public:
  struct entry {
    std::uint64_t number = 0;
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
  void remove(entry& e) noexcept {
    const std::lock_guard lock(mutex);
    *e.link = e.next;
    if (e.next != nullptr) e.next->link = e.link;
  }
  /// Frees the seat unless it is needed: somebody relies on it, or tasks lie there. True: the thread sits nowhere.
  bool vacate(seat& s) noexcept {
    const std::lock_guard lock(mutex);
    if (exists(s.pool)) {
      if (s.uses != 0 || !s.place->own.empty()) return false;
      s.place->leave();
    }
    s = {};
    return true;
  }
  /// The thread ends. Other threads take the jobs left there.
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

  std::mutex mutex;  // guards the list
  entry* first = nullptr;
  std::uint64_t latest = 0;
};

/// Gives the thread's seats back when the thread ends. False: it does, and has no seats any more.
inline bool keep_seats() {
  static constinit thread_local bool has_ended = false;
  struct keeper {
    ~keeper() {
      has_ended = true;
      if (this_seat.uses == 0) leave(this_seat);  // else a destructor of this thread's waits in there
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
