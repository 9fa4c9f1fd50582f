// SPDX-License-Identifier: BSL-1.0
//
// The same for a selection.
// expect: a selection is awaited once: write co_await async::selection
#include <optional>
#include <utility>

#include "async/queue.hpp"
#include "async/select.hpp"
#include "steps/interop/coroutine.hpp"

steps::interop::task<> wait(async::queue<int>& queue) {
  auto first = async::selection(async::on_pop(queue, [](std::optional<int>) {}));
#ifndef CONTROL
  co_await first;
#else
  co_await std::move(first);
#endif
}

int main() {
  async::queue<int> queue;
  steps::interop::start(wait(queue));
}
