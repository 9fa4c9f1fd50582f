// SPDX-License-Identifier: BSL-1.0
//
// A pool ends as soon as the result of then(pool, f) is ready, while the thread that has made the source ready may
// still be on its way to the pool.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "async/async.hpp"
#include "support/scale.hpp"

namespace {

/// A thread that sets each promise that it gets.
class setter {
 public:
  setter()
      : thread_([this] {
          while (!end_) {
            auto* const given = next_.load(std::memory_order_acquire);
            if (given == nullptr) continue;
            given->set_value(1);
            next_.store(nullptr, std::memory_order_release);
          }
        }) {}
  ~setter() {
    end_ = true;
    thread_.join();
  }
  void set(async::promise<int>& p) { next_.store(&p, std::memory_order_release); }
  void wait() const {
    while (next_.load(std::memory_order_acquire) != nullptr) std::this_thread::yield();
  }

 private:
  std::atomic<async::promise<int>*> next_{nullptr};
  std::atomic<bool> end_{false};
  std::thread thread_;
};

void pause_for(unsigned rounds) {
  for (std::atomic<unsigned> left{rounds}; left != 0; --left) {
  }
}

/// end(future) makes the result of then(pool, f) ready, or waits for it. Returns how often f was not called.
template <class Pool, class Make, class End>
std::size_t end_pools(std::size_t rounds, Make make, End end) {
  setter other;
  std::minstd_rand random(static_cast<unsigned>(testing::seed()));
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    std::unique_ptr<Pool> pool = make();
    async::promise<int> promise;
    std::atomic<bool> called{false};
    async::future<int> result = promise.get_future().then(*pool, [&called](async::future<int> source) {
      called = true;
      return source.get();
    });
    other.set(promise);
    pause_for(static_cast<unsigned>(random() % 200));
    end(*pool, result);
    REQUIRE(result.is_ready());
    pool.reset();
    if (!called) ++dropped;
    other.wait();
  }
  return dropped;
}

}  // namespace

TEST_CASE("a pool of threads may end when a continuation was cancelled or made") {
  const std::size_t dropped = end_pools<async::threadpool>(
      testing::rounds(4'000), [] { return std::make_unique<async::threadpool>(0); },
      [](async::threadpool& pool, async::future<int>& result) {
        if (!result.cancel()) pool.configurepool(1);
        result.wait();
      });
  std::printf("count: %zu continuations cancelled as their sources became ready\n", dropped);
}

TEST_CASE("a pool of threads may end when a task that waited for a continuation has made it") {
  const std::size_t dropped = end_pools<async::threadpool>(
      testing::rounds(1'000), [] { return std::make_unique<async::threadpool>(1); },
      [](async::threadpool& pool, async::future<int>& result) { pool.post([&result] { result.wait(); }).get(); });
  CHECK(dropped == 0);
}

TEST_CASE("a blocking_pool may end when a continuation was cancelled or made") {
  const std::size_t dropped = end_pools<async::blocking_pool>(
      testing::rounds(4'000), [] { return std::make_unique<async::blocking_pool>(); },
      [](async::blocking_pool&, async::future<int>& result) {
        static_cast<void>(result.cancel());
        result.wait();
      });
  std::printf("count: %zu continuations cancelled as their sources became ready\n", dropped);
}
