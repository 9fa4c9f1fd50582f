// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>   // for atomic
#include <cstdio>   // for fputs
#include <cstdlib>  // for abort
#include <mutex>    // for lock_guard
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"    // for ASYNCSTEPS_SHARED
#include "async/detail/base/immortal.hpp"  // for immortal, static_mutex
#include "async/detail/base/platform.hpp"  // for call_at_fork, forget_wait_buckets

/// The effects of a fork() on the library.
///
/// The child has one thread, a copy of the one that has called fork(). All other threads are gone, at any instruction:
/// a mutex that one of them held stays locked, and a list that one was changing stays half changed. So an object that
/// the child may use is in the list of fork_members, and handlers that pthread_atfork() registers tell it. An object
/// has one of two answers:
/// - held: the thread that forks takes the object's mutex before, and releases it after, in the parent and in the
///   child. So no other thread is inside. For objects that the child goes on with.
/// - left behind: the child forgets the object, and its memory stays as it is. For what needs the parent's threads.
///
/// Every global of the library, and why it is right in the child:
///
/// - `forks` (the list, and the mutex of objects made at first use), `all_magazines`, `all_large_blocks` and
///   `scopes::all_free` (recycled memory): held.
/// - `all_pools`: held. Then each pool is left behind, and in the list of those.
/// - each blocking_crew, each steps::AsyncTool with a thread, each bus of steps/interop/nats.hpp: left behind.
/// - the shared pools, foreign_futures (process_object): the pointer becomes null, and the object is made anew.
/// - `wait_buckets`, of systems without a call to sleep on a word: likewise.
/// - `all_watched_futures`: locks that are in use are held; watchers on the stacks of other threads are unlinked.
/// - `tracing`, `cancel_epoch::now`, `habit_of`, `reduce_habit_of`, `heavy_fence_is_remote`, `fence_state`,
///   `known_cpus`, `pools_of_others`, `forked::is_inside`: atomics that are right at any instruction. The kernel copies
///   the registration of membarrier.
/// - `slabs_are_off`: written before there are threads.
/// - `posted_task`, `posted_by_flow`, `loop_waits`: only compared by address.
/// - thread-locals: of the thread that forks, which is in none of the functions that change them. leave_behind() of a
///   pool clears those that name the pool.
///
/// No global has a guard: a thread that is inside one when another forks would block the child. Thread-local keepers
/// have guards, which are their threads' own.
///
/// vfork() and posix_spawn() run no handlers and need none. _Fork() and clone() run none: after them a child may only
/// exec.
namespace async::inline v0_1::detail {

enum class fork_stage { before, in_parent, in_child };

/// An object that the handlers of fork() call. In the list until leave(), or until it answers false.
struct fork_member {
  /// By the thread that forks; it has the mutex of the list. Must not allocate. The answer counts in the child: whether
  /// the object stays in the list.
  using function = bool (*)(fork_member& self, fork_stage at) noexcept;

  constexpr explicit fork_member(function f) noexcept : at_fork(f) {}
  fork_member(const fork_member&) = delete;
  fork_member& operator=(const fork_member&) = delete;

  const function at_fork;
  std::atomic<bool> is_listed{false};  // written under the mutex of the list
  fork_member* next = nullptr;         // guarded by it
};

/// The list of fork_members. For a thread that holds the mutex of a member, both mutexes are out of bounds.
///
/// Threads     any.
/// Progress    takes a mutex, except join() of a member.
class fork_list {
 public:
  constexpr fork_list() noexcept = default;
  fork_list(const fork_list&) = delete;
  fork_list& operator=(const fork_list&) = delete;

  /// Adds a member, once. To be called before the member is in a state that a child must not find.
  void join(fork_member& m) noexcept {
    // [FK1] acquire, pairs with [FK2]: the member is in the list; not modelled: a flag
    if (m.is_listed.load(std::memory_order_acquire)) [[likely]]
      return;
    add(m);
  }
  void leave(fork_member& m) noexcept {
    const std::lock_guard lock(mutex_);
    for (fork_member** at = &first_; *at != nullptr; at = &(*at)->next) {
      if (*at != &m) continue;
      *at = m.next;
      return;
    }
  }

  /// Guards the making of objects at first use. Taken before the mutexes of members.
  static_mutex making;

  /// Registers the handlers of the process. To be called before main(), while there is one thread.
  static bool engage() noexcept;

  /// The number of fork()s between the first process and this one. What a thread has noted earlier differs if it was
  /// in the parent.
  unsigned generation() const noexcept { return generation_.load(std::memory_order_relaxed); }  // relaxed: see after()
  /// In a process without ancestors that have used the library nothing is left behind.
  bool is_child() const noexcept { return generation() != 0; }

 private:
  void add(fork_member& m) noexcept;

