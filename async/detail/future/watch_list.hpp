// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <mutex>    // for lock_guard
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"    // for atomic, cell, light_fence, heavy_fence
#include "async/detail/base/spin_lock.hpp"  // for spin_lock

namespace async::inline v0_1::detail {

/// Is notified when a shared state is ready: notify(watcher) is called once, by the thread that has made it ready,
/// unless the watcher has been removed before. It must not move until then.
struct future_watcher {
  explicit future_watcher(void (*f)(future_watcher&) noexcept, const void* thread = nullptr) noexcept
      : notify(f), stack_of(thread) {}

  void (*const notify)(future_watcher&) noexcept;
  const void* const stack_of;        // what stands for the thread on whose stack it lies; null: on none
  cell<const void*> state{nullptr};  // all guarded by the list's lock
  cell<future_watcher*> before{nullptr};
  cell<future_watcher*> next{nullptr};
  cell<bool> is_listed{false};
};

/// The watchers of a part of all shared states.
///
/// Threads     any.
/// Progress    tell() is wait-free while there are no watchers; all other calls take a short lock.
class watch_list {
 public:
  /// After this the caller looks at the future: either it is ready, or the watcher will be notified.
  void add(future_watcher& w, const void* state) noexcept {
    {
      const std::lock_guard here(lock_);
      future_watcher* const next = first_.load(std::memory_order_relaxed);  // relaxed, as in link(): see tell()
      w.state.set(state);
      w.is_listed.set(true);
      link(nullptr, &w);
      link(&w, next);
    }
    heavy_fence();  // pairs with the light fence of tell()
  }

  /// True: the watcher was in the list, and will not be notified.
  bool remove(future_watcher& w) noexcept {
    const std::lock_guard here(lock_);
    if (!w.is_listed.get()) return false;
    take(w);
    return true;
  }

  // --- fork(): by the thread that forks ---

  /// Takes the lock if there are watchers. Otherwise the list is empty and stays so until hold() is followed by
  /// begin_child() or another thread adds a watcher. True: release() follows in the parent.
  bool hold() noexcept {
    if (first_.load(std::memory_order_relaxed) == nullptr) return false;  // relaxed: none of this thread's
    lock_.lock();
    return true;
  }
  void release() noexcept { lock_.unlock(); }
  /// In the child: removes the watchers on the stacks of other threads, which are used anew. Those of this thread, and
  /// those elsewhere, stay. Without hold(), a thread that is gone may have been adding the first one.
  void begin_child(bool is_held, const void* this_thread) noexcept {
    if (!is_held) {
      if (lock_.is_held() || first_.load(std::memory_order_relaxed) != nullptr) {
        first_.store(nullptr, std::memory_order_relaxed);
        lock_.unlock();
      }
      return;
    }
    for (future_watcher* w = first_.load(std::memory_order_relaxed); w != nullptr;) {
      future_watcher& each = *std::exchange(w, w->next.get());
      if (each.stack_of != nullptr && each.stack_of != this_thread) take(each);
    }
    lock_.unlock();
  }

  /// Notifies the watchers of a state that is ready.
  void tell(const void* state) noexcept {
    light_fence();  // between the future and the list: pairs with add()'s heavy fence
    // relaxed: only whether there are watchers; the lock orders the rest
    if (first_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      tell_watchers(state);
  }

 private:
  [[gnu::noinline]] void tell_watchers(const void* state) noexcept {
    future_watcher* found = nullptr;
    {
      const std::lock_guard here(lock_);
      for (future_watcher* w = first_.load(std::memory_order_relaxed); w != nullptr;) {
        future_watcher& candidate = *w;
        w = candidate.next.get();
        if (candidate.state.get() != state) continue;
        take(candidate);
        candidate.next.set(found);
        found = &candidate;
      }
    }
    while (found != nullptr) {
      future_watcher& w = *found;
      found = w.next.get();
      w.notify(w);
    }
  }
  void take(future_watcher& w) noexcept {
    w.is_listed.set(false);
    link(w.before.get(), w.next.get());
  }
  void link(future_watcher* before, future_watcher* next) noexcept {
    before != nullptr ? before->next.set(next) : first_.store(next, std::memory_order_relaxed);
    if (next != nullptr) next->before.set(before);
  }

  spin_lock lock_;
  atomic<future_watcher*> first_{nullptr};
};

}  // namespace async::inline v0_1::detail
