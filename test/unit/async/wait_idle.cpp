// SPDX-License-Identifier: BSL-1.0
//
// wait_idle_for() and wait_idle_until() of both pools.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <ratio>
#include <thread>
#include <utility>

#include "async/async.hpp"
#include "async/blocking_pool.hpp"
#include "steps/steps.hpp"
#include "support/thrown.hpp"

using async::blocking_pool;
using async::threadpool;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using namespace std::chrono_literals;

namespace {

struct small_pool : threadpool {
  small_pool() : threadpool(1) {}
};
struct small_blocking_pool : blocking_pool {
  small_blocking_pool() : blocking_pool({.max_threads = 1}) {}
};

/// A task that runs until end(), and one that waits behind it.
template <class Pool>
class busy_with {
 public:
  explicit busy_with(Pool& pool) {
    pool.execute([this] { go_.get_future().wait(); });
    pool.execute([this] { ++done_; });
  }
  void end() { go_.set_value(); }
  int done() const { return done_; }

 private:
  std::promise<void> go_;
  std::atomic<int> done_{0};
};

/// A clock that has come to its last moment when it is asked the third time.
struct hasty_clock {
  using duration = std::chrono::milliseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<hasty_clock>;
  [[maybe_unused]] static constexpr bool is_steady = false;
  static inline std::atomic<int> asked{0};
  static time_point now() noexcept { return time_point(++asked < 3 ? 0ms : 1ms); }
};

}  // namespace

TEST_CASE_TEMPLATE("wait_idle_for() and wait_idle_until() return false when the time is up, and true when all is done",
                   Pool, small_pool, small_blocking_pool) {
  Pool pool;
  CHECK(pool.wait_idle_for(1h));
  busy_with<Pool> work(pool);
  const auto begin = steady_clock::now();
  CHECK(!pool.wait_idle_for(0s));
  CHECK(!pool.wait_idle_for(-1h));
  CHECK(!pool.wait_idle_until(steady_clock::now()));
  CHECK(!pool.wait_idle_until((steady_clock::time_point::min)()));
  CHECK(!pool.wait_idle_until((system_clock::time_point::min)()));
  CHECK(steady_clock::now() - begin < 1min);  // they look only
  const auto before = steady_clock::now();
  CHECK(!pool.wait_idle_for(10ms));
  CHECK(!pool.wait_idle_for(std::chrono::duration<double, std::milli>(0.5)));
  CHECK(!pool.wait_idle_until(steady_clock::now() + 1ms));
  CHECK(!pool.wait_idle_until(system_clock::now() + 1ms));
  hasty_clock::asked = 0;
  CHECK(!pool.wait_idle_until(hasty_clock::time_point(1ms)));
  CHECK(hasty_clock::asked >= 3);
  CHECK(steady_clock::now() - before >= 10ms);
  CHECK(work.done() == 0);

  std::thread ends([&work] { work.end(); });
  CHECK(pool.wait_idle_for(1h));
  CHECK(work.done() == 1);
  ends.join();
}

TEST_CASE_TEMPLATE("the longest times do not overflow: the wait lasts until all is done", Pool, small_pool,
                   small_blocking_pool) {
  Pool pool;
  const auto waits = [&pool](auto wait) {
    busy_with<Pool> work(pool);
    std::atomic<bool> is_waiting{false};
    std::thread ends([&] {
      is_waiting.wait(false);
      work.end();
    });
    is_waiting = true;
    is_waiting.notify_all();
    CHECK(wait());
    CHECK(work.done() == 1);
    ends.join();
  };
  waits([&pool] { return pool.wait_idle_for((std::chrono::nanoseconds::max)()); });
  waits([&pool] { return pool.wait_idle_for((std::chrono::hours::max)()); });
  waits([&pool] { return pool.wait_idle_for(std::chrono::seconds(999'999'999)); });
  waits([&pool] { return pool.wait_idle_for(std::chrono::duration<double>(1e300)); });
  waits([&pool] { return pool.wait_idle_until((steady_clock::time_point::max)()); });
  waits([&pool] { return pool.wait_idle_until((system_clock::time_point::max)()); });
}

