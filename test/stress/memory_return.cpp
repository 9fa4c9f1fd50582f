// SPDX-License-Identifier: BSL-1.0
//
// trim() returns the memory of a burst to the system, also while other threads go on: the process's resident memory is
// at most 10 % and 256 KB more than before, and a little for each heap of the burst.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <future>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <unistd.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "async/queue.hpp"
#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "support/occupied.hpp"
#include "support/scale.hpp"

using async::threadpool;

namespace {

/// Resident memory of this process; 0: unknown, or not the program's alone (a sanitizer's, an emulator's).
std::size_t resident() {
#if ASYNCSTEPS_ON_LINUX
  if (testing::sanitized || testing::emulated()) return 0;
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t pages = 0;
  statm >> total >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
#else
  return 0;
#endif
}

/// Ten million with --all.
std::size_t elements() { return (std::min)(testing::rounds(2'500'000), std::size_t{10'000'000}); }
/// Each needs about 400 bytes.
std::size_t calls() { return (std::min)(testing::rounds(2'000'000), std::size_t{4'000'000}); }

/// Resident memory before a burst, which grows by at least `least` bytes and comes back.
class burst {
 public:
  explicit burst(std::size_t least) : least_(least), before_(resident()) {
#if defined(__GLIBC__)
    // glibc keeps so much at the end of each thread's heap, and returns it by no malloc_trim(). Unless it is set, it
    // rises with the first large block that is freed, here to 64 MB. Whether memory lies at an end is chance.
    ::mallopt(M_TRIM_THRESHOLD, 128 * 1024);
#endif
  }
  /// To be called at the peak.
  void at_peak() {
    peak_ = resident();
    if (before_ != 0) CHECK(peak_ > before_ + least_);
  }
  /// To be called after trim(). Pools' threads trim what is theirs soon after, and may be busy.
  void is_over(const char* what) const {
    if (before_ == 0) return;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    // glibc keeps two to four pages of each heap of 64 MB in a thread's arena. Blocks in the threads' caches keep
    // pages, too: at worst 3 MB for three threads, 64 blocks of each of four sizes; but neighbours share them.
    constexpr std::size_t in_caches = 256 * 1024;
    const std::size_t of_heaps = (peak_ - before_) / (std::size_t{64} << 20) * 16'384;
    const std::size_t most = before_ + before_ / 10 + of_heaps + in_caches;
    std::size_t now = resident();
    while (now > most && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      now = resident();
    }
    CHECK(now <= most);
    const auto kilobytes = [](std::size_t bytes) { return static_cast<unsigned long>(bytes >> 10); };
    std::printf("%s: %lu KB before the burst, %lu KB after trim()\n", what, kilobytes(before_), kilobytes(now));
  }

 private:
  const std::size_t least_;
  const std::size_t before_;
  std::size_t peak_ = 0;
};

/// While it lives, another thread calls f() again and again.
class meanwhile {
 public:
  template <class F>
  explicit meanwhile(F f)
      : thread_([this, f] {
          while (!is_over_) {
            f();
            std::this_thread::yield();
          }
        }) {}
  meanwhile(const meanwhile&) = delete;
  meanwhile& operator=(const meanwhile&) = delete;
  ~meanwhile() {
    is_over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

template <class T>
void fill_and_trim(const char* what) {
  async::queue<T> q;
  const meanwhile other([&q] {
    q.enqueue(T{});
    static_cast<void>(q.dequeue());
  });
  const std::size_t count = elements();
  burst b(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) q.enqueue(T{});
  b.at_peak();
  for (std::size_t i = 0; i < count; ++i) static_cast<void>(q.dequeue());
  q.trim();
  b.is_over(what);
}

/// A pool that has done a little of everything.
struct used_pool : threadpool {
  used_pool() : threadpool(2) {
    for (int i = 0; i < 100; ++i) post([i] { return i; }).get();
    for (int i = 0; i < 100; ++i) steps::post<int>(*this, [i](steps::IAsyncSteps& asi) { asi.success(i); }).get();
    wait_idle();
    trim();
  }
};

void post_from_outside(const char* what, std::size_t threads) {
  used_pool pool;
  const meanwhile other([&pool] { pool.post([] {}).get(); });
  const std::size_t each = elements() / threads;
  std::atomic<std::size_t> ran{0};
  burst b(each * threads * 32);
  {
    const testing::occupied busy(pool, 2);
    std::vector<std::thread> posters;
    for (std::size_t t = 0; t < threads; ++t) {
      posters.emplace_back([&] {
        for (std::size_t i = 0; i < each; ++i) pool.execute([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
      });
    }
    for (std::thread& t : posters) t.join();
    b.at_peak();
  }
  while (ran != each * threads) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK((resident() == 0 || threadpool::trim() > each * threads * 32));
  b.is_over(what);
}

/// post_one(pool, i) returns the future of i.
template <class Post>
void get_each(const char* what, Post post_one) {
  used_pool pool;
  const std::size_t count = calls();
  const meanwhile other([&pool] { pool.post([] {}).get(); });
  burst b(count * 200);
  {
    std::vector<std::future<std::size_t>> results;
    results.reserve(count);
    {
      const testing::occupied busy(pool, 2);
      for (std::size_t i = 0; i < count; ++i) results.push_back(post_one(pool, i));
      b.at_peak();
    }
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) wrong += results[i].get() != i ? 1U : 0U;
    CHECK(wrong == 0);
  }
  threadpool::trim();
  b.is_over(what);
}

}  // namespace

TEST_CASE("a queue returns the memory of a burst while others use it") {
  struct large {
    char bytes[64];
  };
  fill_and_trim<int>("queue of int");
  fill_and_trim<large>("queue of 64 bytes");
}

TEST_CASE("a pool returns the memory of tasks from outside while it runs others") {
  post_from_outside("execute from one thread", 1);
  post_from_outside("execute from four threads", 4);
}

TEST_CASE("a pool returns the memory of tasks that a task has posted while it runs others") {
  used_pool pool;
  std::atomic<std::size_t> ran{0};
  const std::size_t count = elements();
  const meanwhile other([&pool] { pool.post([] {}).get(); });
  burst b(count * 32);
  pool.post([&] {
        const testing::occupied thief(pool, 1);
        for (std::size_t i = 0; i < count; ++i) pool.execute([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
        b.at_peak();
      })
      .get();
  while (ran != count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  threadpool::trim();
  b.is_over("execute inside a task");
}

TEST_CASE("a pool returns the memory of calls with futures while it runs others") {
  get_each("post with futures", [](threadpool& pool, std::size_t i) { return pool.post([i] { return i; }); });
}

TEST_CASE("a pool returns the memory of calls whose futures have gone, which its workers free") {
  used_pool pool;
  const std::size_t count = calls();
  burst b(count * 200);
  {
    const testing::occupied busy(pool, 2);
    std::vector<std::future<void>> dropped;
    dropped.reserve(count);
    for (std::size_t i = 0; i < count; ++i) dropped.push_back(pool.post([] {}));
    b.at_peak();
  }
  pool.wait_idle();
  threadpool::trim();
  b.is_over("post without a look at the futures");
}

TEST_CASE("a pool returns the memory of flows while it runs others") {
  get_each("steps::post", [](threadpool& pool, std::size_t i) {
    return steps::post<std::size_t>(
        pool, [i](steps::IAsyncSteps& asi) { asi.add([i](steps::IAsyncSteps& step) { step.success(i); }); });
  });
}
