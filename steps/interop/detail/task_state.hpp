// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t

#include "async/detail/base/atomics.hpp"  // for atomic

namespace steps::inline v0_1::interop::detail {

/// Handshake between a coroutine that ends and the thread that has resumed it: which of them goes on with the awaiting
/// coroutine. The coroutine may end on another thread, before the call that has resumed it returns.
class task_state {
 public:
  /// The coroutine has ended; its frame may be gone when this has returned. True: the caller resumes the awaiting
  /// coroutine.
  bool end() noexcept {
    // [R4] acq_rel, pairs with [R5]: publishes the result; receives both frames from the thread that began to wait
    return word_.exchange(ended, std::memory_order_acq_rel) == awaited;
  }
  /// The call that has resumed the coroutine has returned. False: the coroutine has ended, and the caller goes on.
  /// True: both frames belong to another thread from here on.
  bool await() noexcept {
    std::uint32_t expected = running;
    // [R5] release, pairs with [R4]: this thread's use of the frames; acquire on failure: the result
    return word_.compare_exchange_strong(expected, awaited, std::memory_order_release, std::memory_order_acquire);
  }

 private:
  enum : std::uint32_t { running, awaited, ended };

  async::detail::atomic<std::uint32_t> word_{running};
};

}  // namespace steps::inline v0_1::interop::detail
