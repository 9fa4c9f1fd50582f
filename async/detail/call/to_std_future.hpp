// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>    // for exception_ptr, current_exception
#include <future>       // for future, promise
#include <memory>       // for allocator_arg, destroy_at
#include <type_traits>  // for is_void_v
#include <utility>      // for exchange, forward, move

#include "async/detail/base/block_cache.hpp"       // for allocate_block, free_block, block_allocator
#include "async/detail/base/config.hpp"            // for ASYNCSTEPS_CALL_STATE, ASYNCSTEPS_TSAN
#include "async/detail/base/held_back.hpp"         // for nothing_held_back
#include "async/detail/base/platform.hpp"          // for call_once_may_throw
#include "async/detail/call/call_result.hpp"       // for make_state
#include "async/detail/call/call_state.hpp"        // for future_of_call
#include "async/detail/call/result_state.hpp"      // for result
#include "async/detail/future/future_watch.hpp"    // for shared_state_of, tell_watchers_of
#include "async/detail/future/result_word.hpp"     // for continuation, run_all
#include "async/detail/future/unseen_by_tsan.hpp"  // for unseen_by_tsan

/// Makes a std::future of a result of this library.
namespace async::inline v0_1::detail {

/// A reference to a result, and the call that waits for it and returns it.
template <class T>
class taken_result {
 public:
  explicit taken_result(result<T>& s) noexcept : state_(&s) {}
  taken_result(taken_result&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  taken_result& operator=(taken_result&&) = delete;
  ~taken_result() {
    if (state_ != nullptr) state_->release();
  }
  /// Leaves the reference to the caller.
  void dismiss() noexcept { state_ = nullptr; }
  T operator()() {
    state_->wait_anywhere();
    return state_->take();
  }

 private:
  result<T>* state_;
};

#if ASYNCSTEPS_CALL_STATE != 0
/// Makes a call when a result is ready, unless a thread that waits for the call has made it.
class call_on_ready : continuation {
 public:
  /// Throws std::bad_alloc.
  static call_on_ready* make() { return ::new (allocate_block(sizeof(call_on_ready))) call_on_ready; }

  void begin(result_word& word, call_entry& entry) noexcept {
    entry_ = &entry;
    if (!word.add(*this)) run_all(arrived(*this));
  }
  void destroy() noexcept { free_block(this, sizeof(call_on_ready)); }

 private:
  call_on_ready() noexcept : continuation(&arrived) {}
  static continuation* arrived(continuation& c) noexcept {
    auto& self = static_cast<call_on_ready&>(c);
    job* const call = self.entry_;
    self.destroy();
    const nothing_held_back in_copies_and_destructors;
    call->run(call);
    return nullptr;
  }

  call_entry* entry_ = nullptr;
};

/// Takes over a reference to the result, unless it throws std::bad_alloc. In a task the future's waits help, as those
/// of the futures of async::async do.
template <class T>
std::future<T> to_std_future(result<T>& state) {
  taken_result<T> call(state);
  result_word& word = state.word;
  pool_core* const pool = state.pool();
  call_on_ready* alarm = nullptr;
  try {
    alarm = call_on_ready::make();
    // The state is there when begin() returns: if it is not ready, its maker has a reference.
    return future_of_call<false, T>(
        [&word, pool, alarm](call_entry& entry, const call_entry::operations& how) noexcept {
          entry.hand_in(pool, how);
          alarm->begin(word, entry);
        },
        std::move(call));
  } catch (...) {
    call.dismiss();
    if (alarm != nullptr) alarm->destroy();
    throw;
  }
}
#else
/// Makes a std::future ready when a result is.
template <class T>
class promise_on_ready : continuation {
 public:
  explicit promise_on_ready(taken_result<T>&& call) noexcept : continuation(&arrived), call_(std::move(call)) {}

  std::future<T> begin(result_word& word) {
    std::future<T> made = promise_.get_future();
    if (!word.add(*this)) run_all(arrived(*this));
    return made;
  }

 private:
  static continuation* arrived(continuation& c) noexcept {
    auto& self = static_cast<promise_on_ready&>(c);
    std::promise<T> promise = std::move(self.promise_);
    taken_result<T> call = std::move(self.call_);
    std::destroy_at(&self);
    detail::free_block(&self, sizeof(promise_on_ready), alignof(promise_on_ready));
    const void* const of = detail::shared_state_of(promise);
    keep(promise, call);
    tell_watchers_of(of);
    return nullptr;
  }
  /// Makes the future ready. Where std::promise cannot be set after a value has thrown, it is broken instead.
  static void keep(std::promise<T>& promise, taken_result<T>& call) noexcept {
    std::exception_ptr error;
    bool can_fail = true;
    try {
      if constexpr (std::is_void_v<T>) {
        call();
        return promise.set_value();
      } else {
        T value = call();
        can_fail = call_once_may_throw;
        return promise.set_value(std::forward<T>(value));
      }
    } catch (...) {
      error = std::current_exception();
    }
    // After the catch block, which holds a reference.
#if ASYNCSTEPS_TSAN
    const unseen_by_tsan quiet;
#endif
    std::promise<T> last(std::move(promise));
    if (can_fail) last.set_exception(std::move(error));
  }

  /// Its result and shared state live in recycled blocks.
  std::promise<T> promise_{std::allocator_arg, block_allocator<char>{}};
  taken_result<T> call_;
};

/// Takes over a reference to the result, unless it throws std::bad_alloc.
template <class T>
std::future<T> to_std_future(result<T>& state) {
  taken_result<T> call(state);
  promise_on_ready<T>* alarm = nullptr;
  try {
    alarm = make_state<promise_on_ready<T>>(std::move(call));
  } catch (...) {
    call.dismiss();
    throw;
  }
  return alarm->begin(state.word);
}
#endif

}  // namespace async::inline v0_1::detail