TEST_CASE_TEMPLATE("inside a task of the pool they throw, as wait_idle() does; in a task of another pool they wait",
                   Pool, small_pool, small_blocking_pool) {
  Pool pool;
  CHECK(pool.post([&pool] {
              return testing::is_deadlock([&pool] { static_cast<void>(pool.wait_idle_for(0s)); }) &&
                     testing::is_deadlock([&pool] { static_cast<void>(pool.wait_idle_until(steady_clock::now())); });
            })
            .get());
  CHECK(pool.wait_idle_for(1h));

  threadpool other(1);
  busy_with<Pool> work(pool);
  auto late = other.post([&pool] { return pool.wait_idle_for(1ms); });
  CHECK(!late.get());
  auto waits = other.post([&pool] { return pool.wait_idle_for(1h); });
  other.post([&work] { work.end(); }).get();  // another worker has taken the place of the one that waits
  CHECK(waits.get());
}

TEST_CASE("inside a task of the pool that has led the thread into another pool, they throw, as stop() does") {
  threadpool pool(1);
  threadpool other(1);
  threadpool full({.threads = 0, .max_queue = 1, .when_full = async::threadpool_options::overflow::caller_runs});
  full.execute([] {});
  int refused = 0;
  const auto count = [&] { refused += testing::is_deadlock([&pool] { static_cast<void>(pool.wait_idle_for(1ms)); }); };
  pool.post([&] { async::parallel_for(other, 0, 1, [&](int) { count(); }); }).get();
  pool.post([&] { full.execute(count); }).get();
  async::parallel_for(pool, 0, 1, [&](int) { async::parallel_for(other, 0, 1, [&](int) { count(); }); });
  CHECK(refused == 3);
  if (refused != 3) return;  // the others would hang
  pool.post([&] {
        async::parallel_for(other, 0, 1, [&](int) {
          refused += testing::is_deadlock([&pool] { pool.stop(); });
          refused += testing::is_deadlock([&pool] { static_cast<void>(pool.stop(async::discard)); });
        });
      })
      .get();
  CHECK(refused == 5);
  CHECK(pool.wait_idle_for(1h));
}

TEST_CASE("they throw inside a call of the pool that has led the thread into others, also where it drops calls") {
  struct at_end {
    std::function<void()> call;
    explicit at_end(std::function<void()> f) : call(std::move(f)) {}
    at_end(at_end&& from) noexcept : call(std::exchange(from.call, nullptr)) {}
    at_end& operator=(at_end&&) = delete;
    ~at_end() {
      if (call) call();
    }
    void operator()() const {}
  };
  int refused = 0;
  const auto count = [&refused](auto& pool) {
    refused += testing::is_deadlock([&pool] { static_cast<void>(pool.wait_idle_for(1ms)); });
  };
  threadpool other(1);
  const auto in_other = [&other](const auto& f) { async::parallel_for(other, 0, 1, [&f](int) { f(); }); };
  SUBCASE("a paused pool that drops a task") {
    threadpool pool(0);
    pool.execute(at_end([&] { in_other([&] { count(pool); }); }));
    CHECK(pool.stop(async::discard) == 1);
  }
  SUBCASE("a blocking_pool whose call makes another one drop a call") {
    blocking_pool pool;
    small_blocking_pool second;
    std::promise<void> go;
    second.execute([&go] { go.get_future().wait(); });
    second.execute(at_end([&] {
      count(pool);
      go.set_value();
    }));
    pool.post([&] { CHECK(second.stop(async::discard) == 1); }).get();
    pool.wait_idle();
  }
  SUBCASE("a pool whose seat is hidden by an extra one") {
    std::array<threadpool, 6> pools{threadpool(0), threadpool(0), threadpool(0),
                                    threadpool(0), threadpool(0), threadpool(0)};
    const auto lead = [&](const auto& self, std::size_t i) -> void {
      if (i == pools.size()) return count(pools[0]), count(pools[4]);
      async::parallel_for(pools[i], 0, 1, [&](int) { self(self, i + 1); });
    };
    lead(lead, 0);
    --refused;
  }
  CHECK(refused == 1);
}

