// SPDX-License-Identifier: BSL-1.0
//
// A future_group without memory takes no future, and its destructor waits all the same.
#include "async/future_group.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "async/async.hpp"
#include "support/alloc_counter.hpp"

TEST_CASE("future_group without memory: add() takes no future, when_empty() throws") {
  std::size_t failures = 0;
  for (std::size_t k = 0;; ++k) {
    async::promise<int> promise;
    async::future<int> member = promise.get_future();
    bool is_refused = false;
    testing::fail_alloc failing(k);
    try {
      async::future_group group;
      try {
        group.add(std::move(member));
        static_cast<void>(group.when_empty());
      } catch (const std::bad_alloc&) {
        CHECK(member.valid() == (group.size() == 0));
        is_refused = true;
      }
      promise.set_value(1);
      failing.stop();
      CHECK(group.size() == 0);
      group.when_empty().get();
    } catch (const std::bad_alloc&) {
      is_refused = true;
    }
    failing.stop();
    CHECK(is_refused == failing.has_failed());
    if (!is_refused) break;
    ++failures;
  }
  CHECK(failures != 0);
}

TEST_CASE("future_group without memory: the destructor waits") {
  async::threadpool pool(1);
  std::atomic<bool> goes_on{false};
  std::atomic<bool> has_ended{false};
  std::promise<void> has_begun;
  auto group = std::make_unique<async::future_group>();
  group->add(pool.post([&] {
    has_begun.set_value();
    goes_on.wait(false);
    has_ended = true;
  }));
  has_begun.get_future().wait();
  const async::future_group& members = *group;
  bool has_waited = false;
  bool is_refused = false;
  std::thread destroyer([&] {  // a thread without recycled blocks
    const testing::no_memory none;
    try {
      static_cast<void>(group->when_empty());
    } catch (const std::bad_alloc&) {
      is_refused = true;
    }
    group.reset();
    has_waited = has_ended;
  });
  while (!members.is_cancelling()) std::this_thread::yield();
  goes_on = true;
  goes_on.notify_all();
  destroyer.join();
  CHECK(is_refused);
  CHECK(has_waited);
}
