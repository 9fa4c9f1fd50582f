// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <utility>

#include "async/async.hpp"
#include "async/select.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

// Coroutines that wait for the first of several, by a flow. Rule 43 of steps/RULES.md.

using async::after;
using async::on_pop;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

using numbers = async::queue<int>;
using ring = async::bounded_queue<int>;

steps::interop::task<int> first_of(async::threadpool& pool, numbers& q, ring& r) {
  async::future<int> chosen = steps::post<int>(pool, [&q, &r](IAsyncSteps& asi) {
    const auto pass_on = [](IAsyncSteps& step, int v) { step.success(v); };
    asi.select(on_pop(q, pass_on), on_pop(r, pass_on), after(1h, [](IAsyncSteps& step) { step.success(-1); }));
  });
  co_return co_await std::move(chosen);
}

}  // namespace

TEST_CASE("rule 43: a coroutine awaits a flow that selects") {
  async::threadpool pool(1);
  numbers q;
  ring r(1);
  std::future<int> first = steps::interop::start(first_of(pool, q, r));
  std::future<int> second = steps::interop::start(first_of(pool, q, r));
  r.enqueue(7);
  q.enqueue(8);
  CHECK(first.get() + second.get() == 15);
  CHECK(q.empty());
  CHECK(r.empty());
}
