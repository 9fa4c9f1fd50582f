// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"        // for atomic, wait_clock, yield_thread
#include "async/detail/base/parker.hpp"         // for parker
#include "async/detail/future/result_word.hpp"  // for continuation, result_word
#include "async/detail/pool/pool_core.hpp"      // for pool_core
#include "async/detail/wait/pool_wait.hpp"      // exports wait_in_turn, loop_of_wait

/// Waits of threads for a result.
namespace async::inline v0_1::detail {

/// True in a callback of an event loop, such as a step of a flow: a wait would stop the loop. False in tasks that run
/// because a callback waits for them.
inline bool is_in_callback() noexcept { return current_loop != nullptr && current_loop != loop_of_wait; }

/// A thread that sleeps until a result is ready.
class blocked_thread : public continuation {
 public:
  blocked_thread() noexcept : continuation(&wake) {}

  void wait() noexcept { parker_.park(); }
  bool wait_until(wait_clock::time_point deadline) noexcept { return parker_.park_until(deadline); }

 private:
  static continuation* wake(continuation& c) noexcept {
    static_cast<blocked_thread&>(c).parker_.unpark();  // from here on it may be gone
    return nullptr;
  }

  parker parker_;
};

/// While it lives, waiting threads of a pool check their conditions again when a result becomes ready.
///
/// A thread that is in the list waits until is_due(), as a thread of the pool waits, and not just for the result: other
/// actions of the list may run first, and may themselves need the pool.
class pool_wake_up : continuation {
 public:
  pool_wake_up(pool_core& pool, result_word& of) noexcept
      : continuation(&wake), pool_(pool), word_(of), is_listed_(word_.add(*this)) {}
  ~pool_wake_up() {
    if (!is_listed_ || word_.remove(*this)) return;
    // [K10] acquire, pairs with [K11]; not modelled: a flag. After is_due() only a notify_waiters() is missing.
    while (stage_.load(std::memory_order_acquire) != stage::over) yield_thread();
  }
  pool_wake_up(const pool_wake_up&) = delete;
  pool_wake_up& operator=(const pool_wake_up&) = delete;

  /// The result is ready, and the destructor does not wait for other actions.
  bool is_due() const noexcept {
    // [K10] acquire, pairs with [K11]: the result
    return !is_listed_ || stage_.load(std::memory_order_acquire) != stage::waits;
  }

 private:
  enum class stage : unsigned char { waits, due, over };

  static continuation* wake(continuation& c) noexcept {
    auto& self = static_cast<pool_wake_up&>(c);
    self.stage_.store(stage::due, std::memory_order_release);  // [K11] release, pairs with [K10]; not modelled: a flag
    self.pool_.notify_waiters();
    self.stage_.store(stage::over, std::memory_order_release);  // [K11]; from here on it may be gone
    return nullptr;
  }

  pool_core& pool_;
  result_word& word_;
  atomic<stage> stage_{stage::waits};
  const bool is_listed_;
};

}  // namespace async::inline v0_1::detail
