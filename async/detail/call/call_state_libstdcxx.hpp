// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>       // for atomic_flag
#include <exception>    // for exception_ptr, current_exception, make_exception_ptr
#include <future>       // for future, future_status, __future_base
#include <memory>       // for allocate_shared, shared_ptr
#include <type_traits>  // for is_void_v, decay_t
#include <utility>      // for forward, move, in_place

#include "async/detail/base/chrono.hpp"            // for seconds
#include "async/detail/base/config.hpp"            // for ASYNCSTEPS_CALL_STATE
#include "async/detail/call/call_entry.hpp"        // for call_entry
#include "async/detail/call/call_memory.hpp"       // for call_allocator, stored_call
#include "async/detail/future/broken_promise.hpp"  // for broken_promise
#include "async/detail/future/future_watch.hpp"    // for tell_watchers_of, shared_state_of
#include "async/detail/future/ready_actions.hpp"   // for actions_of_thread
#include "async/detail/future/unseen_by_tsan.hpp"  // for kept_state
#include "async/detail/pool/pool_worker.hpp"       // for end_if_returned

#if ASYNCSTEPS_CALL_STATE == 1

/// Futures of calls with libstdc++. Overrides virtual functions of its shared states, and uses three private members,
/// which an explicit instantiation may name; nothing is added to namespace std. The result is stored without the
/// std::call_once of std::promise, which makes a system call each time.
namespace async::inline v0_1::detail {

using library_state = std::__future_base::_State_baseV2;
using library_result = std::__future_base::_Result_base;

std::__future_base::_Ptr<library_result>& result_of(library_state& state) noexcept;
std::__atomic_futex_unsigned<>& status_of(library_state& state) noexcept;
std::atomic_flag& retrieved_flag_of(library_state& state) noexcept;

template <auto ResultMember, auto StatusMember, auto RetrievedMember>
struct opened_state {
  friend std::__future_base::_Ptr<library_result>& result_of(library_state& state) noexcept {
    return state.*ResultMember;
  }
  friend std::__atomic_futex_unsigned<>& status_of(library_state& state) noexcept { return state.*StatusMember; }
  friend std::atomic_flag& retrieved_flag_of(library_state& state) noexcept { return state.*RetrievedMember; }
};
// A declaration, since a file that includes this header may also import it.
extern template struct opened_state<&library_state::_M_result, &library_state::_M_status, &library_state::_M_retrieved>;

/// The result, inside the shared state.
template <class R>
struct call_result_slot final : std::__future_base::_Result<R> {
  void _M_destroy() override {}
};

/// The part of a call's shared state that does not depend on its types.
class call_state_base : public library_state {
 public:
  call_entry* entry = nullptr;

  bool is_ready() { return status_of(*this)._M_load(std::memory_order_acquire) == ready; }

  /// In a task: makes the call if it is this pool's and no thread has taken it, else waits without blocking the pool.
  /// In a child of fork(): breaks a promise that only a thread of the parent can keep.
  void help() {
    if (is_ready() || (actions_of_thread.before_wait() && is_ready())) return;
    const bool is_in_task = call_entry::is_in_task();
    if (is_in_task && entry->is_inside()) return entry->wait_inside();
    if (entry->is_left_behind()) [[unlikely]]
      return leave();
    if (!is_in_task) return;
    call_entry::wait_elsewhere(static_cast<const library_state*>(this), [this] { return is_ready(); });
  }

 protected:
  static constexpr unsigned ready = 1;

  /// Makes the future ready. The result stays a member of the derived class.
  void publish(library_result& result) noexcept {
    detail::result_of(*this).reset(&result);
    // release, pairs with the acquire of std::future's waits and of is_ready(): publishes the result
    status_of(*this)._M_store_notify_all(ready, std::memory_order_release);
    tell_watchers_of(static_cast<const library_state*>(this));
  }
  /// Makes the future ready with an error. A thread that is gone may have been making the call.
  virtual void leave() noexcept = 0;
  void finish_waiting() { status_of(*this)._M_load_when_equal(ready, std::memory_order_acquire); }

 private:
  void _M_complete_async() override { help(); }
  /// Always false. libstdc++ calls it in timed waits, before they sleep.
  bool _M_is_deferred_future() const override {
    if (call_entry::is_in_task()) entry->poll_inside();
    return false;
  }
};

/// The shared state of a call. `Joins`: the last future waits in its destructor; else the state lives until the call
/// is done.
template <bool Joins, class R, class... Call>
class call_state final : public call_state_base {
 public:
  template <class... From>
  explicit call_state(std::in_place_t, From&&... from) : call_(std::in_place, std::forward<From>(from)...) {}
  call_state(const call_state&) = delete;
  ~call_state() override {
    if (Joins && is_submitted) {
      help();
      finish_waiting();
    }
    static_cast<void>(detail::result_of(*this).release());  // it is a member
  }

