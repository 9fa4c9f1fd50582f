// SPDX-License-Identifier: BSL-1.0
//
// A task waits for a long chain of then(), whose links take memory that is refused.
#include <doctest/doctest.h>

#include <cstddef>
#include <utility>

#include "async/async.hpp"
#include "support/alloc_counter.hpp"

TEST_CASE("a task that has no memory for all links of a chain of then() makes them all the same") {
  async::threadpool pool(1);
  constexpr int links = 1'000;
  for (std::size_t k = 0; k != 4; ++k) {  // what keeps the links grows four times
    const int sum = pool.post([&pool, k] {
                          async::future<int> last = pool.post([] { return 0; });
                          for (int i = 0; i < links; ++i) {
                            last = std::move(last).then(pool, [](async::future<int> f) { return f.get() + 1; });
                          }
                          testing::fail_alloc failing(k);
                          last.wait();
                          failing.stop();
                          CHECK(failing.has_failed());
                          return last.get();
                        })
                        .get();
    CHECK(sum == links);
  }
}
