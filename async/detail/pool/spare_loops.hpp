// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for max
#include <cstddef>    // for size_t, byte
#include <memory>     // for shared_ptr, destroy_at
#include <mutex>      // for mutex, lock_guard
#include <new>        // for nothrow, placement new
#include <utility>    // for exchange

#include "async/detail/base/unhandled.hpp"    // for unhandled_hook
#include "async/detail/pool/hosted_loop.hpp"  // for hosted_loop
#include "async/detail/pool/loop_slot.hpp"    // for loop_slot

namespace async::inline v0_1::detail {

/// The spare loops that a worker keeps for the flows it starts. Only the worker's thread uses them.
class spare_loops {
 public:
  static constexpr std::size_t most = 64;

  hosted_loop* take() noexcept {
    hosted_loop* const h = first_;
    if (h == nullptr) return nullptr;
    first_ = h->next_spare;
    --size_;
    return h;
  }
  /// False: there are enough.
  bool give(hosted_loop& h) noexcept {
    if (size_ == most) return false;
    h.next_spare = std::exchange(first_, &h);
    ++size_;
    return true;
  }

 private:
  hosted_loop* first_ = nullptr;
  std::size_t size_ = 0;
};

/// All loops for flows of a pool. They stay until the pool's end, and serve one flow after the other.
///
/// Threads     any; for_each() and the destructor: one, when the workers have ended.
/// Progress    takes a short lock.
class flow_loops {
 public:
  flow_loops() = default;
  flow_loops(const flow_loops&) = delete;
  flow_loops& operator=(const flow_loops&) = delete;
  ~flow_loops() {
    while (all_ != nullptr) std::destroy_at(std::exchange(all_, all_->next_of_all));
    while (blocks_ != nullptr) delete std::exchange(blocks_, blocks_->next);
  }

  /// A loop without a flow, oldest first; null: there is none.
  hosted_loop* take() noexcept {
    const std::lock_guard lock(mutex_);
    hosted_loop* const h = first_spare_;
    if (h == nullptr) return nullptr;
    first_spare_ = h->next_spare;
    if (first_spare_ == nullptr) end_of_spare_ = &first_spare_;
    return h;
  }
  void give(hosted_loop& h) noexcept {
    const std::lock_guard lock(mutex_);
    h.next_spare = nullptr;
    *end_of_spare_ = &h;
    end_of_spare_ = &h.next_spare;
  }
  /// A new one, which rests. Null: there is no memory, or close() has been called.
  hosted_loop* make(pool_core& pool, const pool_timers& timers, loop_wake::function wake,
                    const std::shared_ptr<unhandled_hook>& hook) noexcept {
    loop_slot* const slot = take_slot();
    if (slot == nullptr) return nullptr;
    void* const memory = slot->loop;
    try {
      auto* const made = ::new (memory) hosted_loop(pool, *slot, timers, true, wake);
      made->core().set_unhandled(hook);
      const std::lock_guard lock(mutex_);
      if (is_closed_) {
        std::destroy_at(made);
        return nullptr;
      }
      made->next_of_all = std::exchange(all_, made);
      ++made_;
      return made;
    } catch (...) {
      give_slot(*slot);
      return nullptr;
    }
  }

  /// From here on no loops are made.
  void close() noexcept {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }

  /// Whether so many loops have been made that it pays to look for loops whose tenants have gone; then reviewed().
  bool is_review_due() noexcept {
    const std::lock_guard lock(mutex_);
    if (made_ < next_review_) return false;
    next_review_ = static_cast<std::size_t>(-1);  // one at a time
    return true;
  }
  void reviewed(std::size_t in_use) noexcept {
    const std::lock_guard lock(mutex_);
    next_review_ = (std::max)(2 * in_use, least_to_review);
  }

  /// Calls f(hosted_loop&) for each loop. f may lead to new ones, which it is not called for.
  template <class F>
  void for_each(F f) {
    hosted_loop* h = nullptr;
    {
      const std::lock_guard lock(mutex_);
      h = all_;
    }
    for (; h != nullptr; h = h->next_of_all) f(*h);
  }

 private:
  static constexpr std::size_t least_to_review = 64;

  /// Slots, and memory for the loops that they will have.
  struct block_of_slots {
    static constexpr std::size_t count = 64;
    loop_slot places[count];
    alignas(hosted_loop) std::byte loops[count][sizeof(hosted_loop)];
    block_of_slots* next = nullptr;
  };

  /// Null: there is no memory.
  loop_slot* take_slot() noexcept {
    const std::lock_guard lock(mutex_);
    if (free_slots_ == nullptr) {
      auto* const block = new (std::nothrow) block_of_slots;
      if (block == nullptr) return nullptr;
      block->next = std::exchange(blocks_, block);
      for (std::size_t i = block_of_slots::count; i-- != 0;) {
        block->places[i].loop = reinterpret_cast<hosted_loop*>(&block->loops[i]);
        link(block->places[i]);
      }
    }
    return std::exchange(free_slots_, free_slots_->behind);
  }
  void give_slot(loop_slot& slot) noexcept {
    const std::lock_guard lock(mutex_);
    link(slot);
  }
  void link(loop_slot& slot) noexcept { slot.behind = std::exchange(free_slots_, &slot); }

  std::mutex mutex_;
  bool is_closed_ = false;  // guarded by the mutex, as is what follows
  std::size_t made_ = 0;
  std::size_t next_review_ = least_to_review;
  hosted_loop* all_ = nullptr;
  block_of_slots* blocks_ = nullptr;
  loop_slot* free_slots_ = nullptr;
  hosted_loop* first_spare_ = nullptr;
  hosted_loop** end_of_spare_ = &first_spare_;
};

}  // namespace async::inline v0_1::detail
