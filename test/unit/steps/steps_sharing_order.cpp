// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/event_loop.hpp"
#include "async/select.hpp"
#include "async/task_group.hpp"
#include "steps/steps.hpp"
#include "support/flows.hpp"
#include "support/held_workers.hpp"
#include "support/journey.hpp"
#include "support/scale.hpp"
#include "support/work_for.hpp"

// One thread at a time is in a loop of a pool, with any number of workers, and sees what the last one wrote: plain
// variables need no locks, as ThreadSanitizer checks.

using async::event_loop;
using async::threadpool;
using steps::IAsyncSteps;
using testing::is_ready_in_time;
using testing::wait_a_moment;
using namespace std::chrono_literals;

namespace {

/// Data of one loop or flow: an unguarded counter, and whether two calls have been in it at once.
class private_data {
 public:
  void use() {
    if (inside_.exchange(true, std::memory_order_relaxed)) shared_.store(true, std::memory_order_relaxed);
    ++count_;
    for (int i = 0; i < 20; ++i) inside_.store(true, std::memory_order_relaxed);
    inside_.store(false, std::memory_order_relaxed);
  }
  /// For when the calls have ended, as far as the caller knows.
  std::size_t count() const { return count_; }
  bool was_shared() const { return shared_.load(std::memory_order_relaxed); }

 private:
  std::size_t count_ = 0;
  std::atomic<bool> inside_{false}, shared_{false};
};

/// Keeps a pool busy, and resizes it if told so.
class disturbance {
 public:
  disturbance(threadpool& pool, bool resizes)
      : pool_(pool), size_(pool.size()), thread_([this, resizes] {
          for (std::size_t round = 0; !end_; ++round) {
            std::atomic<int> left{8};
            for (int i = 0; i < 8; ++i) {
              pool_.execute([&left, i] {
                testing::work_for(i * 20us);
                --left;
              });
            }
            while (left != 0) std::this_thread::yield();
            if (resizes) pool_.configurepool(1 + round % 4);
          }
          pool_.configurepool(size_);
        }) {}
  ~disturbance() {
    end_ = true;
    thread_.join();
  }

