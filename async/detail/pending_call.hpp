// SPDX-License-Identifier: BSL-1.0
// floor: 3
#pragma once
#include <exception>    // for exception_ptr, current_exception
#include <functional>   // for invoke
#include <future>       // for future, promise
#include <memory>       // for destroy_at, allocator_arg
#include <new>          // for operator new
#include <optional>     // for optional
#include <tuple>        // for tuple, apply
#include <type_traits>  // for decay_t, invoke_result_t, is_void_v
#include <utility>      // for forward, move, exchange, in_place

#include "async/detail/block_cache.hpp"  // for allocate_block, free_block, block_allocator
#include "async/detail/config.hpp"       // for ASYNC_TSAN

namespace async::detail {

#if ASYNC_TSAN
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);

/// Hides a scope from ThreadSanitizer. For the release of an exception that another thread has got from a future: the
/// references to it are counted inside the standard library's binary, where ThreadSanitizer does not see them.
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

template <class F, class... Args>
using call_result = std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>;

/// A call to be made later, on another thread: what to call and with what, and the promise of its result.
///
/// Copies are made as std::async makes them: in place, so that they need not be movable, and the call is made with
/// rvalues of them.
///
/// Threads     one at a time.
/// Exceptions  the constructor passes on what copying throws, and std::bad_alloc. run() keeps what the call throws for
///             the future.
/// Memory      the result and its shared state live in recycled blocks.
template <class R, class... Call>
class pending_call {
 public:
  template <class... From>
  explicit pending_call(std::in_place_t, From&&... from) : call_(std::in_place, std::forward<From>(from)...) {}
  pending_call(const pending_call&) = delete;
  pending_call& operator=(const pending_call&) = delete;
  ~pending_call() {
#if ASYNC_TSAN
    const unseen_by_tsan quiet;
#endif
    promise_.reset();
  }

  std::future<R> get_future() { return promise_->get_future(); }

  /// Makes the call. What was called and its arguments are destroyed before the result can be seen.
  void run() noexcept {
    std::exception_ptr error;
    try {
      if constexpr (std::is_void_v<R>) {
        invoke();
        call_.reset();
        promise_->set_value();
      } else {
        R result = invoke();
        call_.reset();
        promise_->set_value(std::forward<R>(result));
      }
      return;
    } catch (...) {
      error = std::current_exception();
    }
    call_.reset();
    promise_->set_exception(std::move(error));  // after the catch block, which holds a reference of its own
  }

 private:
  R invoke() {
    return std::apply([](auto&&... part) -> R { return std::invoke(std::forward<decltype(part)>(part)...); },
                      std::move(*call_));
  }

  std::optional<std::tuple<Call...>> call_;
  std::optional<std::promise<R>> promise_{std::in_place, std::allocator_arg, block_allocator<char>{}};
};

/// Owns a pending call in a recycled block; small enough to be kept inside a task.
template <class Call>
class call_handle {
 public:
  template <class... From>
  explicit call_handle(From&&... from) : memory_{allocate_block(sizeof(Call), alignof(Call))} {
    call_ = ::new (memory_.block) Call(std::in_place, std::forward<From>(from)...);
  }
  call_handle(call_handle&& other) noexcept
      : memory_{std::exchange(other.memory_.block, nullptr)}, call_(std::exchange(other.call_, nullptr)) {}
  call_handle& operator=(call_handle&&) = delete;
  ~call_handle() {
    if (call_ != nullptr) std::destroy_at(call_);
  }

  Call* operator->() const noexcept { return call_; }
  void operator()() noexcept { call_->run(); }

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

/// A call in a recycled block. Calling the handle, as a pool does with a task, makes the call.
template <class F, class... Args>
auto make_call(F&& f, Args&&... args) {
  using call = pending_call<call_result<F, Args...>, std::decay_t<F>, std::decay_t<Args>...>;
  return call_handle<call>(std::forward<F>(f), std::forward<Args>(args)...);
}

}  // namespace async::detail
