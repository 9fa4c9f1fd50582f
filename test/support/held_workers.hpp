// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for find, swap
#include <atomic>     // for atomic
#include <chrono>     // for seconds, milliseconds
#include <cstddef>    // for size_t
#include <future>     // for future_status, promise, shared_future
#include <memory>     // for shared_ptr
#include <stdexcept>  // for runtime_error
#include <thread>     // for this_thread, thread
#include <vector>     // for vector

#include "async/threadpool.hpp"  // for threadpool
#include "steps/steps.hpp"       // for post, IAsyncSteps

namespace testing {

/// The time after which a test gives up. None depends on it in a run that passes.
inline constexpr std::chrono::seconds patience{20};

/// True when the future is ready in time.
template <class Future>
bool is_ready_in_time(Future& future) {
  return future.wait_for(patience) == std::future_status::ready;
}

/// Keeps workers of a pool inside a call until it is released or destroyed. Each worker first comes to a roll call, so
/// the calls are on different workers for certain, and the worker of any thread can be among those that are kept.
class held_workers {
 public:
  /// What a worker is inside of.
  enum class inside { task, first_step, later_step, callback };
  static constexpr inside everything[] = {inside::task, inside::first_step, inside::later_step, inside::callback};

  /// Holds `count` of the pool's workers, `first` among them, and lets the others go on. Throws when the workers do not
  /// come to the roll call in time.
  held_workers(async::threadpool& pool, inside what, std::size_t count, std::thread::id first = {})
      : all_(std::make_shared<roll_call>(pool.size(), count, first)) {
    auto complete = all_->complete.get_future();
    for (std::size_t i = 0; i < pool.size(); ++i) send(pool, what, i);
    if (!is_ready_in_time(complete)) {
      release();
      throw std::runtime_error("the workers of a pool do not run at the same time");
    }
  }
  ~held_workers() { release(); }
  held_workers(const held_workers&) = delete;
  held_workers& operator=(const held_workers&) = delete;

  void release() {
    if (!all_->is_released.exchange(true)) all_->released.set_value();
  }

  /// Waits for a future. When it is not ready in time, lets the workers go, so that it can become ready before what it
  /// refers to is destroyed, and returns false.
  template <class Future>
  bool see(Future& future) {
    if (is_ready_in_time(future)) return true;
    release();
    static_cast<void>(is_ready_in_time(future));
    return false;
  }

 private:
  struct roll_call {
    roll_call(std::size_t workers, std::size_t to_keep, std::thread::id to_be_first)
        : size(workers), count(to_keep), first(to_be_first), threads(workers) {}

    std::ptrdiff_t kept() const { return static_cast<std::ptrdiff_t>(count); }

    void answer() {
      const std::size_t place = arrived.fetch_add(1);
      threads[place] = std::this_thread::get_id();
      if (written.fetch_add(1) + 1 == size) {
        const auto wanted = std::find(threads.begin(), threads.end(), first);
        if (wanted != threads.end()) std::swap(*wanted, threads.front());
        complete.set_value();
        all_here.set_value();
      }
      while (here.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
        if (is_released) return;
      }
      const auto end = threads.begin() + kept();
      if (std::find(threads.begin(), end, std::this_thread::get_id()) != end) until.wait();
    }

    const std::size_t size;
    const std::size_t count;
    const std::thread::id first;
    std::vector<std::thread::id> threads;  // the kept ones lead when all have answered
    std::atomic<std::size_t> arrived{0}, written{0};
    std::atomic<bool> is_released{false};
    std::promise<void> complete, all_here, released;
    std::shared_future<void> here = all_here.get_future().share();
    std::shared_future<void> until = released.get_future().share();
  };

  void send(async::threadpool& pool, inside what, std::size_t i) {
    using namespace std::chrono_literals;
    switch (what) {
      case inside::task:
        pool.execute([all = all_] { all->answer(); });
        return;
      case inside::first_step:
        static_cast<void>(steps::post(pool, [all = all_](steps::IAsyncSteps&) { all->answer(); }));
        return;
      case inside::later_step:
        static_cast<void>(steps::post(pool, [all = all_](steps::IAsyncSteps& asi) {
          asi.add([](steps::IAsyncSteps& step) { step.setTimeout(1ms); },
                  [](steps::IAsyncSteps& step, steps::ErrorCode) { step.success(); });
          asi.add([all](steps::IAsyncSteps&) { all->answer(); });
        }));
        return;
      case inside::callback:
        pool.loop(i).post([all = all_] { all->answer(); });
        return;
    }
  }

  const std::shared_ptr<roll_call> all_;  // the last to leave may be in it for longer
};

}  // namespace testing