  static const call_entry::operations how;

  std::shared_ptr<call_state> self;  // until the call is done, where the future does not join
  bool is_submitted = false;

 private:
  static void make(call_entry& e) {
    auto& state = of(e);
    const kept_state<call_state> kept(std::move(state.self));
    std::exception_ptr error;
    try {
      if constexpr (std::is_void_v<R>) {
        state.call_();
      } else {
        state.result_._M_set(state.call_());
      }
      if constexpr (Joins) end_if_returned();
      return state.publish(state.result_);
    } catch (...) {
      error = std::current_exception();
      if (error == nullptr) {  // pthread_exit()
        fail(state, broken_promise());
        throw;
      }
    }
    if constexpr (Joins) end_if_returned();
    fail(state, std::move(error));  // after the catch block, which holds a reference of its own
  }
  static void refuse(call_entry& e, std::exception_ptr error) noexcept {
    auto& state = of(e);
    const kept_state<call_state> kept(std::move(state.self));
    state.call_.drop();
    fail(state, std::move(error));
  }
  void leave() noexcept override {
    call_.leak();
    fail(*this, std::make_exception_ptr(stopped_by_fork()));
  }
  static void fail(call_state& state, std::exception_ptr error) noexcept {
    state.result_._M_error = std::move(error);
    state.publish(state.result_);
  }
  static call_state& of(call_entry& e) noexcept { return *static_cast<call_state*>(e.state); }

  stored_call<Call...> call_;
  call_result_slot<R> result_;
};

template <bool Joins, class R, class... Call>
const call_entry::operations call_state<Joins, R, Call...>::how{&call_state::make, &call_state::refuse};

/// A std::future with this shared state.
template <class R>
struct future_opener : std::__basic_future<R> {
  using base = std::__basic_future<R>;
  explicit future_opener(const std::shared_ptr<library_state>& state) : base(state) {}
  std::future<R> open(library_state& state) noexcept {
    // All other states with a future have this flag set: call_of() recognises ours by it. It has no other use.
    retrieved_flag_of(state).clear(std::memory_order_relaxed);  // relaxed: before another thread has the future
    std::future<R> made;
    this->_M_swap(made);
    return made;
  }
};

/// A future of a call, which submit(entry, operations) hands to the code that will make it. Throws what copying and
/// submit() throw, and std::bad_alloc: then nothing was called.
template <bool Joins, class R, class Submit, class... Parts>
std::future<R> future_of_call(Submit submit, Parts&&... parts) {
  using state_type = call_state<Joins, R, std::decay_t<Parts>...>;
  call_entry* entry = nullptr;
  std::shared_ptr<state_type> owned =
      std::allocate_shared<state_type>(call_allocator<state_type>(entry), std::in_place, std::forward<Parts>(parts)...);
  state_type& state = *owned;
  state.entry = entry;
  entry->state = &state;
  std::future<R> made = future_opener<R>(owned).open(state);
  if constexpr (Joins) {
    state.is_submitted = true;
    owned.reset();
  } else {
    state.self = std::move(owned);
  }
  // Last, because from here on the state lies in the cache of the thread that makes the call. If this throws, the
  // future is broken, and its destructor waits for nothing.
  submit(*entry, state_type::how);
  return made;
}

/// The shared state of a future of a call. Null: the future is not one of future_of_call().
template <class Future>
call_state_base* call_of(const Future& future) noexcept {
  auto* const state = static_cast<library_state*>(const_cast<void*>(shared_state_of(future)));
  // relaxed: see open()
  if (state == nullptr || retrieved_flag_of(*state).test(std::memory_order_relaxed)) return nullptr;
  return static_cast<call_state_base*>(state);
}

/// In a task: makes the call of this future, or waits for it. False: the future is not one of future_of_call().
template <class R>
bool wait_for_call(std::future<R>& future) {
  call_state_base* const call = call_of(future);
  if (call != nullptr) call->help();
  return call != nullptr;
}

/// See call_state.hpp. wait_for() of a call's future would poll, and so call the pool.
template <class Future>
bool is_ready(const Future& future) {
  if (call_state_base* const call = call_of(future)) return call->is_ready();
  return future.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
}

}  // namespace async::inline v0_1::detail

#endif
