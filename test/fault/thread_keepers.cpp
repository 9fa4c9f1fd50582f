// SPDX-License-Identifier: BSL-1.0
//
// The first use of the library by a thread while malloc() fails: the C library would end the process where a
// thread_local variable cannot register its destructor.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "async/async.hpp"
#include "async/detail/base/platform.hpp"

#if ASYNCSTEPS_ON_LINUX && defined(__GLIBC__) && !ASYNCSTEPS_ASAN && !ASYNCSTEPS_TSAN
#include "support/child.hpp"
#include "support/scale.hpp"
#define MEMORY_CAN_BE_LIMITED 1
#else
#define MEMORY_CAN_BE_LIMITED 0
#endif

using async::threadpool;

namespace {

std::atomic<int> ended{0};
struct noted {
  ~noted() { ++ended; }
};

}  // namespace

TEST_CASE("a keeper is destroyed at the end of its thread") {
  bool is_kept = false;
  int ended_before = -1;
  std::thread([&] {
    is_kept = async::detail::platform::keep_until_thread_end<noted>();
    ended_before = ended;
  }).join();
  CHECK(is_kept);
  CHECK(ended_before == 0);
  CHECK(ended == 1);
}

#if MEMORY_CAN_BE_LIMITED

namespace {

struct taken_memory {
  taken_memory* next;
};
/// Takes all memory that malloc() has for this process, in a list. False: there is more than `most`.
bool take_all(taken_memory*& list, std::size_t most) noexcept {
  for (std::size_t size = std::size_t{1} << 20; size >= sizeof(taken_memory); size /= 2) {
    while (void* const block = std::malloc(size)) {
      list = ::new (block) taken_memory{list};
      if (most < size) return false;
      most -= size;
    }
  }
  return true;
}
void free_all(taken_memory* list) noexcept {
  while (list != nullptr) std::free(std::exchange(list, list->next));
}

/// What a new thread says of `use` while there is no memory: "done" or "bad_alloc".
template <class Use>
std::string without_memory(Use use) {
  const testing::ending end = testing::in_child([&use] {
    threadpool pool(1);
    async::future<int> made = pool.post([] { return 1; });
    made.wait();
    std::atomic<int> stage{0};
    std::thread fresh([&] {
      while (stage != 1) std::this_thread::yield();
      const char* said = "done";
      try {
        use(pool, made);
      } catch (const std::bad_alloc&) {
        said = "bad_alloc";
      }
      std::fputs(said, stderr);
      stage = 2;
    });
    constexpr std::size_t room = std::size_t{64} << 20;
    rlimit before{};
    ::getrlimit(RLIMIT_AS, &before);
    const rlimit small{room, before.rlim_max};
    ::setrlimit(RLIMIT_AS, &small);
    taken_memory* all = nullptr;
    if (!take_all(all, 2 * room)) std::fputs("no limit, ", stderr);
    stage = 1;
    while (stage != 2) std::this_thread::yield();
    ::setrlimit(RLIMIT_AS, &before);
    free_all(all);
    fresh.join();
  });
  if (end.signal != 0) return "signal " + std::to_string(end.signal) + ": " + end.error;
  return end.error;
}

}  // namespace

TEST_CASE("without memory, a thread's first use of the library throws std::bad_alloc or succeeds") {
  const std::string limited = without_memory([](threadpool&, auto&) { ::operator delete(::operator new(64)); });
  if (testing::emulated() && limited != "bad_alloc") return;  // the emulator's memory is not limited
  REQUIRE(limited == "bad_alloc");
  const auto is_survived = [](const std::string& said) { return said == "bad_alloc" || said == "done"; };
  CHECK(is_survived(without_memory([](threadpool&, auto&) { const async::promise<int> p; })));
  CHECK(without_memory([](threadpool&, async::future<int>& made) { made = {}; }) == "done");
  CHECK(is_survived(without_memory([](threadpool& pool, auto&) {
    async::task_group g(pool);
    g.run([] {});
    g.wait();
  })));
  CHECK(is_survived(without_memory([](threadpool& pool, auto&) { async::parallel_for(pool, 0, 9, [](int) {}); })));
}

#endif
