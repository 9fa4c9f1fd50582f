// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t, byte
#include <memory>   // for destroy_at
#include <mutex>    // for mutex, lock_guard
#include <new>      // for nothrow, placement new
#include <utility>  // for exchange

#include "async/detail/base/min_max.hpp"          // for max_of
#include "async/detail/base/reference_count.hpp"  // for reference_count
#include "async/detail/base/unhandled.hpp"        // for hook_ref
#include "async/detail/loop/loop_core.hpp"        // for loop_core
#include "async/detail/loop/loop_setting.hpp"     // for loop_setting
#include "async/detail/pool/loop_slot.hpp"        // for loop_slot
#include "async/detail/pool/pool_loop.hpp"        // for pool_loop

namespace async::inline v0_1::detail {

/// The spare loops that a worker keeps for the flows it starts. Only the worker's thread uses them.
class spare_loops {
 public:
  static constexpr std::size_t most = 64;

  pool_loop* take() noexcept {
    pool_loop* const h = first_;
    if (h == nullptr) return nullptr;
    first_ = h->next_spare;
    --size_;
    return h;
  }
  /// False: there are enough.
  bool give(pool_loop& h) noexcept {
    if (size_ == most) return false;
    h.next_spare = std::exchange(first_, &h);
    ++size_;
    return true;
  }

 private:
  pool_loop* first_ = nullptr;
  std::size_t size_ = 0;
};

/// All loops for flows of a pool. They stay until the pool's end, and serve one flow after the other.
///
/// Threads     any; the destructor: one, when the workers have ended.
/// Progress    takes a short lock.
class flow_loops {
 public:
  flow_loops() = default;
  flow_loops(const flow_loops&) = delete;
  flow_loops& operator=(const flow_loops&) = delete;
  ~flow_loops() {
    while (all_ != nullptr) std::destroy_at(std::exchange(all_, all_->next_of_all));
    while (blocks_ != nullptr) std::exchange(blocks_, blocks_->next)->release();
  }

  /// A loop without a flow, oldest first; null: there is none.
  pool_loop* take() noexcept {
    const std::lock_guard lock(mutex_);
    pool_loop* const h = first_spare_;
    if (h == nullptr) return nullptr;
    first_spare_ = h->next_spare;
    if (first_spare_ == nullptr) end_of_spare_ = &first_spare_;
    return h;
  }
  void give(pool_loop& h) noexcept {
    const std::lock_guard lock(mutex_);
    h.next_spare = nullptr;
    *end_of_spare_ = &h;
    end_of_spare_ = &h.next_spare;
  }
  /// A new one, which rests. Null: there is no memory, or close() has been called.
  pool_loop* make(pool_core& pool, const pool_timers& timers, const loop_setting& setting,
                  const hook_ref& hook) noexcept {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return nullptr;
    if (blocks_ == nullptr || blocks_->used == block::count) {
      auto* const fresh = new (std::nothrow) block(setting);
      if (fresh == nullptr) return nullptr;
      fresh->next = std::exchange(blocks_, fresh);
    }
    pool_loop& made = blocks_->make(pool, timers);
    made.core().set_unhandled(hook);
    made.next_of_all = std::exchange(all_, &made);
    ++made_;
    return &made;
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
    next_review_ = max_of(2 * in_use, least_to_review);
  }

  /// Calls f(pool_loop&) for each loop. f may lead to new ones, which it is not called for.
  template <class F>
  void for_each(F f) {
    pool_loop* h = nullptr;
    {
      const std::lock_guard lock(mutex_);
      h = all_;
    }
    for (; h != nullptr; h = h->next_of_all) f(*h);
  }

 private:
  static constexpr std::size_t least_to_review = 64;

  /// Memory for loops, with their slots and the setting that they share. It stays until the last of them has gone, to
  /// which threads from outside may have references.
  struct block : loop_setting {
    static constexpr std::size_t count = 64;

    explicit block(const loop_setting& its) noexcept : loop_setting(its) {
      destroy = [](loop_core& of) noexcept {
        auto& home = static_cast<block&>(of.setting());
        std::destroy_at(&of);
        home.release();
      };
    }
    /// While `used` is not `count`.
    pool_loop& make(pool_core& pool, const pool_timers& timers) noexcept {
      const std::size_t i = used++;
      references.add();
      return *::new (static_cast<void*>(loops[i].loop)) pool_loop(pool, places[i], timers, true, *this, loops[i].core);
    }
    void release() noexcept {
      if (references.drop()) delete this;
    }

    loop_slot places[count];
    struct {
      alignas(pool_loop) std::byte loop[sizeof(pool_loop)];
      alignas(loop_core) std::byte core[sizeof(loop_core)];
    } loops[count];
    std::size_t used = 0;
    reference_count references;  // one for each core, and that of the list of blocks
    block* next = nullptr;
  };

  std::mutex mutex_;
  bool is_closed_ = false;  // guarded by the mutex, as is what follows
  std::size_t made_ = 0;
  std::size_t next_review_ = least_to_review;
  pool_loop* all_ = nullptr;
  block* blocks_ = nullptr;  // newest first: only that one has room
  pool_loop* first_spare_ = nullptr;
  pool_loop** end_of_spare_ = &first_spare_;
};

}  // namespace async::inline v0_1::detail
