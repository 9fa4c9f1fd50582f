// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <mutex>    // for mutex, lock_guard

#include "async/detail/base/atomics.hpp"  // for atomic, cell
#include "async/detail/base/config.hpp"   // for no_sharing, ASYNCSTEPS_ASSERT

namespace async::inline v0_1::detail {

/// Unbounded intrusive FIFO under a mutex: loops that wait for any worker. It takes what does not fit into a run queue,
/// and what threads from outside have scheduled.
///
/// Elements    have a member `T* behind`. It belongs to the backlog from push() on, and to the taker from take() on.
/// Count       written under the mutex, read without it: a thread that looks for work pays for the mutex only when
///             there is some. A caller that must not miss an element issues a fence before it asks, as for
///             sleepers.hpp. Then empty() is false while there is an element that was pushed before the pusher's fence.
/// Threads     any. Progress: push and take hold the mutex, for as long as it takes to link the elements.
template <class T, class Mutex = std::mutex>
class backlog {
 public:
  backlog() = default;
  backlog(const backlog&) = delete;
  backlog& operator=(const backlog&) = delete;

  /// Adds `item` as the newest.
  void push(T& item) noexcept { push_all(&item, &item, 1); }

  /// Adds the `count` elements from `first` to `last`, each `behind` the one before, in this order. count != 0.
  void push_all(T* first, T* last, std::size_t count) noexcept {
    last->behind = nullptr;
    const std::lock_guard lock(mutex_);
    T* const newest = last_.get();
    if (newest == nullptr) {
      first_.set(first);
    } else {
      newest->behind = first;
    }
    last_.set(last);
    set_size(size() + count);
  }

  /// Takes the oldest elements, at most `most`, and returns the oldest; each is followed by the one `behind` it, the
  /// last by null. Null: there is none. most != 0.
  T* take(std::size_t most) noexcept {
    ASYNCSTEPS_ASSERT(most != 0);
    if (empty()) return nullptr;
    const std::lock_guard lock(mutex_);
    const std::size_t there = size();
    T* const oldest = first_.get();  // null if others were faster
    if (there <= most) {
      first_.set(nullptr);
      last_.set(nullptr);
      set_size(0);
    } else {
      T* last = oldest;
      for (std::size_t i = 1; i != most; ++i) last = last->behind;
      first_.set(last->behind);
      last->behind = nullptr;
      set_size(there - most);
    }
    return oldest;
  }

  bool empty() const noexcept { return size() == 0; }
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }  // relaxed: ordered by a fence

 private:
  void set_size(std::size_t size) noexcept { size_.store(size, std::memory_order_relaxed); }  // relaxed: as in size()

  alignas(no_sharing) atomic<std::size_t> size_{0};  // written under the mutex, read by all that look for work
  alignas(no_sharing) Mutex mutex_;                  // guards the list
  cell<T*> first_{nullptr};
  cell<T*> last_{nullptr};
};

}  // namespace async::inline v0_1::detail
