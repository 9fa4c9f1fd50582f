// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>        // for uintptr_t
#include <mutex>          // for mutex, lock_guard
#include <unordered_map>  // for unordered_map
#include <utility>        // for exchange, move

#include "async/event_loop.hpp"    // for event_loop
#include "steps/interop/binary.h"  // for FutoInHandle

/// Callbacks that C hands to the loop of a flow.
namespace steps::inline v0_1::interop::detail {

/// The callbacks of sched_immediate() and sched_deferred() that have not run. C has numbers for handles: it never
/// releases them.
class c_callbacks {
 public:
  /// One for all flows, and never destroyed, since loops with static storage may outlive it. One per module: a handle
  /// names its own.
  static c_callbacks& all() {
    static c_callbacks* const immortal = new c_callbacks;  // one per module
    return *immortal;
  }
  static c_callbacks* of(const FutoInHandle& h) noexcept { return static_cast<c_callbacks*>(h.data2); }

  /// schedule(task) hands a callback to a loop and returns its handle.
  template <class Schedule>
  FutoInHandle add(void* data, void (*function)(void*), Schedule&& schedule) {
    entry made(*this);
    const std::uintptr_t number = made.number;
    async::event_loop::handle h = schedule([e = std::move(made), data, function] { function(data); });
    const std::lock_guard<std::mutex> together(lock_);
    if (const auto found = pending_.find(number); found != pending_.end()) found->second = std::move(h);
    return {reinterpret_cast<void*>(number), this, 0};
  }
  void cancel(FutoInHandle& h) {
    async::event_loop::handle found = find(h);
    h = {};
    static_cast<void>(found.cancel());
  }
  bool is_valid(const FutoInHandle& h) { return static_cast<bool>(find(h)); }

 private:
  /// The number of a callback, for as long as the loop has it.
  struct entry {
    explicit entry(c_callbacks& c) : of(&c) {
      const std::lock_guard<std::mutex> together(of->lock_);
      do number = ++of->last_;
      while (number == 0 || !of->pending_.try_emplace(number).second);
    }
    entry(entry&& other) noexcept : of(std::exchange(other.of, nullptr)), number(other.number) {}
    entry& operator=(entry&&) = delete;
    ~entry() {
      if (of == nullptr) return;
      async::event_loop::handle last;
      const std::lock_guard<std::mutex> together(of->lock_);
      const auto found = of->pending_.find(number);
      last = std::move(found->second);
      of->pending_.erase(found);
    }

    c_callbacks* of;
    std::uintptr_t number = 0;
  };

  async::event_loop::handle find(const FutoInHandle& h) {
    const std::lock_guard<std::mutex> together(lock_);
    const auto found = pending_.find(reinterpret_cast<std::uintptr_t>(h.data1));
    return found != pending_.end() ? found->second : async::event_loop::handle();
  }

  std::mutex lock_;
  std::unordered_map<std::uintptr_t, async::event_loop::handle> pending_;
  std::uintptr_t last_ = 0;
};

}  // namespace steps::inline v0_1::interop::detail
