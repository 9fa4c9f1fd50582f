// SPDX-License-Identifier: BSL-1.0
//
// The result of pop() is awaited once, which has to be seen where it has a name.
// expect: are awaited once: write co_await queue\.pop\(\) or, of one that is kept, co_await std::move\(kept\)
#include <utility>

#include "async/queue.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<bool> wait(async::queue<int>& queue) {
  auto next = queue.pop();
#ifndef CONTROL
  auto value = co_await next;
#else
  auto value = co_await std::move(next);
#endif
  co_return value.has_value();
}

int main() {
  async::queue<int> queue;
  steps::interop::start(wait(queue));
}