 private:
  threadpool& pool_;
  const std::size_t size_;
  std::atomic<bool> end_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("flows bound to a loop of a pool share plain data, and stay on the loop, whatever the pool does") {
  for (const bool resizes : {false, true}) {
    CAPTURE(resizes);
    constexpr std::size_t loops = 3, flows = 20;
    const std::size_t times = testing::rounds(150);
    std::array<private_data, loops> data;
    std::atomic<int> elsewhere{0};
    threadpool pool(loops);
    std::vector<std::unique_ptr<steps::AsyncSteps>> all;
    std::vector<std::future<void>> ends;
    std::array<event_loop*, loops> loop{};
    for (std::size_t i = 0; i < loops; ++i) loop[i] = &pool.loop(i);
    const disturbance others(pool, resizes);
    for (std::size_t i = 0; i < loops * flows; ++i) {
      all.push_back(std::make_unique<steps::AsyncSteps>(*loop[i % loops]));
      const auto use = [&, home = loop[i % loops], &mine = data[i % loops]](IAsyncSteps& asi) {
        mine.use();
        if (event_loop::current() != home || &asi.tool() != home || !home->is_same_thread()) ++elsewhere;
      };
      all.back()->repeat(times, [&pool, use](IAsyncSteps& asi, std::size_t n) {
        use(asi);
        if (n % 4 == 0) wait_a_moment(asi, n % 8 == 0 ? 0ms : 1ms);
        if (n % 4 == 1) asi.await(pool, [] {});
        if (n % 4 == 2) asi.relinquish();
        auto& branches = asi.parallel();
        branches.add(use);
        branches.add([use](IAsyncSteps& branch) {
          branch.relinquish();
          branch.add(use);
        });
      });
      ends.push_back(all.back()->promise());
    }
    for (auto& end : ends) {
      REQUIRE(is_ready_in_time(end));
      CHECK_NOTHROW(end.get());
    }
    CHECK(elsewhere == 0);
    for (const private_data& each : data) {
      CHECK_FALSE(each.was_shared());
      CHECK(each.count() == flows * times * 3);
    }
  }
}

TEST_CASE("callbacks of each loop of a pool keep their order: posts of each thread, immediates, timers") {
  for (const bool resizes : {false, true}) {
    CAPTURE(resizes);
    using clock = std::chrono::steady_clock;
    constexpr std::size_t loops = 2, senders = 2;
    const std::size_t times = testing::rounds(10'000);
    struct log {
      private_data data;
      std::array<std::size_t, senders> next{};
      std::size_t next_immediate = 0;
      bool in_order = true;
      std::vector<std::size_t> fired;  // the timers, by their milliseconds
      std::promise<void> timed;
      std::array<clock::time_point, 21> earliest{}, latest{};  // moments at which they may be due; the test's thread's
    };
    std::array<log, loops> logs;
    threadpool pool(loops);
    std::array<event_loop*, loops> loop{};
    for (std::size_t i = 0; i < loops; ++i) loop[i] = &pool.loop(i);
    {
      const disturbance others(pool, resizes);
      for (std::size_t i = 0; i < loops; ++i) {
        log& mine = logs[i];
        for (std::size_t ms = 20; ms != 0; --ms) {  // the last one set is due first
          mine.earliest[ms] = clock::now() + ms * 1ms;
          loop[i]->deferred(ms * 1ms, [&mine, ms] {
            mine.data.use();
            mine.fired.push_back(ms);
            if (mine.fired.size() == 20) mine.timed.set_value();
          });
          mine.latest[ms] = clock::now() + ms * 1ms;
        }
      }
      std::vector<std::thread> threads;
      for (std::size_t sender = 0; sender < senders; ++sender) {
        threads.emplace_back([&, sender] {
          for (std::size_t n = 0; n < times; ++n) {
            for (std::size_t i = 0; i < loops; ++i) {
              loop[i]->post([&mine = logs[i], home = loop[i], sender, n] {
                mine.data.use();
                mine.in_order = mine.in_order && mine.next[sender]++ == n;
                home->immediate([&mine, number = mine.data.count()] {
                  mine.data.use();
                  mine.in_order = mine.in_order && mine.next_immediate < number;
                  mine.next_immediate = number;
                });
              });
            }
            if (n % 16 == 0) std::this_thread::yield();
          }
        });
      }
      for (auto& thread : threads) thread.join();
    }
    for (std::size_t i = 0; i < loops; ++i) {
      auto timed = logs[i].timed.get_future();
      REQUIRE(is_ready_in_time(timed));
      clock::time_point due{};
      for (const std::size_t ms : logs[i].fired) {
        CHECK(logs[i].latest[ms] >= due);
        due = (std::max)(due, logs[i].earliest[ms]);
      }
      std::promise<void> last;  // behind the immediates
      auto end = last.get_future();
      loop[i]->post([&last, home = loop[i]] { home->immediate([&last] { last.set_value(); }); });
      REQUIRE(is_ready_in_time(end));
      CHECK(logs[i].in_order);
      CHECK_FALSE(logs[i].data.was_shared());
      CHECK(logs[i].data.count() == 2 * senders * times + 20);
    }
  }
}

TEST_CASE("tool() is one loop in a flow of a pool, and its callbacks never run beside a step of the flow") {
  for (const bool resizes : {false, true}) {
    for (const testing::made_by how : testing::all_flows) {
      CAPTURE(resizes);
      CAPTURE(static_cast<int>(how));
      struct one {
        private_data data;
        event_loop* home = nullptr;
        std::size_t called = 0;
        bool same = true;
        void use() {
          data.use();
          same = same && event_loop::current() == home && home->is_same_thread();
        }
        void call() {
          use();
          ++called;
        }
      };
      const std::size_t times = testing::rounds(150);
      std::vector<one> all(30);
      threadpool pool(2);
      std::vector<std::unique_ptr<testing::any_flow>> flows;
      const disturbance others(pool, resizes);
      for (one& mine : all) {
        flows.push_back(std::make_unique<testing::any_flow>(pool, how, [&pool, &mine, times](IAsyncSteps& asi) {
          asi.add([&mine](IAsyncSteps& step) { mine.home = &step.tool(); });
          asi.repeat(times, [&pool, &mine](IAsyncSteps& step, std::size_t n) {
            mine.same = mine.same && &step.tool() == mine.home;
            mine.use();
            mine.home->immediate([&mine] { mine.call(); });
            mine.home->deferred((n % 3) * 300us, [&mine] { mine.call(); });
            pool.execute([&mine] { mine.home->post([&mine] { mine.call(); }); });
            if (n % 4 == 0) wait_a_moment(step);
            if (n % 4 == 1) step.await(pool, [] {});
            if (n % 4 == 2) step.relinquish();
            step.add([&mine](IAsyncSteps&) { mine.use(); });
          });
          asi.loop([&mine, times](IAsyncSteps& step) {  // until all callbacks have run
            mine.use();
            if (mine.called == 3 * times) step.breakLoop();
            wait_a_moment(step);
          });
        }));
      }
      for (auto& flow : flows) {
        REQUIRE(is_ready_in_time(flow->end));
        CHECK_NOTHROW(flow->end.get());
      }
      for (const one& each : all) {
        CHECK(each.same);
        CHECK_FALSE(each.data.was_shared());
        CHECK(each.called == 3 * times);
      }
    }
  }
}

TEST_CASE("flows that share a loop by their branches keep the order of turns: NitroSteps on a pool") {
  threadpool pool(3);
  const disturbance others(pool, false);
  for (std::size_t round = 0; round < testing::rounds(1'000); ++round) {
    testing::lines seen;
    testing::roomy_nitro flow{pool};
    flow.add([](IAsyncSteps& asi) { wait_a_moment(asi, 0ms); });
    auto& branches = flow.parallel();
    for (const char* name : {"a", "b", "c"}) {
      branches.repeat(3, [&seen, name](IAsyncSteps&, std::size_t i) { seen.push_back(name + std::to_string(i)); });
    }
    flow.add([&seen](IAsyncSteps&) { seen.push_back("end"); });
    auto end = flow.promise();
    REQUIRE(is_ready_in_time(end));
    CHECK_NOTHROW(end.get());
    CHECK(seen == testing::lines{"a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2", "end"});
  }
}

TEST_CASE("timers of many flows that come due while the worker is inside a call fire in the order of their deadlines") {
  constexpr std::size_t count = 2'000;  // far more than the worker queues at a time
  static constexpr std::chrono::nanoseconds apart{150'000};
  using clock = std::chrono::steady_clock;
  // A timeout runs from the end of its flow's turn, when the next flow has not begun yet. In between the thread may be
  // held up, and the deadline is later by at most that time.
  std::vector<std::chrono::nanoseconds> held_up(count);
  std::vector<std::size_t> fired;
  for (auto start = 100ms;; start *= 2) {  // until all flows wait before the first deadline
    threadpool pool(1);
    fired.clear();
    const auto first = clock::now() + start;
    const auto wanted = [first](std::size_t i) { return first + i * apart; };
    clock::time_point begun{};
    std::chrono::nanoseconds* of_previous = nullptr;
    const auto begin = [&](std::chrono::nanoseconds* mine) {
      const auto previous = std::exchange(begun, clock::now());
      if (of_previous != nullptr) *of_previous = begun - previous;
      of_previous = mine;
    };
    std::vector<async::future<void>> ends;
    for (std::size_t i = 0; i < count; ++i) {
      ends.push_back(steps::post(pool, [&, i](IAsyncSteps& asi) {
        asi.add(
            [&, i](IAsyncSteps& waiting) {
              begin(&held_up[i]);
              waiting.setTimeout(wanted(i) - begun);
              waiting.waitExternal();
            },
            [&fired, i](IAsyncSteps& over, steps::ErrorCode) {
              fired.push_back(i);
              over.success();
            });
      }));
    }
    bool all_wait = false;
    ends.push_back(steps::post(pool, [&](IAsyncSteps& last) {
      last.add([&](IAsyncSteps&) {
        begin(nullptr);
        all_wait = begun < first;
        std::this_thread::sleep_until(wanted(count + 1));
      });
    }));
    for (auto& each : ends) each.get();
    if (all_wait) break;
  }
  CHECK(fired.size() == count);
  std::chrono::nanoseconds due{};  // as the deadlines, after the first one
  for (const std::size_t i : fired) {
    const std::chrono::nanoseconds earliest = i * apart;
    CHECK(earliest + held_up[i] >= due);
    due = (std::max)(due, earliest);
  }
}

TEST_CASE("timers come due between long tasks of the only worker, from outside or of a group") {
  constexpr int flows = 20;
  constexpr int tasks = 24;
  enum class from : unsigned char { outside, group };
  for (const from where : {from::outside, from::group}) {
    CAPTURE(static_cast<int>(where));
    threadpool pool(1);                // one thread: no lock
    std::vector<std::size_t> rows{0};  // the numbers of tasks between two steps of flows
    std::atomic<bool> is_over{false};
    std::vector<async::future<void>> ends;
    for (int i = 0; i < flows; ++i) {
      ends.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
        asi.loop([&](IAsyncSteps& inner) {
          if (is_over) inner.breakLoop();
          inner.select(async::after(5ms));
          inner.add([&](IAsyncSteps&) {
            if (rows.back() != 0) rows.push_back(0);
          });
        });
      }));
    }
    std::this_thread::sleep_for(20ms);  // many short turns, after which the worker seldom looks at the clock
    const auto long_task = [&] {
      ++rows.back();
      std::this_thread::sleep_for(10ms);
    };
    if (where == from::outside) {
      for (int i = 0; i < tasks; ++i) pool.execute(long_task);
    } else {
      pool.post([&] {
            async::task_group group(pool);
            for (int i = 0; i < tasks; ++i) group.run(long_task);
            group.wait();
          })
          .get();
    }
    pool.post([] {}).get();
    is_over = true;
    for (async::future<void>& end : ends) end.get();
    constexpr std::size_t unmeasured = 17;  // at first the worker does not know that the tasks take long
    REQUIRE(rows.size() > 1);
    CHECK(rows.front() <= unmeasured);
    CHECK(*std::max_element(rows.begin() + 1, rows.end()) <= (where == from::group ? unmeasured : 3));
  }
}

TEST_CASE("a timer comes while more flows than a worker queues give way for ever") {
  threadpool pool(1);
  bool is_over = false;
  std::vector<async::future<void>> ends;
  for (int i = 0; i < 300; ++i) {
    ends.push_back(steps::post(pool, [&is_over](IAsyncSteps& asi) {
      asi.loop([&is_over](IAsyncSteps& turn) {
        if (is_over) return turn.breakLoopNoThrow();
        turn.relinquish();
      });
    }));
  }
  std::vector<async::future<void>> timers;
  for (int i = 0; i < 200; ++i) {
    timers.push_back(steps::post(pool, [i](IAsyncSteps& asi) {
      asi.add(
          [i](IAsyncSteps& waiting) {
            waiting.setTimeout(1ms + i * 1us);
            waiting.waitExternal();
          },
          [](IAsyncSteps& over, steps::ErrorCode) { over.success(); });
    }));
  }
  for (auto& each : timers) each.get();
  steps::post(pool, [&is_over](IAsyncSteps&) { is_over = true; }).get();
  for (auto& each : ends) each.get();
}
