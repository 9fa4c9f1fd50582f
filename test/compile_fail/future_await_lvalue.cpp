// SPDX-License-Identifier: BSL-1.0
//
// co_await takes the result out of a future, which has to be seen.
// expect: write co_await std::move\(future\)
#include <coroutine>
#include <utility>

#include "async/future.hpp"

struct coroutine {
  struct promise_type {
    coroutine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};

coroutine wait(async::future<int> future) {
#ifndef CONTROL
  co_await future;
#else
  co_await std::move(future);
#endif
}

int main() { wait(async::make_ready_future(1)); }
