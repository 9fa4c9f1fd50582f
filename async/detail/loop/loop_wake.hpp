// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uintptr_t
#include <memory>   // for destroy_at
#include <new>      // for placement new
#include <utility>  // for exchange, move

#include "async/detail/base/block_cache.hpp"  // for allocate_block, free_block
#include "async/task.hpp"                     // for task

namespace async::inline v0_1::detail {

/// The function that a loop calls when it has got work while nobody drives it: one of its pool, or a task of its owner,
/// in a recycled block. Two words, since a pool has a loop for each flow.
///
/// Threads     calls: any. reset(): none calls at the same time.
class loop_wake {
 public:
  using function = void (*)(void* with);

  loop_wake(function f, void* with) noexcept : call_(f), with_(with) {}
  /// Empty if the task is. Throws std::bad_alloc.
  static loop_wake by(task&& t) {
    if (!t) return {nullptr, nullptr};
    task* const kept = ::new (allocate_block(sizeof(task))) task(std::move(t));
    return {&call_task, reinterpret_cast<char*>(kept) + owned};
  }
  loop_wake(loop_wake&& other) noexcept : call_(std::exchange(other.call_, nullptr)), with_(other.with_) {}
  loop_wake& operator=(loop_wake&&) = delete;
  ~loop_wake() { reset(); }

  explicit operator bool() const noexcept { return call_ != nullptr; }
  /// Throws what the task throws.
  void operator()() const { call_(with_); }

  void reset() noexcept {
    if (std::exchange(call_, nullptr) == nullptr || reinterpret_cast<std::uintptr_t>(with_) % 2 != owned) return;
    task* const kept = task_of(with_);
    std::destroy_at(kept);
    free_block(kept, sizeof(task));
  }

 private:
  // Added to the address of a task. (Not told by the function: its address may differ between shared libraries.)
  static constexpr std::uintptr_t owned = 1;

  static task* task_of(void* with) noexcept { return reinterpret_cast<task*>(static_cast<char*>(with) - owned); }
  static void call_task(void* with) { (*task_of(with))(); }

  function call_ = nullptr;
  void* with_ = nullptr;
};

}  // namespace async::inline v0_1::detail
