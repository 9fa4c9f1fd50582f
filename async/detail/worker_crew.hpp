// SPDX-License-Identifier: BSL-1.0
// floor: 6
#pragma once
#include <cstddef>  // for size_t
#include <memory>   // for unique_ptr
#include <vector>   // for vector

#include "async/detail/pool_worker.hpp"  // for worker
#include "async/threadpool_options.hpp"  // for threadpool_stats

namespace async::detail {

/// All workers that a pool ever had, with or without a thread, for thieves to visit.
///
/// Threads     steal, has_work and for_each by any thread; vacant under the pool's mutex.
/// Lifetime    workers and outgrown lists stay until the end, since a thief may be reading one.
class worker_crew {
 public:
  worker_crew() = default;
  worker_crew(const worker_crew&) = delete;
  worker_crew& operator=(const worker_crew&) = delete;

  /// A worker without a thread, to be number `index`. Throws std::bad_alloc.
  worker& vacant(pool_core& pool, std::size_t index) {
    for (const std::unique_ptr<worker>& w : workers_) {
      if (w->vacant) {
        w->vacant = false;
        w->index = index;
        return *w;
      }
    }
    workers_.reserve(workers_.size() + 1);
    auto fresh = std::make_unique<worker>(pool, index);
    if (lists_.empty() || lists_.back()->capacity == workers_.size()) grow();
    list& all = *lists_.back();
    all.members[workers_.size()] = fresh.get();
    workers_.push_back(std::move(fresh));
    all.size.store(workers_.size(),
                   std::memory_order_release);  // [W23] release, pairs with [W24]: publishes the worker
    return *workers_.back();
  }

  /// Calls f(worker&) for each until one returns true; tells whether one did. Starts at number `first` modulo their
  /// count.
  template <class F>
  bool any_of(std::size_t first, F f) const {
    const list* const all = list_.load(std::memory_order_acquire);  // [W25] acquire, pairs with [W26]
    if (all == nullptr) return false;
    const std::size_t size = all->size.load(std::memory_order_acquire);  // [W24] acquire, pairs with [W23]
    if (size == 0) return false;
    std::size_t at = first % size;
    for (std::size_t i = 0; i < size; ++i, at = at + 1 == size ? 0 : at + 1) {
      if (f(*all->members[at])) return true;
    }
    return false;
  }

  /// The oldest job of some other worker, or null. `thief` null: a thread from outside.
  job* steal(worker* thief) const noexcept {
    job* stolen = nullptr;
    any_of(thief == nullptr ? 0 : thief->next_random(), [thief, &stolen](worker& victim) noexcept {
      if (&victim == thief || victim.own.empty()) return false;
      stolen = victim.own.steal();
      return stolen != nullptr;
    });
    if (stolen != nullptr && thief != nullptr) worker::count(thief->steals);
    return stolen;
  }

  /// Adds up the workers' counters.
  void count(threadpool_stats& all) const noexcept {
    any_of(0, [&all](const worker& w) noexcept {
      all.tasks += w.ran.load(std::memory_order_relaxed);  // relaxed, all: each is a figure of its own
      all.steals += w.steals.load(std::memory_order_relaxed);
      all.parks += w.parks.load(std::memory_order_relaxed);
      return false;
    });
  }

  bool has_work() const noexcept {
    return any_of(0, [](worker& w) noexcept { return !w.own.empty(); });
  }

 private:
  struct list {
    explicit list(std::size_t most) : capacity(most), members(std::make_unique<worker*[]>(most)) {}
    const std::size_t capacity;
    atomic<std::size_t> size{0};
    const std::unique_ptr<worker*[]> members;
  };

  void grow() {
    auto wider = std::make_unique<list>(lists_.empty() ? 8 : 2 * lists_.back()->capacity);
    for (std::size_t i = 0; i < workers_.size(); ++i) wider->members[i] = workers_[i].get();
    wider->size.store(workers_.size(), std::memory_order_relaxed);  // relaxed: published by [W26]
    lists_.push_back(std::move(wider));
    list_.store(lists_.back().get(), std::memory_order_release);  // [W26] release, pairs with [W25]: publishes the list
  }

  atomic<const list*> list_{nullptr};  // written under the pool's mutex
  std::vector<std::unique_ptr<worker>> workers_;
  std::vector<std::unique_ptr<list>> lists_;
};

}  // namespace async::detail
