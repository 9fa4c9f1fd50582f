// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <thread>

#include "async/detail/base/spin_lock.hpp"
#include "async/detail/call/hand_over_word.hpp"
#include "async/detail/call/walk_word.hpp"
#include "async/detail/pool/late_leavers.hpp"

// A thread that waits for a moment keeps the processor from one of a lower real-time priority, and sched_yield()
// changes nothing about that. If the lower one is the one that it waits for, it has to sleep.

#if defined(__linux__)
namespace {

using namespace std::chrono_literals;

/// Gives the calling thread a real-time priority. False: it may not have one.
bool set_priority(int priority) {
  const sched_param to{priority};
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &to) == 0;
}

/// Keeps the calling thread, and threads that it starts, on one processor. False: it may not.
bool stay_on_one_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  return pthread_setaffinity_np(pthread_self(), sizeof(one), &one) == 0;
}

struct lock {
  void hold() { it.lock(); }
  void release() { it.unlock(); }
  void wait() {
    it.lock();
    it.unlock();
  }
  async::detail::spin_lock it;
};

struct hand_over {
  void hold() { it.begin(); }
  void release() { it.end(); }
  void wait() { it.close(); }
  async::detail::hand_over_word it;
};

struct walk {
  void hold() {}  // as it begins
  void release() { static_cast<void>(it.leave()); }
  void wait() { it.stop(); }
  async::detail::walk_word it;
};

struct leaver {
  void hold() { it.come(); }
  void release() { it.leave(); }
  void wait() { it.wait(); }
  async::detail::late_leavers it;
};

}  // namespace

TEST_CASE_TEMPLATE("a thread waits for one of a lower real-time priority on the same processor", What, lock, hand_over,
                   walk, leaver) {
  What what;
  std::atomic<bool> is_allowed{false};
  std::promise<pthread_t> waiting;
  std::promise<void> end;
  auto waiter = waiting.get_future();
  auto ended = end.get_future();
  std::thread low([&] {
    if (!stay_on_one_processor() || !set_priority(1)) return waiting.set_value(pthread_self());
    is_allowed = true;
    what.hold();
    std::atomic<bool> is_high{false};
    std::thread high([&] {
      waiting.set_value(pthread_self());
      set_priority(2);
      is_high = true;
      what.wait();
    });
    while (!is_high) std::this_thread::yield();  // once it has the priority, it leaves the processor only to sleep
    what.release();
    high.join();
    end.set_value();
  });
  const pthread_t thread = waiter.get();
  if (is_allowed) {
    const bool in_time = ended.wait_for(10s) == std::future_status::ready;
    CHECK(in_time);
    const sched_param normal{0};
    if (!in_time) pthread_setschedparam(thread, SCHED_OTHER, &normal);  // so that the other one goes on
  } else {
    MESSAGE("skipped: real-time priorities need CAP_SYS_NICE");
  }
  low.join();
}
#else
TEST_CASE("a thread waits for one of a lower real-time priority on the same processor") {
  MESSAGE("skipped: Linux only");
}
#endif
