// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle, suspend_never, suspend_always
#include <exception>  // for exception_ptr, current_exception, rethrow_exception, terminate
#include <utility>    // for exchange, swap

namespace testing {

/// A coroutine that runs until its first wait, and goes on when it is resumed. It is destroyed with its walker, also
/// while it waits. rethrow() throws what has left it, and has to be called then.
struct walker {
  struct promise_type {
    walker get_return_object() { return walker{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }
    std::exception_ptr error;
  };
  walker() = default;
  explicit walker(std::coroutine_handle<promise_type> h) : handle(h) {}
  walker(walker&& other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  walker& operator=(walker&& other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }
  ~walker() { destroy(); }
  void destroy() {
    if (!handle) return;
    if (handle.promise().error) std::terminate();
    std::exchange(handle, nullptr).destroy();
  }
  bool is_done() const { return handle.done(); }
  void rethrow() const {
    if (handle.promise().error) std::rethrow_exception(std::exchange(handle.promise().error, nullptr));
  }
  std::coroutine_handle<promise_type> handle;
};

}  // namespace testing
