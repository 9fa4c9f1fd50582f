// SPDX-License-Identifier: BSL-1.0
//
// async::threadpool when memory or threads run out: each failure is reported, nothing is lost, the pool goes on.
#include <doctest/doctest.h>

#include <unistd.h>  // for gettid

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "async/blocking_section.hpp"
#include "async/detail/pool/stand_ins.hpp"
#include "async/event_loop.hpp"
#include "async/threadpool.hpp"
#include "support/alloc_counter.hpp"
#include "support/thread_failure.hpp"
#include "support/thread_sleep.hpp"
#include "support/wait_while.hpp"

using async::threadpool;
using async::threadpool_options;
using testing::fail_alloc;
using testing::fail_thread;

namespace {

/// Too large for recycled blocks, so that each one calls operator new.
struct large {
  std::array<unsigned char, 2000> bytes{};
};

std::size_t failures = 0;

/// Lets each allocation of the calling thread fail once, until attempt(k) needs none; the attempt checks the outcome.
template <class Attempt>
void each_allocation(Attempt attempt) {
  for (std::size_t k = 0; attempt(k); ++k) ++failures;
}

}  // namespace

TEST_CASE("a pool that gets no memory while it is made throws, and leaves no thread behind") {
  each_allocation([](std::size_t k) {
    fail_alloc failing(k);
    try {
      threadpool pool(3);
      failing.stop();
      CHECK(pool.post([] { return 1; }).get() == 1);
    } catch (const std::bad_alloc&) {
    } catch (const std::system_error&) {  // a std::thread that got no memory may say so in this way
    }
    return failing.has_failed();
  });
}

TEST_CASE("a post without memory throws, and nothing is posted") {
  threadpool pool(2);
  const auto token = std::make_shared<int>(0);
  each_allocation([&](std::size_t k) {
    std::atomic<int> ran{0};
    std::vector<async::future<int>> results;  // a std::future needs memory after the post
    results.reserve(20);
    int accepted = 0;
    fail_alloc failing(k);
    for (int i = 0; i < 20; ++i) {
      try {
        results.push_back(pool.post([&ran, token, padding = large{}] { return ran += 1 + padding.bytes[0]; }));
        ++accepted;
      } catch (const std::bad_alloc&) {
      }
    }
    failing.stop();
    for (auto& r : results) r.get();
    pool.wait_idle();
    CHECK(accepted >= 19);
    CHECK(ran == accepted);
    CHECK(token.use_count() == 1);
    return failing.has_failed();
  });
}

TEST_CASE("the first task with a priority without memory throws, outside and inside the pool, and the next one runs") {
  const auto token = std::make_shared<int>(0);
  for (const bool inside : {false, true}) {
    for (const bool has_future : {false, true}) {
      each_allocation([&](std::size_t k) {
        threadpool_options options;
        options.threads = 1;
        options.max_queue = 16;
        threadpool pool(std::move(options));
        std::atomic<int> ran{0};
        int accepted = 0;
        bool has_failed = false;
        const auto body = [&] {
          fail_alloc failing(k);
          for (const async::priority wanted : {async::priority::low, async::priority::high}) {
            const auto work = [&ran, token, padding = large{}] { ran += 1 + padding.bytes[0]; };
            try {
              if (has_future) {
                static_cast<void>(pool.post(wanted, work));
              } else {
                pool.execute(wanted, work);
              }
              ++accepted;
            } catch (const std::bad_alloc&) {
            }
          }
          failing.stop();
          has_failed = failing.has_failed();
        };
        if (inside) {
          pool.post(body).get();
        } else {
          body();
        }
        pool.wait_idle();
        CHECK(accepted >= (has_failed ? 1 : 2));
        CHECK(ran == accepted);
        CHECK(token.use_count() == 1);
        return has_failed;
      });
    }
  }
}

TEST_CASE("an execute without memory throws, outside and inside the pool, and the others run") {
  for (const bool inside : {false, true}) {
    threadpool pool(1);
    const auto token = std::make_shared<int>(0);
    each_allocation([&](std::size_t k) {
      std::atomic<int> ran{0};
      int accepted = 0;
      bool has_failed = false;
      const auto body = [&] {
        fail_alloc failing(k);
        for (int i = 0; i < 200; ++i) {
          try {
            pool.execute([&ran, token, padding = large{}] { ran += 1 + padding.bytes[0]; });
            ++accepted;
          } catch (const std::bad_alloc&) {
          }
        }
        failing.stop();
        has_failed = failing.has_failed();
      };
      if (inside) {
        pool.post(body).get();
      } else {
        body();
      }
      pool.wait_idle();
      CHECK(accepted >= 199);
      CHECK(ran == accepted);
      CHECK(token.use_count() == 1);
      return has_failed;
    });
  }
}

