// SPDX-License-Identifier: BSL-1.0
//
// The arguments of a pool: options, callables, ranges, futures.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <ranges>
#include <sstream>
#include <string>
#include <utility>

#include "async/threadpool.hpp"

using async::threadpool;
using async::threadpool_options;

TEST_CASE("bulk_execute reads no more of the range than `count` elements") {
  std::istringstream stream("x y z");
  threadpool pool(1);
  std::atomic<int> ran{0};
  const auto count = [&ran](const std::string&) { return [&ran] { ++ran; }; };
  pool.bulk_execute(std::views::transform(std::views::istream<std::string>(stream), count).begin(), 2);
  std::string next;
  stream >> next;
  CHECK(next == "z");
  pool.wait_idle();
  CHECK(ran == 2);
}

TEST_CASE("execute and bulk_execute copy callables that cannot be moved, as post does") {
  struct immovable {
    explicit immovable(std::atomic<int>& c) : calls(c) {}
    immovable(const immovable& other) : calls(other.calls) {}
    immovable(immovable&&) = delete;
    void operator()() const { ++calls; }
    void operator()(const immovable&) const { ++calls; }
    std::atomic<int>& calls;
  };
  std::atomic<int> calls{0};
  {
    threadpool pool(1);
    const immovable call(calls);
    pool.execute(call);
    pool.execute(call, call);
    pool.bulk_execute(&call, 1);
  }
  CHECK(calls == 3);
}

TEST_CASE("wait takes a temporary future") {
  threadpool pool(1);
  CHECK(pool.wait(pool.post([] { return 5; })) == 5);
  CHECK(pool.wait(pool.post([&] { return pool.wait(pool.post([] { return 6; })); })) == 6);
}

TEST_CASE("options can be named in the constructor's call, without a warning about the others") {
  threadpool pool(threadpool_options{.threads = 3});
  CHECK(pool.size() == 3);
  threadpool bounded({.threads = 1, .max_queue = 5, .when_full = threadpool_options::overflow::reject, .name = "few"});
  CHECK(bounded.size() == 1);
}

TEST_CASE("a hook that is null or an empty std::function is not called") {
  threadpool_options options;
  options.threads = 1;
  void (*const no_function)(std::size_t) = nullptr;
  options.on_thread_start = no_function;
  options.on_thread_stop = std::function<void(std::size_t)>();
  options.on_unhandled = std::function<void(std::exception_ptr)>();
  CHECK_FALSE(options.on_thread_start);
  CHECK_FALSE(options.on_thread_stop);
  CHECK_FALSE(options.on_unhandled);
  {
    threadpool pool(std::move(options));
    CHECK(pool.post([] { return 7; }).get() == 7);
  }
  std::atomic<int> started{0};
  threadpool_options more;
  more.threads = 1;
  more.on_thread_start = std::function<void(std::size_t)>([&started](std::size_t) { ++started; });
  more.on_thread_stop = [](std::size_t) {};
  threadpool(std::move(more)).stop();
  CHECK(started == 1);
}
