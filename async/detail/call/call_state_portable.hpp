// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>       // for future, async, launch
#include <memory>       // for destroy_at
#include <new>          // for placement new
#include <type_traits>  // for decay_t
#include <utility>      // for exchange, forward, move, in_place

#include "async/detail/base/atomics.hpp"         // for yield_thread
#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_CALL_STATE
#include "async/detail/call/call_entry.hpp"      // for call_entry
#include "async/detail/call/call_memory.hpp"     // for call_memory
#include "async/detail/future/pending_call.hpp"  // for pending_call
#include "async/detail/pool/pool_core.hpp"       // for pool_core

#if ASYNCSTEPS_CALL_STATE == 0

/// Futures of calls, from public parts of the standard library only. The future of async::async is deferred: its wait
/// calls a function of this library, and its destructor destroys that function. One difference remains: timed waits
/// return std::future_status::deferred until a thread has waited, although the call itself runs in the pool.
namespace async::inline v0_1::detail {

/// A call in the pool, and the future that it makes ready.
template <class R, class... Call>
class joined_call {
 public:
  template <class... Parts>
  explicit joined_call(pool_core& pool, Parts&&... parts) {
    using call = pending_call<R, Call...>;
    const call_memory<call> memory;
    entry_ = memory.entry;
    struct unused {
      call_entry*& entry;
      bool is_used = false;
      ~unused() {
        if (!is_used) std::exchange(entry, nullptr)->release();
      }
    } block{entry_};
    auto* const made = ::new (memory.state) call(std::in_place, std::forward<Parts>(parts)...);
    block.is_used = true;
    entry_->state = made;
    result_ = made->get_future();
    try {
      entry_->submit(pool, how);
    } catch (...) {
      std::exchange(entry_, nullptr)->release();
      throw;
    }
  }
  joined_call(joined_call&& other) noexcept
      : entry_(std::exchange(other.entry_, nullptr)), result_(std::move(other.result_)) {}
  joined_call& operator=(joined_call&&) = delete;
  ~joined_call() {
    if (entry_ == nullptr || is_lost()) return;
    wait();
    entry_->release();
  }
  R operator()() {
    if (is_lost()) throw stopped_by_fork();
    wait();
    return result_.get();
  }

 private:
  /// In a child of fork(), where no thread makes the call.
  bool is_lost() const noexcept { return entry_->is_left_behind() && !entry_->is_done(); }
  void wait() {
    if (entry_->is_inside()) return entry_->wait_inside();
    if (result_.valid()) result_.wait();
    while (!entry_->is_done()) yield_thread();  // the thread of the call is about to leave it
  }
  static void make(call_entry& e) {
    using call = pending_call<R, Call...>;
    const struct end {
      call* made;
      ~end() { std::destroy_at(made); }
    } here{static_cast<call*>(e.state)};
    (*here.made)();
  }
  static void refuse(call_entry& e, std::exception_ptr) noexcept {
    std::destroy_at(static_cast<pending_call<R, Call...>*>(e.state));  // breaks the promise
  }
  static constexpr call_entry::operations how{&joined_call::make, &joined_call::refuse};

  call_entry* entry_ = nullptr;
  std::future<R> result_;
};

/// Hands the call to the pool and returns its future. Throws what copying throws, std::bad_alloc and what
/// pool_core::submit() throws: then nothing was called.
template <class R, class... Parts>
std::future<R> call_in_pool(pool_core& pool, Parts&&... parts) {
  return std::async(std::launch::deferred, joined_call<R, std::decay_t<Parts>...>(pool, std::forward<Parts>(parts)...));
}

/// False: which call a future belongs to is not known.
template <class R>
bool wait_for_call(std::future<R>&) noexcept {
  return false;
}

}  // namespace async::inline v0_1::detail

#endif
