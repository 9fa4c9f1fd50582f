// SPDX-License-Identifier: BSL-1.0
//
// when_all() and when_any() without memory take no future.
#include <doctest/doctest.h>

#include <cstddef>
#include <new>
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
    bool is_refused = false;
    testing::fail_alloc failing(k);
    try {
      combine(a, b);
    } catch (const std::bad_alloc&) {
      is_refused = true;
    }
    failing.stop();
    CHECK(is_refused == failing.has_failed());
    CHECK(a.valid() == is_refused);
    CHECK(b.valid() == is_refused);
    if (!is_refused) break;
    ++failures;
  }
  CHECK(failures != 0);
}

}  // namespace

TEST_CASE("when_all without memory throws, and takes no future") {
  fail_each([](auto& a, auto& b) { static_cast<void>(async::when_all(std::move(a), std::move(b))); });
}

TEST_CASE("when_any without memory throws, and takes no future") {
  fail_each([](auto& a, auto& b) { static_cast<void>(async::when_any(std::move(a), std::move(b))); });
}