  void before() noexcept {
    making.lock();
    mutex_.lock();
    for (fork_member* m = first_; m != nullptr; m = m->next) m->at_fork(*m, fork_stage::before);
  }
  void after(fork_stage at) noexcept {
    // relaxed: the child has one thread
    if (at == fork_stage::in_child) generation_.store(generation() + 1, std::memory_order_relaxed);
    for (fork_member** link = &first_; *link != nullptr;) {
      fork_member& m = **link;
      if (m.at_fork(m, at) || at == fork_stage::in_parent) {
        link = &m.next;
      } else {
        *link = m.next;
      }
    }
    mutex_.unlock();
    making.unlock();
  }

  static_mutex mutex_;  // guards the list
  fork_member* first_ = nullptr;
  std::atomic<bool> is_engaged_{false};  // by one of the modules that share the list
  std::atomic<unsigned> generation_{0};
};
ASYNCSTEPS_SHARED inline constinit immortal<fork_list> forks;

/// For a member that is held: takes its mutex before the fork, and releases it after.
template <class Mutex>
bool hold_at_fork(Mutex& mutex, fork_stage at) noexcept {
  at == fork_stage::before ? mutex.lock() : mutex.unlock();
  return true;
}

/// A member with a mutex that the forking thread holds meanwhile, so that the child finds what the mutex guards whole.
struct guarded_member : fork_member {
  constexpr guarded_member() noexcept
      : fork_member([](fork_member& self, fork_stage at) noexcept {
          return hold_at_fork(static_cast<guarded_member&>(self).mutex, at);
        }) {}
  static_mutex mutex;
};

/// An object of the process that is made at first use and never destroyed. A child of fork() makes its own.
///
///   inline constinit process_object<T> name;
///
/// Threads     any.
/// Progress    wait-free, except the first call, which takes a mutex.
template <class T>
class process_object : fork_member {
 public:
  constexpr process_object() noexcept : fork_member(&forget) {}

  /// The object; made by `new T`, after which made(T&) is called, under a mutex that no thread holds during a fork().
  /// Throws what these throw; then there is no object yet.
  template <class Made>
  T& get(Made made) {
    T* const known = made_.load(std::memory_order_acquire);  // [FK3] acquire, pairs with [FK4]; not modelled: a pointer
    return known != nullptr ? *known : make(made);
  }
  T& get() {
    return get([](T&) noexcept {});
  }
  /// Null: there is none.
  T* find() const noexcept { return made_.load(std::memory_order_acquire); }  // [FK3]

 private:
  template <class Made>
  [[gnu::noinline]] T& make(Made& made) {
    forks.value.join(*this);
    const std::lock_guard lock(forks.value.making);
    T* known = made_.load(std::memory_order_relaxed);  // relaxed: written under the mutex
    if (known != nullptr) return *known;
    known = new T;
    made(*known);
    // [FK4] release, pairs with [FK3]: the object; not modelled: see there
    made_.store(known, std::memory_order_release);
    return *known;
  }
  static bool forget(fork_member& self, fork_stage at) noexcept {
    // relaxed: the child has one thread
    if (at == fork_stage::in_child) static_cast<process_object&>(self).made_.store(nullptr, std::memory_order_relaxed);
    return true;
  }

  std::atomic<T*> made_{nullptr};
};

/// In a child of fork(): a function that a thread of the parent's pool has called forked and has returned. There is no
/// pool to return to.
[[noreturn, gnu::noinline, gnu::cold]] inline void end_forked_child() noexcept {
  std::fputs(
      "async: a task, callback, step or hook that called fork() has returned in the child process, which has none of "
      "the pool's threads: end the child inside it, by exec, _exit() or exit()\n",
      stderr);
  std::abort();
}

namespace forked {

ASYNCSTEPS_SHARED inline constinit std::atomic<bool> is_inside{false};        // in a child that was made inside a pool
ASYNCSTEPS_SHARED inline constinit thread_local bool is_this_thread = false;  // which this thread has made

/// By the child's handlers, inside a pool.
inline void note() noexcept {
  is_inside.store(true, std::memory_order_relaxed);  // relaxed: there is one thread
  is_this_thread = true;
}

/// The flag of loops that stay unusable in a child of fork().
inline constinit const std::atomic<bool> always{true};  // one per module: they are alike

}  // namespace forked

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION bool fork_list::engage() noexcept {
  if (forks.value.is_engaged_.exchange(true, std::memory_order_relaxed)) return true;  // relaxed: only once
  platform::call_at_fork([] { forks.value.before(); }, [] { forks.value.after(fork_stage::in_parent); },
                         [] {
                           platform::forget_wait_buckets();
                           forks.value.after(fork_stage::in_child);
                         });
  return true;
}

namespace platform {
/// Before main(), where no thread is in fork(). A pool that another static object makes earlier does it itself.
inline const bool forks_engaged_early = fork_list::engage();
}  // namespace platform

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void fork_list::add(fork_member& m) noexcept {
  engage();
  const std::lock_guard lock(mutex_);
  if (m.is_listed.load(std::memory_order_relaxed)) return;  // relaxed: written under the mutex
  m.next = std::exchange(first_, &m);
  m.is_listed.store(true, std::memory_order_release);  // [FK2] release, pairs with [FK1]; not modelled: see there
}
#endif

}  // namespace async::inline v0_1::detail
