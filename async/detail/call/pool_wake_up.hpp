// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"        // for atomic
#include "async/detail/base/backoff.hpp"        // for backoff
#include "async/detail/future/result_word.hpp"  // for continuation, result_word

namespace async::inline v0_1::detail {

/// While it lives, the thread that has made it is woken in its wait in a pool when a result becomes ready.
///
/// A thread that is in the list waits until is_due(), as a thread of the pool waits, and not just for the result: other
/// actions of the list may run first, and may themselves need the pool.
///
/// `Pool`: pool_core; models have another one. `Part`: its participant.
template <class Pool, class Part>
class pool_wake_up : continuation {
 public:
  pool_wake_up(Pool& pool, Part& part, result_word& of) noexcept
      : continuation(&wake), pool_(pool), part_(part), word_(of), is_listed_(word_.add(*this)) {}
  ~pool_wake_up() {
    if (!is_listed_ || word_.remove(*this)) return;
    // [K10] acquire, pairs with [K11]: the other thread has let go of this object, and of the pool
    for (backoff pause; stage_.load(std::memory_order_acquire) != stage::over;) pause.wait();
  }
  pool_wake_up(const pool_wake_up&) = delete;
  pool_wake_up& operator=(const pool_wake_up&) = delete;

  /// Leaves the result, if it is not ready. True: the destructor does not wait for other actions. False: it is ready,
  /// and is_due() soon.
  bool leave() noexcept {
    if (is_due()) return true;
    if (!word_.remove(*this)) return false;
    is_listed_ = false;
    return true;
  }

  /// The result is ready, and the destructor does not wait for other actions.
  bool is_due() const noexcept {
    // [K10] acquire, pairs with [K11]: the result
    return !is_listed_ || stage_.load(std::memory_order_acquire) != stage::waits;
  }

 private:
  enum class stage : unsigned char { waits, due, over };

  static continuation* wake(continuation& c) noexcept {
    auto& self = static_cast<pool_wake_up&>(c);
    self.stage_.store(stage::due, std::memory_order_release);  // [K11] release, pairs with [K10]: the result
    self.pool_.wake(self.part_);
    // [K11] release, pairs with [K10]: this thread's use of the object and of the pool; from here on they may be gone
    self.stage_.store(stage::over, std::memory_order_release);
    return nullptr;
  }

  Pool& pool_;
  Part& part_;
  result_word& word_;
  atomic<stage> stage_{stage::waits};
  bool is_listed_;
};

}  // namespace async::inline v0_1::detail
