// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <memory>   // for unique_ptr
#include <vector>   // for vector

#include "async/detail/base/atomics.hpp"  // for atomic, cell
#include "async/detail/base/config.hpp"   // for ASYNCSTEPS_ASSERT

namespace async::inline v0_1::detail {

/// A list of pointers that only grows: written under a lock, read by any thread without one. It does not own the
/// objects.
///
/// Threads     reserve_one() and add(): one at a time. any_of(): any.
/// Progress    any_of() is wait-free.
/// Lifetime    outgrown arrays stay until the end, since a thread may be reading one.
template <class T, std::size_t First = 8>
class published_list {
 public:
  /// Makes room for one more. Throws std::bad_alloc.
  void reserve_one() {
    if (!arrays_.empty() && arrays_.back()->capacity != known_) return;
    arrays_.reserve(arrays_.size() + 1);
    auto wider = std::make_unique<array>(arrays_.empty() ? First : 2 * arrays_.back()->capacity);
    for (std::size_t i = 0; i < known_; ++i) wider->members[i].set(arrays_.back()->members[i].get());
    arrays_.push_back(std::move(wider));
  }
  /// After reserve_one().
  void add(T& one) noexcept {
    array& all = *arrays_.back();
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

 private:
  struct array {
    explicit array(std::size_t most) : capacity(most), members(std::make_unique<cell<T*>[]>(most)) {}
    const std::size_t capacity;
    atomic<std::size_t> size{0};
    const std::unique_ptr<cell<T*>[]> members;
  };

  atomic<const array*> newest_{nullptr};
  std::size_t known_ = 0;
  std::vector<std::unique_ptr<array>> arrays_;
};

}  // namespace async::inline v0_1::detail
