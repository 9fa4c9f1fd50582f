// SPDX-License-Identifier: BSL-1.0
//
// std::async, a thread for each task; and the usual hand-written pool: a mutex, a condition variable and a deque of
// std::function.
#include <condition_variable>  // for condition_variable
#include <deque>               // for deque
#include <functional>          // for function
#include <future>              // for async, packaged_task
#include <memory>              // for make_shared
#include <mutex>               // for mutex

#include "../support/pool_workloads.hpp"  // for add_pool

namespace {

struct std_async {
  static constexpr double nanoseconds_per_task = 46'000;
  static constexpr bool has_threads = false;
  explicit std_async(std::size_t) {}
  template <class F>
  auto post(F f) {
    return std::async(std::launch::async, std::move(f));
  }
};

class by_hand {
 public:
  static constexpr double nanoseconds_per_task = 500;
  static constexpr bool has_threads = true;

  explicit by_hand(std::size_t workers) {
    for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~by_hand() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  template <class F>
  void execute(F f) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.emplace_back(std::move(f));
    }
    wake_.notify_one();
  }
  template <class F>
  auto post(F f) {
    using result = decltype(f());
    auto task = std::make_shared<std::packaged_task<result()>>(std::move(f));
    auto future = task->get_future();
    execute([task] { (*task)(); });
    return future;
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

const bench::enroll contestants([](bench::plan& plan) {
  bench::add_pool<std_async>(plan, "std::async", 5);
  bench::add_pool<by_hand>(plan, "mutex + condition_variable", 90);
});

}  // namespace