TEST_CASE("a task that has led its thread into another pool posts to a full pool, and while its pool stops") {
  threadpool other(1);
  int taken = 0;
  const auto post_to = [&](threadpool& pool, auto... priority) {
    async::parallel_for(other, 0, 1, [&](int) {
      try {
        pool.execute(priority..., [&taken] { ++taken; });
      } catch (const std::exception&) {  // refused
      }
    });
  };
  SUBCASE("full") {
    threadpool pool({.threads = 0, .max_queue = 2, .when_full = async::threadpool_options::overflow::reject});
    for (int i = 0; i < 2; ++i) pool.execute([] {});
    for (int i = 0; i < 2; ++i) pool.execute(async::priority::high, [] {});
    async::parallel_for(pool, 0, 1, [&](int) {
      post_to(pool);
      post_to(pool, async::priority::high);
    });
    pool.stop();
  }
  SUBCASE("stopping") {
    threadpool pool(1);
    std::thread stopper;
    async::parallel_for(pool, 0, 1, [&](int) {
      stopper = std::thread([&pool] { pool.stop(); });
      std::this_thread::sleep_for(50ms);  // it has begun
      post_to(pool);
      post_to(pool, async::priority::high);
    });
    stopper.join();
  }
  CHECK(taken == 2);
}

TEST_CASE("a callback of a pool's loop posts from outside to a pool for whose group its thread waits") {
  threadpool pool({.threads = 1, .max_queue = 2, .when_full = async::threadpool_options::overflow::reject});
  threadpool other(1);
  std::promise<void> begun, end, called;
  int taken = 0;
  async::future<void> waits = other.post([&] {
    async::task_group group(pool);
    group.run([&] {
      begun.set_value();
      end.get_future().wait();
    });
    begun.get_future().wait();
    other.loop(0).post([&] {
      try {
        for (; taken != 10; ++taken) pool.execute([] {});
      } catch (const async::queue_full&) {
      }
      called.set_value();
    });
    group.wait();
  });
  called.get_future().wait();
  end.set_value();
  waits.get();
  CHECK(taken == 2);
}

TEST_CASE("a task that another pool's loop is in posts with a priority while its pool stops") {
  std::optional<threadpool> pool(std::in_place, 1);
  threadpool other(1);
  std::promise<void> has_begun;
  std::atomic<bool> is_refused = false;
  std::atomic<int> ran = 0;
  pool->execute([&, &in = *pool] {
    async::parallel_for(other, 0, 1, [&](int) {
      has_begun.set_value();
      std::this_thread::sleep_for(50ms);  // stop() has begun
      try {
        in.execute(async::priority::high, [&ran] { ++ran; });
      } catch (const async::stopped&) {
        is_refused = true;
      }
    });
  });
  has_begun.get_future().wait();
  pool->stop();
  CHECK_FALSE(is_refused);
  CHECK(ran == 1);
}

TEST_CASE("a shutdown with a deadline drops what has not begun by then") {
  threadpool pool(1);
  std::promise<void> begun;
  std::promise<void> go;
  auto first = pool.post([&] {
    begun.set_value();
    go.get_future().wait();
  });
  auto second = pool.post([] {});
  begun.get_future().wait();
  CHECK(!pool.wait_idle_for(1ms));
  auto dropped = std::move(second).then([&go](async::future<void> end) {
    go.set_value();
    return end.has_exception();
  });
  CHECK(pool.stop(async::discard) == 1);
  CHECK(dropped.get());
  first.get();
}

TEST_CASE("a paused pool with tasks is not idle; flows that wait do not count") {
  threadpool pool(0);
  std::atomic<int> ran{0};
  pool.execute([&ran] { ++ran; });
  CHECK(!pool.wait_idle_for(1ms));
  pool.configurepool(1);
  CHECK(pool.wait_idle_for(1h));
  CHECK(ran == 1);
  auto flow = steps::post(pool, [](steps::IAsyncSteps& asi) { asi.waitExternal(); });
  CHECK(pool.wait_idle_for(1h));
  CHECK(!flow.is_ready());
  pool.stop();
  CHECK(pool.wait_idle_for(0s));
}
