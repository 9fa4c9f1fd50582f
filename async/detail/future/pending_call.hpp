// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>    // for exception_ptr, current_exception
#include <functional>   // for invoke
#include <future>       // for future, promise
#include <memory>       // for destroy_at, allocator_arg, shared_ptr
#include <new>          // for placement new
#include <optional>     // for optional
#include <tuple>        // for tuple, apply
#include <type_traits>  // for conditional_t, decay_t, invoke_result_t, is_void_v
#include <utility>      // for forward, move, exchange, in_place

#include "async/detail/base/block_cache.hpp"     // for allocate_block, free_block, block_allocator
#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_TSAN
#include "async/detail/future/fulfil.hpp"        // for fulfil, fulfil_or_fail, fail, broken_promise
#include "async/detail/future/future_watch.hpp"  // for shared_state_of, tell_watchers_of
#include "async/task.hpp"                        // for fits_in_task

namespace async::inline v0_1::detail {

#if ASYNCSTEPS_TSAN
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);

/// Hides a scope from ThreadSanitizer. Used to release an exception that another thread has got from a future: its
/// references are counted inside the standard library's binary, which ThreadSanitizer does not see.
struct unseen_by_tsan {
  unseen_by_tsan() noexcept {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~unseen_by_tsan() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  unseen_by_tsan(const unseen_by_tsan&) = delete;
  unseen_by_tsan& operator=(const unseen_by_tsan&) = delete;
};
#endif

/// A reference to a shared state, released unseen by ThreadSanitizer: it may be the last one of the state's exception.
template <class T>
struct kept_state {
  explicit kept_state(std::shared_ptr<T>&& other) noexcept : held(std::move(other)) {}
  ~kept_state() {
#if ASYNCSTEPS_TSAN
    const unseen_by_tsan quiet;
    held.reset();
#endif
  }
  kept_state(const kept_state&) = delete;
  kept_state& operator=(const kept_state&) = delete;

  std::shared_ptr<T> held;
};

/// Makes a promise whose result and shared state live in recycled blocks. Throws std::bad_alloc.
template <class R>
std::promise<R> make_promise() {
  return std::promise<R>(std::allocator_arg, block_allocator<char>{});
}

/// Makes the future ready with an error, and notifies its watchers.
template <class R>
[[gnu::noinline]] void refuse(std::promise<R>&& promise, std::exception_ptr error) noexcept {
  const void* const state = shared_state_of(promise);
  {
#if ASYNCSTEPS_TSAN
    const unseen_by_tsan quiet;
#endif
    std::promise<R> last(std::move(promise));
    fail(last, std::move(error));
  }
  tell_watchers_of(state);
}
/// Breaks the promise of a call that will not be made.
template <class R>
[[gnu::noinline]] void abandon(std::promise<R>&& promise) noexcept {
  refuse(std::move(promise), broken_promise());
}

/// A call to be made later, on another thread: function, arguments, and the promise of the result.
///
/// Function and arguments are copied as by std::async: in place, so that they need not be movable. The call is made
/// with rvalues of the copies. A pending_call can be moved if they can.
///
/// Threads     one at a time.
/// Exceptions  the constructor: what copying throws, and std::bad_alloc. An exception of the call is kept for the
///             future.
/// Memory      the result and its shared state live in recycled blocks.
template <class R, class... Call>
class pending_call {
 public:
  template <class... From>
  explicit pending_call(std::in_place_t, From&&... from) : call_(std::in_place, std::forward<From>(from)...) {}
  pending_call(pending_call&&) = default;
  pending_call& operator=(pending_call&&) = delete;
  ~pending_call() {
    if (call_.has_value() && shared_state_of(promise_) != nullptr) abandon(std::move(promise_));
#if ASYNCSTEPS_TSAN
    const unseen_by_tsan quiet;
    const std::promise<R> gone(std::move(promise_));
#endif
  }

  std::future<R> get_future() { return promise_.get_future(); }

  /// Makes the call. Function and arguments are destroyed before the result can be seen. Throws nothing; only
  /// pthread_exit() in the call unwinds through it.
  void operator()() {
    const void* const state = shared_state_of(promise_);
    make();
    tell_watchers_of(state);
  }

 private:
  void make() {
    std::exception_ptr error;
    try {
      if constexpr (std::is_void_v<R>) {
        invoke();
        return fulfil(promise_);
      } else {
        return fulfil_or_fail(promise_, invoke());
      }
    } catch (...) {
      error = std::current_exception();
      if (error == nullptr) {  // pthread_exit()
        abandon(std::move(promise_));
        throw;
      }
    }
    fail(promise_, std::move(error));  // after the catch block, which holds a reference of its own
  }

  R invoke() {
    struct release {
      std::optional<std::tuple<Call...>>& call;
      ~release() { call.reset(); }
    } const at_end{call_};
    return std::apply([](auto&&... part) -> R { return std::invoke(std::forward<decltype(part)>(part)...); },
                      std::move(*call_));
  }

  std::optional<std::tuple<Call...>> call_;
  std::promise<R> promise_ = make_promise<R>();
};

/// Owns a pending call in a recycled block: a call that cannot be moved, or is too large to be kept inside a task.
template <class Call>
class call_handle {
 public:
  template <class... From>
  explicit call_handle(std::in_place_t, From&&... from) : memory_{allocate_block(sizeof(Call), alignof(Call))} {
    call_ = ::new (memory_.block) Call(std::in_place, std::forward<From>(from)...);
  }
  call_handle(call_handle&& other) noexcept
      : memory_{std::exchange(other.memory_.block, nullptr)}, call_(std::exchange(other.call_, nullptr)) {}
  call_handle& operator=(call_handle&&) = delete;
  ~call_handle() {
    if (call_ != nullptr) std::destroy_at(call_);
  }

  auto get_future() { return call_->get_future(); }
  void operator()() { (*call_)(); }

 private:
  struct memory {
    void* block;
    ~memory() {
      if (block != nullptr) free_block(block, sizeof(Call), alignof(Call));
    }
  };
  memory memory_;
  Call* call_ = nullptr;
};

template <class F, class... Args>
using call_result = std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>;

/// Makes a pending call, or a handle to one, that fits inside a task. It has get_future(), and operator() makes the
/// call.
template <class F, class... Args>
auto make_call(F&& f, Args&&... args) {
  using call = pending_call<call_result<F, Args...>, std::decay_t<F>, std::decay_t<Args>...>;
  using kept = std::conditional_t<fits_in_task<call>, call, call_handle<call>>;
  return kept(std::in_place, std::forward<F>(f), std::forward<Args>(args)...);
}

}  // namespace async::inline v0_1::detail
