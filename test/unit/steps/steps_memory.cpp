// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "support/alloc_counter.hpp"
#include "support/flows.hpp"

// The memory of waiting flows, in a program that has had none before.

using steps::IAsyncSteps;
using testing::alloc_counter;
using testing::bench;
using namespace std::chrono_literals;

namespace {

[[maybe_unused]] const bool as_in_programs = testing::alloc::use_slabs(true);

/// The memory in use, as far as malloc tells, without the blocks that the library keeps.
std::size_t used_bytes() {
  static_cast<void>(async::detail::trim_blocks());
#if defined(__GLIBC__)
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}

}  // namespace

TEST_CASE("a suspended flow takes at most 512 bytes, with its object and malloc's overhead") {
  constexpr std::size_t count = 40'000;
  bench b;
  std::vector<steps::AsyncSteps> flows;
  flows.reserve(count);
  const std::size_t before = used_bytes();
  const alloc_counter counter;
  for (std::size_t i = 0; i < count; ++i) {
    flows.emplace_back(b.loop);
    flows.back().add([](IAsyncSteps& asi) { asi.add([](IAsyncSteps& inner) { inner.setTimeout(1h); }); });
    flows.back().execute();
  }
  b.drain();
  // One block a flow; the ready ring has grown a few times, once for each doubling.
  CHECK(counter.live() <= static_cast<std::ptrdiff_t>(count) + 12);
  constexpr std::size_t ready_ring = 2 * 65'536 * sizeof(void*);
  CHECK(used_bytes() - before <= count * (512 - sizeof(steps::AsyncSteps)) + ready_ring);
}

TEST_CASE("with a future, an object, a completion and a timer it takes at most 1,200 bytes") {
  constexpr std::size_t count = 40'000;
  struct object {
    int values[8] = {};
  };
  bench b;
  std::vector<steps::AsyncSteps> flows;
  std::vector<async::future<int>> futures;
  std::vector<steps::completion<int>> completions;
  flows.reserve(count);
  futures.reserve(count);
  completions.reserve(count);
  const std::size_t before = used_bytes();
  for (std::size_t i = 0; i < count; ++i) {
    flows.emplace_back(b.loop);
    flows.back().add([&completions](IAsyncSteps& asi) {
      asi.add([&completions](IAsyncSteps& inner) {
        inner.setTimeout(1h);
        inner.stack<object>();
        completions.push_back(inner.completion<int>());
      });
    });
    futures.push_back(flows.back().promise<int>());
  }
  b.drain();
  constexpr std::size_t ready_ring = 2 * 65'536 * sizeof(void*);
  CHECK(used_bytes() - before <= count * (1'200 - sizeof(steps::AsyncSteps)) + ready_ring);
  for (std::size_t i = 0; i < count; ++i) completions[i].success(static_cast<int>(i));
  b.drain();
  CHECK(futures.back().get() == static_cast<int>(count - 1));
}

TEST_CASE("on a pool, where it has a loop of its own, it takes at most 1,200 bytes") {
  constexpr std::size_t count = 60'000;
  struct object {
    int values[8] = {};
  };
  async::threadpool pool(2);
  std::vector<steps::AsyncSteps> flows;
  std::vector<async::future<int>> futures;
  std::vector<steps::completion<int>> completions(count);
  std::atomic<std::size_t> waiting{0};
  flows.reserve(count);
  futures.reserve(count);
  const auto wait_for = [&waiting](std::size_t all) {
    for (std::size_t n = 0; (n = waiting.load(std::memory_order_acquire)) != all;) waiting.wait(n);
  };
  const auto begin_wait = [&](IAsyncSteps& asi, std::size_t i) {
    asi.setTimeout(1h);
    asi.stack<object>();
    completions[i] = asi.completion<int>();
    waiting.fetch_add(1, std::memory_order_release);
    waiting.notify_one();
  };
  std::size_t limit = 1'200;
  const std::size_t before = used_bytes();
  SUBCASE("AsyncSteps") {
    limit -= sizeof(steps::AsyncSteps);
    for (std::size_t i = 0; i < count; ++i) {
      if (i % 64 == 0) wait_for(i);  // so that the pool's queue takes little
      flows.emplace_back(pool);
      flows.back().add([&begin_wait, i](IAsyncSteps& asi) {
        asi.add([&begin_wait, i](IAsyncSteps& inner) { begin_wait(inner, i); });
      });
      futures.push_back(flows.back().promise<int>());
    }
  }
  SUBCASE("steps::post") {
    for (std::size_t i = 0; i < count; ++i) {
      if (i % 64 == 0) wait_for(i);
      futures.push_back(steps::post<int>(pool, [&begin_wait, i](IAsyncSteps& asi) { begin_wait(asi, i); }));
    }
  }
  wait_for(count);
  CHECK(used_bytes() - before <= count * limit);
  for (std::size_t i = 0; i < count; ++i) completions[i].success(static_cast<int>(i));
  for (std::size_t i = 0; i < count; ++i) REQUIRE(futures[i].get() == static_cast<int>(i));
}

TEST_CASE("the parts of a waiting flow outside of itself lie in few cache lines") {
  if constexpr (sizeof(void*) == 8) {
    CHECK(sizeof(steps::detail::result_block<int>) <= 64);
    CHECK(sizeof(steps::detail::result_block<void*>) <= 64);
    CHECK(sizeof(steps::detail::promised_flow<int>) <= 64);
    CHECK(sizeof(async::detail::loop_core) <= 256);  // of a flow on a pool, with the next two
    CHECK(sizeof(async::detail::pool_loop) <= 64);
    CHECK(sizeof(async::detail::loop_slot) <= 64);
  }
}
