// SPDX-License-Identifier: BSL-1.0
//
// The lower bound for any pool: a sleeping thread is woken with a call to make, and wakes the caller. The operating
// system and the machine determine that time. A pool adds the rest.
#include <chrono>    // for microseconds
#include <cstdint>   // for uint64_t
#include <optional>  // for optional
#include <thread>    // for thread
#include <tuple>     // for tuple

#include "../support/pool_workloads.hpp"  // for measure_latency
#include "async/detail/base/parker.hpp"   // for parker

namespace {

class one_thread {
 public:
  /// The result of post(), in place of a future. One caller at a time.
  struct result {
    one_thread& of;
    std::uint64_t get() {
      of.done_.park();
      return of.value_;
    }
  };

  explicit one_thread(std::size_t /*workers*/) : thread_([this] { work(); }) {}
  ~one_thread() {
    call_.reset();
    work_.unpark();
    thread_.join();
  }
  result post(bench::value_task call) {
    call_ = call;
    work_.unpark();
    return {*this};
  }

 private:
  void work() {
    for (;;) {
      work_.park();
      if (!call_) return;
      value_ = (*call_)();
      done_.unpark();
    }
  }

  async::detail::parker work_, done_;
  std::optional<bench::value_task> call_;
  std::uint64_t value_ = 0;
  std::thread thread_;
};

const bench::enroll contestants([](bench::plan& plan) {
  for (const auto& [workload, items, idle] : {std::tuple("pool/latency 50 us", plan.size(2000, 1000), 50),
                                              std::tuple("pool/latency 5 ms", plan.size(200, 30), 5000)}) {
    plan.add(workload, {"a thread and two wake-ups, no pool", 99, items, [idle](std::size_t count) {
                          return bench::measure_latency<one_thread>(1, count, std::chrono::microseconds(idle));
                        }});
  }
});

}  // namespace
