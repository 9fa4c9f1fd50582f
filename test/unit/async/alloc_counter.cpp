// SPDX-License-Identifier: BSL-1.0
#include "support/alloc_counter.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "support/process_cpu_time.hpp"
#include "support/start_line.hpp"

namespace {
struct alignas(256) wide {
  char bytes[256] = {};
};
}  // namespace

TEST_CASE("the counter sees plain, array, over-aligned and nothrow allocations") {
  testing::alloc_counter counter;
  std::unique_ptr<int> plain(testing::escape(new int(1)));
  std::unique_ptr<int[]> array(testing::escape(new int[100]));
  std::unique_ptr<wide> aligned(testing::escape(new wide));
  std::unique_ptr<int> nothrow(testing::escape(new (std::nothrow) int(2)));
  CHECK(counter.calls() == 4);
  CHECK(counter.calls_of_this_thread() == 4);
  CHECK(counter.live() == 4);
  plain.reset();
  array.reset();
  aligned.reset();
  nothrow.reset();
  CHECK(counter.live() == 0);
}

TEST_CASE("every allocation of a piece of work can be made to fail") {
  std::size_t tries = 0;
  for (std::size_t k = 0;; ++k, ++tries) {
    testing::fail_alloc failing(k);
    try {
      std::unique_ptr<int> a(testing::escape(new int(1)));
      std::unique_ptr<wide> b(testing::escape(new wide));
      std::unique_ptr<int[]> c(testing::escape(new int[10]));
    } catch (const std::bad_alloc&) {
      CHECK(failing.has_failed());
      continue;
    }
    CHECK_FALSE(failing.has_failed());
    break;
  }
  CHECK(tries == 3);
  std::unique_ptr<int> after(testing::escape(new (std::nothrow) int(4)));
  CHECK(after != nullptr);
}

TEST_CASE("a failure can be set for all threads and is used up once") {
  testing::fail_alloc failing(1, testing::fail_alloc::scope::all_threads);
  int caught = 0;
  for (int i = 0; i < 4; ++i) {
    try {
      delete testing::escape(new int(i));
    } catch (const std::bad_alloc&) {
      ++caught;
      CHECK(i == 1);
    }
  }
  CHECK(caught == 1);
}

TEST_CASE("without memory every allocation of this thread fails, and no other's") {
  int caught = 0, succeeded = 0;
  testing::start_line before(2);
  testing::start_line after(2);
  testing::run_threads(2, [&](std::size_t i) {
    std::optional<testing::no_memory> none;
    if (i == 0) none.emplace();
    before.wait();
    for (int k = 0; k < 3; ++k) {
      try {
        delete testing::escape(new int(k));
        if (i == 1) ++succeeded;
      } catch (const std::bad_alloc&) {
        if (i == 0) ++caught;
      }
    }
    after.wait();
    none.reset();
    delete testing::escape(new int(5));
  });
  CHECK(caught == 3);
  CHECK(succeeded == 3);
}

TEST_CASE("threads of a start line all run and CPU time goes up by their work") {
  std::vector<int> ran(4);
  const auto before = testing::process_cpu_time();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do testing::run_threads(ran.size(), [&](std::size_t i) { ran[i] = 1; });
  while (testing::process_cpu_time() == before && std::chrono::steady_clock::now() < deadline);  // of coarse clocks
  CHECK(ran == std::vector<int>(4, 1));
  CHECK(testing::process_cpu_time() > before);
}