TEST_CASE("bulk_execute without memory has posted those before the failure") {
  threadpool pool(2);
  each_allocation([&](std::size_t k) {
    std::vector<int> ran(50, 0);
    std::vector<async::task> tasks;
    for (int& r : ran) {
      tasks.emplace_back([&r, padding = large{}] { r += 1 + padding.bytes[0]; });
    }
    bool threw = false;
    fail_alloc failing(k);
    try {
      pool.bulk_execute(std::make_move_iterator(tasks.begin()), tasks.size());
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    failing.stop();
    pool.wait_idle();
    CHECK(threw == failing.has_failed());
    bool ended = false;
    for (const int r : ran) {
      ended = ended || r == 0;
      CHECK(r == (ended ? 0 : 1));
    }
    CHECK(ended == threw);
    return failing.has_failed();
  });
}

TEST_CASE("a resize without memory throws, and the pool is whole") {
  each_allocation([](std::size_t k) {
    threadpool pool(1);
    fail_alloc failing(k);
    try {
      pool.configurepool(4);
    } catch (const std::bad_alloc&) {
    } catch (const std::system_error&) {
    }
    failing.stop();
    const std::size_t threads = pool.size();
    CHECK(threads >= 1);
    if (!failing.has_failed()) CHECK(threads == 4);
    std::vector<std::future<int>> results;
    for (int i = 0; i < 50; ++i) results.push_back(pool.post([i] { return i; }));
    for (int i = 0; i < 50; ++i) CHECK(results[static_cast<std::size_t>(i)].get() == i);
    pool.configurepool(2);
    CHECK(pool.size() == 2);
    return failing.has_failed();
  });
}

TEST_CASE("a pool whose threads cannot all start throws system_error, and those that started are joined") {
  for (std::size_t k = 0; k < 4; ++k) {
    fail_thread failing(k);
    CHECK_THROWS_AS(threadpool(4), std::system_error);
    ++failures;
  }
}

TEST_CASE("a pool that cannot grow says so, keeps the threads that did start, and works") {
  for (std::size_t k = 0; k < 4; ++k) {
    threadpool pool(2);
    {
      fail_thread failing(k);
      CHECK_THROWS_AS(pool.configurepool(6), std::system_error);
      ++failures;
    }
    CHECK(pool.size() == 2 + k);
    std::vector<std::future<int>> results;
    for (int i = 0; i < 50; ++i) results.push_back(pool.post([i] { return i; }));
    for (int i = 0; i < 50; ++i) CHECK(results[static_cast<std::size_t>(i)].get() == i);
    pool.configurepool(6);
    CHECK(pool.size() == 6);
  }
}

TEST_CASE("a loop waits for a task's end when the lookout cannot start, which is tried again later") {
  threadpool pool(2);
  std::atomic<unsigned> inside{0};
  std::atomic<bool> is_over{false};
  const auto occupy_all = [&] {
    is_over = false;
    for (unsigned i = 0; i < 2; ++i) {
      pool.execute([&] {
        ++inside;
        is_over.wait(false);
        --inside;
      });
    }
    while (inside != 2) std::this_thread::yield();
  };
  const auto release_all = [&] {
    is_over = true;
    is_over.notify_all();
    pool.wait_idle();
  };
  {
    fail_thread failing(0);
    std::atomic<bool> is_called{false};
    occupy_all();
    pool.loop(0).post([&is_called] { is_called = true; });
    ++failures;
    release_all();
    CHECK(is_called);
    CHECK(pool.stats().late_turns == 0);
  }
  while (pool.stats().late_turns == 0) {
    std::atomic<bool> is_called{false};
    occupy_all();
    pool.loop(0).post([&is_called] { is_called = true; });
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (!is_called && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    release_all();
  }
}

TEST_CASE("a stand-in that gets no memory is reported, and those that have ended are joined later") {
  each_allocation([](std::size_t k) {
    async::detail::stand_ins all;
    std::atomic<int> ran{0};
    all.call(1, true, [&ran] { ++ran; });
    while (ran != 1 || all.is_surplus(1, 1)) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it can be joined, as a rule
    bool is_called = true;
    fail_alloc failing(k);
    try {
      all.call(1, true, [&ran] { ++ran; });
    } catch (const std::bad_alloc&) {
      is_called = false;
    } catch (const std::system_error&) {
      is_called = false;
    }
    failing.stop();
    all.close();
    if (!failing.has_failed()) CHECK(ran == 2);
    if (!is_called) CHECK(ran == 1);
    return failing.has_failed();
  });
}

TEST_CASE("wait_idle() returns although a thread cannot be started meanwhile") {
  static std::atomic<int> phase{0};
  static std::atomic<pid_t> waiter{0};
  std::atomic<bool> has_ended{false};
  threadpool_options options;
  options.threads = 2;
  options.on_thread_stop = [&has_ended](std::size_t) { has_ended = true; };
  threadpool pool(std::move(options));
  pool.configurepool(1);  // so that the second worker is known, and has no thread
  testing::wait_while(has_ended, false);
  std::thread waits([&pool] {
    waiter = gettid();
    testing::wait_while(phase, 0);
    pool.wait_idle();
    phase = 2;
  });
  testing::wait_while(waiter, pid_t{0});
  {
    fail_thread failing(0, [] {  // the new thread is counted, and does not sleep
      phase = 1;
      testing::wait_for_sleep_of(waiter);
    });
    CHECK_THROWS_AS(pool.configurepool(2), std::system_error);
    ++failures;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (phase != 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(phase == 2);
  pool.post([] {}).get();  // wakes it otherwise
  waits.join();
}

TEST_CASE("a paused pool that cannot have a thread runs what it has accepted on the thread that ends it") {
  std::atomic<int> ran{0};
  {
    threadpool pool(std::size_t{0});
    for (int i = 0; i < 100; ++i) pool.execute([&ran] { ++ran; });
    fail_thread failing(0);
    pool.stop();
    ++failures;
  }
  CHECK(ran == 100);
}

TEST_CASE("a paused pool ends while a task of it is in a section, and no thread can be started") {
  static std::atomic<bool> is_blocked{false}, was_refused{false};
  is_blocked = was_refused = false;
  std::atomic<int> ended{0}, ran{0};
  threadpool_options options;
  options.threads = 1;
  options.on_thread_stop = [&ended](std::size_t) { ++ended; };
  std::thread unblocking;
  {
    threadpool pool(std::move(options));
    pool.execute([] {
      const async::blocking_section here;
      is_blocked = true;
      testing::wait_while(is_blocked, true);
    });
    testing::wait_while(is_blocked, false);
    pool.configurepool(0);
    testing::wait_while(ended, 0);  // the worker that the section has added
    pool.execute([&ran] { ++ran; });
    unblocking = std::thread([] {
      testing::linger(was_refused);
      is_blocked = false;
    });
    const fail_thread failing(0, [] { was_refused = true; });
    pool.stop();
    CHECK(ran == 1);
  }
  unblocking.join();
  CHECK(was_refused);
}

TEST_CASE("a pool that ends without threads runs a long chain of tasks that post the next one") {
  struct chain {
    threadpool& pool;
    std::size_t& left;
    void operator()() const {
      if (--left != 0) pool.execute(*this);
    }
  };
  std::size_t left = 300000;
  {
    threadpool pool(std::size_t{0});
    pool.execute(chain{pool, left});
    fail_thread failing(0);
    pool.stop();
    ++failures;
  }
  CHECK(left == 0);
}

TEST_CASE("a task whose constructor throws is not posted") {
  threadpool pool(1);
  struct throws_on_copy {
    throws_on_copy() = default;
    throws_on_copy(const throws_on_copy&) { throw std::runtime_error("copied"); }
    int operator()() const { return 1; }
  };
  const throws_on_copy original;
  CHECK_THROWS_AS(pool.execute(original), std::runtime_error);
  CHECK_THROWS_AS(static_cast<void>(pool.post(original)), std::runtime_error);
  ++failures;
  CHECK(pool.post([] { return 1; }).get() == 1);
}

TEST_CASE("each user callback that throws is reported, and the pool goes on") {
  std::atomic<int> reported{0};
  {
    threadpool_options options;
    options.threads = 2;
    options.on_thread_start = [](std::size_t) { throw std::runtime_error("start"); };
    options.on_thread_stop = [](std::size_t) { throw std::runtime_error("stop"); };
    options.on_unhandled = [&reported](std::exception_ptr) { ++reported; };
    threadpool pool(std::move(options));
    for (int i = 0; i < 10; ++i) pool.execute([] { throw 1; });
    CHECK(pool.post([] { return 1; }).get() == 1);
  }
  CHECK(reported == 2 + 10 + 2);
  failures += 14;
  std::printf("count: %zu injected failures\n", failures);
}
