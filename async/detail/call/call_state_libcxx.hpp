// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <condition_variable>  // for condition_variable
#include <cstring>             // for memcpy
#include <exception>           // for exception_ptr, current_exception, make_exception_ptr
#include <future>              // for future, future_status, __assoc_state, __assoc_sub_state
#include <memory>              // for addressof
#include <mutex>               // for unique_lock, lock_guard, mutex
#include <new>                 // for placement new
#include <type_traits>         // for is_void_v, decay_t
#include <utility>             // for forward, move, in_place

#include "async/detail/base/chrono.hpp"            // for seconds
#include "async/detail/base/config.hpp"            // for ASYNCSTEPS_CALL_STATE
#include "async/detail/call/call_entry.hpp"        // for call_entry
#include "async/detail/call/call_memory.hpp"       // for call_memory, stored_call
#include "async/detail/future/broken_promise.hpp"  // for broken_promise
#include "async/detail/future/future_watch.hpp"    // for tell_watchers_of, shared_state_of
#include "async/detail/future/ready_actions.hpp"   // for actions_of_thread
#include "async/detail/pool/pool_worker.hpp"       // for end_if_returned

#if ASYNCSTEPS_CALL_STATE == 2

/// Futures of calls with libc++, whose shared states can be derived from. A std::future is a pointer to one.
///
/// libc++ calls back in a wait only while a state is marked as deferred. So a call of async::async is marked until a
/// thread takes it; until then timed waits return std::future_status::deferred.
namespace async::inline v0_1::detail {

template <class R>
struct library_state {
  using type = std::__assoc_state<R>;
};
template <>
struct library_state<void> {
  using type = std::__assoc_sub_state;
};

/// A bit of libc++'s shared states that libc++ does not use. It marks those of this library.
struct library_state_peek : std::__assoc_sub_state {
  static constexpr unsigned ours = 1U << 16;
  static void mark(std::__assoc_sub_state& state) noexcept { state.*(&library_state_peek::__state_) |= ours; }
  static bool is_marked(std::__assoc_sub_state& state) {
    const std::lock_guard lock(state.*(&library_state_peek::__mut_));
    return (state.*(&library_state_peek::__state_) & ours) != 0;
  }
};

/// The part of a call's shared state that depends on the result only.
template <class R>
class call_state_of : public library_state<R>::type {
  using base = typename library_state<R>::type;

 public:
  call_entry* entry = nullptr;
  bool is_submitted = false;

  /// Waits until the call is done: in a task of the pool by making it, if no thread has taken it; in a task of another
  /// pool without blocking that pool.
  /// In a child of fork(): breaks a promise that only a thread of the parent can keep.
  void help() {
    static_cast<void>(actions_of_thread.before_wait());
    if (entry->is_inside()) return entry->wait_inside();
    if (entry->is_left_behind()) [[unlikely]]
      return leave();
    if (call_entry::is_in_task()) {
      return call_entry::wait_elsewhere(static_cast<const std::__assoc_sub_state*>(this), [this] {
        const std::lock_guard lock(this->__mut_);
        return this->__is_ready();
      });
    }
    std::unique_lock lock(this->__mut_);
    while (!this->__is_ready()) this->__cv_.wait(lock);
  }

 protected:
  explicit call_state_of(bool is_deferred) noexcept {
    library_state_peek::mark(*this);
    if (is_deferred) this->__set_deferred();
  }
  /// The call is under way: timed waits wait.
  void begin() {
    const std::lock_guard lock(this->__mut_);
    this->__state_ &= ~static_cast<unsigned>(base::deferred);
  }
  /// Drops the call, without destructors: a thread that is gone may have been making it.
  virtual void leak() noexcept = 0;
  void tell() noexcept { tell_watchers_of(static_cast<const std::__assoc_sub_state*>(this)); }

 private:
  void __execute() override { help(); }

  /// Makes the future ready with an error, unless it is. Threads that are gone may have locked the mutex, and may have
  /// slept on the condition variable.
  void leave() noexcept {
    ::new (static_cast<void*>(&this->__mut_)) std::mutex;
    ::new (static_cast<void*>(&this->__cv_)) std::condition_variable;
    if (this->__is_ready()) return;
    leak();
    begin();
    if (this->__has_value()) {
      this->__state_ |= static_cast<unsigned>(base::ready);
    } else {
      this->set_exception(std::make_exception_ptr(stopped_by_fork()));
    }
    tell();
  }
};

/// The shared state of a call. `Joins`: the last future waits in its destructor; else the state lives until the call
/// is done.
template <bool Joins, class R, class... Call>
class call_state final : public call_state_of<R> {
 public:
  template <class... From>
  explicit call_state(std::in_place_t, From&&... from)
      : call_state_of<R>(Joins), call_(std::in_place, std::forward<From>(from)...) {}
  call_state(const call_state&) = delete;

