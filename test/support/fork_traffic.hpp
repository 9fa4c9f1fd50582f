// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <unistd.h>  // for _exit

#include <atomic>  // for atomic
#include <chrono>  // for chrono_literals
#include <cstdio>  // for fputs
#include <future>  // for future, promise
#include <memory>  // for make_unique
#include <vector>  // for vector

#include "async/async.hpp"
#include "steps/interop/task.hpp"
#include "steps/steps.hpp"

namespace testing {

/// Keeps a pool busy until its end: tasks with groups, so that workers steal; timers; futures of the standard library
/// that are watched; blocks that other threads free.
class fork_traffic {
 public:
  explicit fork_traffic(async::threadpool& pool) : pool_(pool) {
    using namespace std::chrono_literals;
    for (int i = 0; i < 4; ++i) pool_.execute(again{this});
    for (int i = 0; i < 8; ++i) {
      flows_.push_back(steps::post<void>(pool_, [this](steps::IAsyncSteps& asi) {
        asi.every(100us, [this](steps::IAsyncSteps& round, const steps::Tick&) {
          if (ends_) round.breakLoop();
          round.await(async::blocking_pool::shared(), [] { return std::make_unique<int>(1); });
          round.add([](steps::IAsyncSteps& next, std::unique_ptr<int>) {
            std::promise<void> standard;
            next.await(standard.get_future(), [](steps::IAsyncSteps& in, steps::ErrorCode) { in.success(); });
          });
        });
      }));
    }
  }
  fork_traffic(const fork_traffic&) = delete;
  fork_traffic& operator=(const fork_traffic&) = delete;
  ~fork_traffic() {
    ends_ = true;
    for (auto& flow : flows_) flow.wait();
    pool_.wait_idle();
  }

 private:
  struct again {
    fork_traffic* self;
    void operator()() const {
      async::task_group group(self->pool_);
      for (int i = 0; i < 3; ++i) group.run([] { return std::make_unique<int>(1); });
      group.wait();
      if (!self->ends_) self->pool_.execute(again{self});
    }
  };

  async::threadpool& pool_;
  std::atomic<bool> ends_{false};
  std::vector<async::future<void>> flows_;
};

/// In a child: ends it with an error that the parent's check shows.
inline void require_in_child(bool holds, const char* what) {
  if (holds) return;
  std::fputs(what, stderr);
  ::_exit(99);
}

/// In a child: what programs use, on pools that the child makes.
inline void use_new_pools() {
  using namespace std::chrono_literals;
  std::future<int> call = async::async([] { return 40; });
  require_in_child(call.get() == 40, "async::async");
  std::atomic<int> sum{0};
  async::parallel_for(0, 1'000, [&sum](int i) { sum += i; });
  require_in_child(sum == 499'500, "parallel_for");
  async::future<int> length = async::blocking_pool::shared().post([] { return 3; });
  require_in_child(length.get() == 3, "blocking_pool::shared()");
  async::future<int> flow = steps::post<int>(async::threadpool::shared(), [](steps::IAsyncSteps& asi) {
    asi.setTimeout(60s);
    asi.await(async::threadpool::shared(), [] { return 7; });
  });
  require_in_child(flow.get() == 7, "a flow");
  async::promise<int> late;
  std::future<int> standard = late.get_future();
  async::future<int> again(std::move(standard));
  late.set_value(9);
  require_in_child(again.get() == 9, "a std::future");
}

}  // namespace testing
