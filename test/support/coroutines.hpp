// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle, suspend_never, suspend_always
#include <exception>  // for terminate

namespace testing {

/// A coroutine type of another library, which may be destroyed while it waits.
struct other_coroutine {
  struct promise_type {
    other_coroutine get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

}  // namespace testing
