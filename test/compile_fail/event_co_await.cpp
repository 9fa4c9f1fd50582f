// SPDX-License-Identifier: BSL-1.0
//
// An event has a function that says what a coroutine waits for.
// expect: write co_await event\.on_set\(\)
#include <coroutine>

#include "async/event.hpp"

struct coroutine {
  struct promise_type {
    coroutine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};

coroutine wait(async::event& event) {
#ifndef CONTROL
  co_await event;
#else
  co_await event.on_set();
#endif
}

int main() {
  async::event event(true);
  wait(event);
}
