// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle
#include <memory>     // for destroy_at
#include <new>        // for placement new
#include <optional>   // for optional
#include <utility>    // for exchange, move

#include "async/detail/base/block_cache.hpp"     // for allocate_block, free_block
#include "async/detail/call/future_access.hpp"   // for future_access, is_unique_future
#include "async/detail/call/result_awaiter.hpp"  // for result_awaiter
#include "async/detail/call/result_state.hpp"    // for result_state
#include "async/detail/future/result_word.hpp"   // for continuation
#include "steps/interop/detail/operation.hpp"    // for host_of, operation_base

/// Waits of steps' coroutines for an async::future or shared_future.
namespace steps::inline v0_1::interop::detail {

/// A coroutine's place among the actions of a future. A coroutine that is destroyed while it waits takes it away, so
/// that nothing of a wait stays with a future that is never ready.
struct future_block final : operation_base, async::detail::continuation {
  static future_block& make(async::detail::result_state& s) {
    return *::new (async::detail::allocate_block(sizeof(future_block), alignof(future_block))) future_block(s);
  }
  /// False: the future is ready.
  bool list() noexcept {
    starts = false;  // the future does not notify inside add()
    const bool is_listed = state_.word.add(*this);
    if (!is_listed) release();  // the notification's reference
    release();                  // the starter's
    return is_listed;
  }
  /// The coroutine is being destroyed.
  void leave() noexcept {
    if (state_.word.remove(*this)) release();
    abandon();
  }

 private:
  explicit future_block(async::detail::result_state& s) noexcept
      : operation_base(&freed), continuation(&ready), state_(s) {
    state_.add_reference();
  }
  static continuation* ready(continuation& c) noexcept {
    static_cast<future_block&>(c).finish();
    return nullptr;
  }
  static void freed(operation_base& o) noexcept {
    auto& self = static_cast<future_block&>(o);
    async::detail::result_state& state = self.state_;
    std::destroy_at(&self);
    async::detail::free_block(&self, sizeof(future_block), alignof(future_block));
    state.release();
  }

  async::detail::result_state& state_;
};

/// Waits for a future: in a step, or in a coroutine that is none. A step that ends early cancels a future, which nobody
/// else has, but not a shared_future.
template <class Future>
class [[nodiscard]] step_future_awaiter {
 public:
  explicit step_future_awaiter(Future f) noexcept : future_(std::move(f)) {}
  ~step_future_awaiter() {
    if (block_ != nullptr) block_->leave();
    if constexpr (async::detail::is_unique_future<Future>) {
      if (future_.valid()) static_cast<void>(future_.cancel());
    }
  }
  step_future_awaiter(const step_future_awaiter&) = delete;
  step_future_awaiter& operator=(const step_future_awaiter&) = delete;

  bool await_ready() const noexcept { return !future_.valid() || future_.is_ready(); }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> suspending) {
    if (host_of(suspending) == nullptr) return direct_.emplace(std::move(future_)).await_suspend(suspending);
    block_ = &future_block::make(*async::detail::future_access::state(future_));
    block_->prepare(suspending);
    if (block_->list()) return true;
    std::exchange(block_, nullptr)->release();
    return false;
  }
  /// Throws std::future_error for a future without state.
  decltype(auto) await_resume() {
    if (block_ != nullptr) std::exchange(block_, nullptr)->release();
    if (direct_) return direct_->await_resume();
    return future_.get();
  }

 private:
  Future future_;
  future_block* block_ = nullptr;
  std::optional<async::detail::result_awaiter<Future>> direct_;
};

}  // namespace steps::inline v0_1::interop::detail
