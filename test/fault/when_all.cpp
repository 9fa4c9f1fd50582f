// SPDX-License-Identifier: BSL-1.0
//
// when_all() and when_any() without memory take no future, and can be ended.
#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/alloc_counter.hpp"

namespace {

template <class F>
void fail_each(F combine) {
  std::size_t failures = 0;
  for (std::size_t k = 0;; ++k) {
    async::promise<int> one;
    async::promise<int> two;
    async::future<int> a = one.get_future();
    async::future<int> b = two.get_future();
    std::optional<decltype(combine(a, b))> made;  // its end may take memory for the cache of recycled blocks
    testing::fail_alloc failing(k);
    try {
      made = combine(a, b);
    } catch (const std::bad_alloc&) {
    }
    const bool is_refused = !made;
    failing.stop();
    CHECK(is_refused == failing.has_failed());
    CHECK(a.valid() == is_refused);
    CHECK(b.valid() == is_refused);
    if (!is_refused) break;
    ++failures;
  }
  CHECK(failures != 0);
}

/// Calls end(result) without memory. Nothing is left of the future in it then.
template <class F, class G>
void end_without_memory(F combine, G end) {
  const auto value = std::make_shared<int>(1);
  {
    async::promise<std::shared_ptr<int>> promise;
    const async::shared_future<std::shared_ptr<int>> future = promise.get_future().share();
    auto made = std::make_optional(combine(future));
    {
      const testing::fail_alloc failing(0);
      end(made);
    }
    promise.set_value(value);
  }
  CHECK(value.use_count() == 1);
}

}  // namespace

TEST_CASE("when_all without memory throws, and takes no future") {
  fail_each([](auto& a, auto& b) { return async::when_all(std::move(a), std::move(b)); });
}

TEST_CASE("when_any without memory throws, and takes no future") {
  fail_each([](auto& a, auto& b) { return async::when_any(std::move(a), std::move(b)); });
}

TEST_CASE("when_all and when_any are cancelled and dropped without memory") {
  const auto cancel = [](auto& made) {
    CHECK(made->cancel());
    CHECK(made->has_exception());
  };
  const auto drop = [](auto& made) { made.reset(); };
  const auto all = [](auto& future) { return async::when_all(future, future); };
  const auto any = [](auto& future) { return async::when_any(future, future); };
  end_without_memory(all, cancel);
  end_without_memory(any, cancel);
  end_without_memory(all, drop);
  end_without_memory(any, drop);
}
