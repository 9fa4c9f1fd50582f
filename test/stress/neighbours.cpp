// SPDX-License-Identifier: BSL-1.0
//
// A pool beside other processes that keep every processor busy: its timers and tasks are hardly later than those of a
// thread that only waits.
#include <doctest/doctest.h>

#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "async/bounded_queue.hpp"
#include "async/queue.hpp"
#include "steps/steps.hpp"
#include "support/scale.hpp"

using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

using wall_clock = std::chrono::steady_clock;
using milliseconds = std::chrono::duration<double, std::milli>;

/// Processes that use all the CPU time they get, two for each processor.
class neighbours {
 public:
  neighbours() {
    for (unsigned i = 0; i != 2 * std::thread::hardware_concurrency(); ++i) {
      const pid_t process = ::fork();
      if (process == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) static_cast<void>(::getppid());
      }
      if (process > 0) all_.push_back(process);  // else there is one fewer
    }
  }
  neighbours(const neighbours&) = delete;
  neighbours& operator=(const neighbours&) = delete;
  ~neighbours() {
    for (const pid_t process : all_) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> all_;
};

/// A thread that calls functions, which it gets by a mutex and a condition variable.
class plain_thread {
 public:
  plain_thread()
      : thread_([this] {
          std::unique_lock here(mutex_);
          while (!is_over_) {
            change_.wait(here, [this] { return is_over_ || !calls_.empty(); });
            for (; !calls_.empty(); calls_.pop_front()) calls_.front()();
          }
        }) {}
  ~plain_thread() {
    {
      const std::lock_guard here(mutex_);
      is_over_ = true;
    }
    change_.notify_one();
    thread_.join();
  }
  void post(std::function<void()> call) {
    const std::lock_guard here(mutex_);
    calls_.push_back(std::move(call));
    change_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable change_;
  std::deque<std::function<void()>> calls_;
  bool is_over_ = false;
  std::thread thread_;
};

/// Medians of how late things are, each measured now and then beside the others.
template <class... Measure>
std::vector<double> medians_of(Measure... measure) {
  std::vector<std::vector<double>> all(sizeof...(measure));
  for (std::size_t round = 0; round != 100; ++round) {
    std::size_t i = 0;
    (all[i++].push_back(measure().count()), ...);
  }
  std::vector<double> medians;
  for (auto& each : all) {
    std::nth_element(each.begin(), each.begin() + 50, each.end());
    medians.push_back(each[50]);
  }
  return medians;
}

/// Until a function runs that is given to `post`, after a pause.
template <class Post>
milliseconds until_it_runs(Post post) {
  std::this_thread::sleep_for(3ms);
  std::promise<wall_clock::time_point> ran;
  const auto begin = wall_clock::now();
  post([&ran] { ran.set_value(wall_clock::now()); });
  return ran.get_future().get() - begin;
}

/// How late a timer of 3 ms is, in a flow of a pool or loop.
template <class Place>
milliseconds lateness_of_timer(Place& place) {
  auto late = steps::post<milliseconds>(place, [](IAsyncSteps& asi) {
    const auto due = wall_clock::now() + 3ms;
    asi.add([](IAsyncSteps& step) { step.tool().deferred(3ms, [done = step.completion<>()] { done.success(); }); });
    asi.add([due](IAsyncSteps& step) { step.success(milliseconds(wall_clock::now() - due)); });
  });
  return late.get();
}

}  // namespace

TEST_CASE("beside busy processes, tasks, timers and elements are as punctual as a thread that waits") {
  if (testing::emulated()) return;
  const neighbours busy;
  async::threadpool pool(1);
  steps::AsyncTool loop;
  plain_thread plain;
  async::queue<std::function<void()>> queue;
  async::bounded_queue<std::function<void()>> bounded(16);
  const auto consume = [](auto& from) {
    for (std::function<void()> call; from.blocking_dequeue(call);) call();
  };
  std::thread of_queue([&] { consume(queue); }), of_bounded([&] { consume(bounded); });
  const std::vector<double> medians = medians_of(
      [&] { return until_it_runs([&](auto f) { plain.post(f); }); }, [&] { return lateness_of_timer(loop.loop()); },
      [&] { return until_it_runs([&](auto f) { pool.execute(f); }); }, [&] { return lateness_of_timer(pool); },
      [&] { return until_it_runs([&](auto f) { queue.enqueue(f); }); },
      [&] { return until_it_runs([&](auto f) { static_cast<void>(bounded.blocking_enqueue(f)); }); });
  queue.close();
  bounded.close();
  of_queue.join();
  of_bounded.join();
  std::printf(
      "medians in ms: thread %.3f, timer of a loop %.3f; task %.3f, timer of a pool %.3f, queue %.3f, "
      "bounded queue %.3f\n",
      medians[0], medians[1], medians[2], medians[3], medians[4], medians[5]);
  const double thread = medians[0], timer = medians[1];
  CHECK(medians[2] <= 4 * thread + 1);
  CHECK(medians[3] <= 4 * timer + 3);
  CHECK(medians[4] <= 4 * thread + 1);
  CHECK(medians[5] <= 4 * thread + 1);
}
#endif
