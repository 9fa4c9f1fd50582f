// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"  // for atomic, cell
#include "async/detail/base/config.hpp"   // for ASYNCSTEPS_ASSERT

namespace async::inline v0_1::detail {

/// A list of pointers that only grows: written under a lock, read by any thread without one. It does not own the
/// objects.
///
/// Threads     reserve_one() and add(): one at a time. any_of() and for_each(): any.
/// Progress    any_of() and for_each() are wait-free, but for what they call.
/// Lifetime    outgrown arrays stay until the end, since a thread may be reading one.
template <class T, std::size_t First = 8>
class published_list {
 public:
  published_list() noexcept = default;
  published_list(const published_list&) = delete;
  published_list& operator=(const published_list&) = delete;
  ~published_list() {
    while (widest_ != nullptr) delete std::exchange(widest_, widest_->outgrown);
  }

  /// Makes room for one more. Throws std::bad_alloc.
  void reserve_one() {
    if (widest_ != nullptr && widest_->capacity != known_) return;
    array* const wider = new array(widest_ == nullptr ? First : 2 * widest_->capacity, widest_);
    for (std::size_t i = 0; i < known_; ++i) wider->members[i].set(widest_->members[i].get());
    widest_ = wider;
  }
  /// After reserve_one().
  void add(T& one) noexcept {
    array& all = *widest_;
    all.members[known_].set(&one);
    all.size.store(++known_, std::memory_order_release);  // [W23] release, pairs with [W24]: publishes it
    // [W26] release, pairs with [W25]: publishes the array, which is never empty
    newest_.store(&all, std::memory_order_release);
  }

  /// Calls f(T&) for each object until one returns true; tells whether one did. Starts at number `first` modulo their
  /// count.
  template <class F>
  bool any_of(std::size_t first, F f) const {
    const array* const all = newest_.load(std::memory_order_acquire);  // [W25] acquire, pairs with [W26]
    if (all == nullptr) return false;
    const std::size_t size = all->size.load(std::memory_order_acquire);  // [W24] acquire, pairs with [W23]
    ASYNCSTEPS_ASSERT(size != 0);
    std::size_t at = first % size;
    for (std::size_t i = 0; i < size; ++i, at = at + 1 == size ? 0 : at + 1) {
      if (f(*all->members[at].get())) return true;
    }
    return false;
  }
  /// Calls f(T&) for each object.
  template <class F>
  void for_each(F f) const {
    any_of(0, [&f](T& one) {
      f(one);
      return false;
    });
  }

 private:
  struct array {
    array(std::size_t most, array* older) : capacity(most), members(new cell<T*>[most]), outgrown(older) {}
    array(const array&) = delete;
    array& operator=(const array&) = delete;
    ~array() { delete[] members; }

    const std::size_t capacity;
    atomic<std::size_t> size{0};
    cell<T*>* const members;
    array* const outgrown;  // the one before
  };

  atomic<const array*> newest_{nullptr};
  std::size_t known_ = 0;
  array* widest_ = nullptr;  // owned, with those before it
};

}  // namespace async::inline v0_1::detail