  static void* operator new(std::size_t, void* where) noexcept { return where; }
  static void operator delete(void*, void*) noexcept {}
  static void operator delete(void* where) noexcept { call_memory<call_state>::entry_of(where)->release(); }

  static const call_entry::operations how;

 private:
  void __on_zero_shared() noexcept override {
    if (Joins && this->is_submitted) this->help();
    library_state<R>::type::__on_zero_shared();
  }

  void leak() noexcept override { call_.leak(); }

  static void make(call_entry& e) {
    auto& state = of(e);
    const release_at_end here{state};
    std::exception_ptr error;
    if constexpr (Joins) state.begin();
    try {
      const auto call = [&state]() -> decltype(auto) {
        const struct end {
          ~end() {
            if constexpr (Joins) end_if_returned();
          }
        } at_end{};
        return state.call_();
      };
      if constexpr (std::is_void_v<R>) {
        call();
        state.set_value();
      } else {
        state.set_value(call());
      }
      return state.tell();
    } catch (...) {
      error = std::current_exception();
      if (error == nullptr) {  // pthread_exit()
        state.set_exception(broken_promise());
        state.tell();
        throw;
      }
    }
    state.set_exception(std::move(error));  // after the catch block, which holds a reference of its own
    state.tell();
  }
  static void refuse(call_entry& e, std::exception_ptr error) noexcept {
    auto& state = of(e);
    const release_at_end here{state};
    if constexpr (Joins) state.begin();
    state.call_.drop();
    state.set_exception(std::move(error));
    state.tell();
  }
  static call_state& of(call_entry& e) noexcept { return *static_cast<call_state*>(e.state); }

  struct release_at_end {
    call_state& state;
    ~release_at_end() {
      if constexpr (!Joins) state.__release_shared();
    }
  };

  stored_call<Call...> call_;
};

template <bool Joins, class R, class... Call>
const call_entry::operations call_state<Joins, R, Call...>::how{&call_state::make, &call_state::refuse};

/// A future of a call, which submit(entry, operations) hands to the code that will make it. Throws what copying and
/// submit() throw, and std::bad_alloc: then nothing was called.
template <bool Joins, class R, class Submit, class... Parts>
std::future<R> future_of_call(Submit submit, Parts&&... parts) {
  using state_type = call_state<Joins, R, std::decay_t<Parts>...>;
  const call_memory<state_type> memory;
  struct unused {
    call_entry* entry;
    ~unused() {
      if (entry != nullptr) entry->release();
    }
  } block{memory.entry};
  auto* const state = ::new (memory.state) state_type(std::in_place, std::forward<Parts>(parts)...);
  block.entry = nullptr;
  state->entry = memory.entry;
  memory.entry->state = state;
  std::future<R> made;
  static_assert(sizeof(made) == sizeof(void*));
  auto* const address = static_cast<typename library_state<R>::type*>(state);
  std::memcpy(static_cast<void*>(std::addressof(made)), &address, sizeof address);
  if constexpr (!Joins) state->__add_shared();
  if constexpr (Joins) state->is_submitted = true;  // a call that submit() refuses is ready
  submit(*memory.entry, state_type::how);
  return made;
}

/// In a task: makes the call of this future, or waits for it. False: the future is not one of call_in_pool().
template <class R>
bool wait_for_call(std::future<R>& future) {
  auto* const state = static_cast<std::__assoc_sub_state*>(const_cast<void*>(shared_state_of(future)));
  if (state == nullptr || !library_state_peek::is_marked(*state)) return false;
  static_cast<call_state_of<R>*>(static_cast<typename library_state<R>::type*>(state))->help();
  return true;
}

/// See call_state.hpp. A future of a call that no thread has taken says that it is deferred.
template <class Future>
bool is_ready(const Future& future) {
  const std::future_status status = future.wait_for(std::chrono::seconds(0));
  if (status != std::future_status::deferred) return status == std::future_status::ready;
  auto* const state = static_cast<std::__assoc_sub_state*>(const_cast<void*>(shared_state_of(future)));
  return !library_state_peek::is_marked(*state);
}

}  // namespace async::inline v0_1::detail

#endif
