// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle, suspend_never
#include <exception>  // for terminate

namespace testing {

/// A coroutine that destroys itself at its end, or is destroyed while it waits.
struct detached {
  struct promise_type {
    detached get_return_object() noexcept { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

}  // namespace testing
