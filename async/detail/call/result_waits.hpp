// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"        // for wait_clock
#include "async/detail/base/parker.hpp"         // for parker
#include "async/detail/call/pool_wake_up.hpp"   // exports pool_wake_up
#include "async/detail/future/result_word.hpp"  // for continuation
#include "async/detail/pool/wait_in_turn.hpp"   // exports wait_in_turn, is_in_callback

/// Waits of threads for a result.
namespace async::inline v0_1::detail {

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

}  // namespace async::inline v0_1::detail
