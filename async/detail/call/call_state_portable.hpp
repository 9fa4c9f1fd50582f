// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>       // for future, future_status, async, launch
#include <type_traits>  // for decay_t
#include <utility>      // for exchange, forward

#include "async/detail/base/chrono.hpp"        // for seconds
#include "async/detail/base/config.hpp"        // for ASYNCSTEPS_CALL_STATE
#include "async/detail/call/call_result.hpp"   // for call_result_state, make_state, submitted
#include "async/detail/call/result_state.hpp"  // for result
#include "async/detail/pool/pool_core.hpp"     // for pool_core

#if ASYNCSTEPS_CALL_STATE == 0

/// Futures of calls, from public parts of the standard library only. The future of async::async is deferred: its wait
/// calls a function of this library, and its destructor destroys that function. One difference remains: timed waits
/// return std::future_status::deferred until a thread has waited, although the call itself runs in the pool.
namespace async::inline v0_1::detail {

/// The deferred function: a reference to the result of a call in the pool. It waits for the result when it is called,
/// or destroyed.
template <class R>
class joined_call {
 public:
  explicit joined_call(result<R>* s) noexcept : state_(s) {}
  joined_call(joined_call&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  joined_call& operator=(joined_call&&) = delete;
  ~joined_call() {
    if (state_ == nullptr) return;
    if (!state_->is_ready() && !state_->is_left_behind()) state_->wait_anywhere();
    state_->release();
  }
  R operator()() {
    state_->wait_anywhere();
    return state_->take();
  }

 private:
  result<R>* state_;
};

/// Hands the call to the pool and returns its future. Throws what copying throws, std::bad_alloc and what
/// pool_core::submit() throws: then nothing was called.
template <class R, class... Parts>
std::future<R> call_in_pool(pool_core& pool, Parts&&... parts) {
  using state = call_result_state<R, std::decay_t<Parts>...>;
  return std::async(std::launch::deferred,
                    joined_call<R>(submitted(make_state<state>(&pool, std::forward<Parts>(parts)...))));
}

/// False: which call a future belongs to is not known.
template <class R>
bool wait_for_call(std::future<R>&) noexcept {
  return false;
}

/// See call_state.hpp. True for a future of async::async that no thread has waited for: its get() waits for the call.
template <class Future>
bool is_ready(const Future& future) {
  return future.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
}

}  // namespace async::inline v0_1::detail

#endif
