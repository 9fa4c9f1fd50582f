// SPDX-License-Identifier: BSL-1.0
//
// Workers begin tasks that never end, while the lookout goes off duty, or while a loop has work for the first time.
// When all are inside, a lookout is on duty.
#include "relacy_runner.hpp"

#include <chrono>
#include <cstddef>

#include "model_mutex.hpp"

#include "async/detail/pool/lookout.hpp"

using async::detail::atomic;
using async::detail::basic_lookout;
using model::check;

namespace {

/// At most one thread, which has been started already.
class one_thread {
 public:
  static constexpr std::chrono::milliseconds forever{2};

  one_thread(void (*)(void*) noexcept, void*) noexcept {}
  bool is_surplus(std::size_t missed, std::size_t more = 0) const {
    return at_work_.load(std::memory_order_relaxed) + more > missed;
  }
  template <class Body>
  void call(std::size_t, bool, Body) {
    lock_.lock();
    if (at_work_.load(std::memory_order_relaxed) == 0) at_work_.store(1, std::memory_order_relaxed);
    lock_.unlock();
  }
  template <class IsNeeded>
  bool rest(std::chrono::milliseconds, IsNeeded is_needed) {
    lock_.lock();
    at_work_.fetch_sub(1, std::memory_order_relaxed);
    const bool again = is_needed();
    if (again) at_work_.fetch_add(1, std::memory_order_relaxed);
    lock_.unlock();
    return again;
  }

 private:
  model::mutex lock_;
  atomic<unsigned> at_work_{0};
};

/// A pool of two workers, one of which is free at the beginning.
struct pool {
  basic_lookout<one_thread> lookout{nullptr, nullptr};
  atomic<unsigned> idle{1};
  atomic<unsigned> in_task[2];

  pool() {
    for (atomic<unsigned>& is : in_task) is.store(0, std::memory_order_relaxed);
  }
  void call() {
    lookout.call([] {});
  }
  bool needs_lookout() const {
    return idle.load(std::memory_order_acquire) == 0 &&
           (in_task[0].load(std::memory_order_relaxed) != 0 || in_task[1].load(std::memory_order_relaxed) != 0);
  }
  void work(unsigned index) {
    if (index == 1) idle.fetch_sub(1, std::memory_order_acq_rel);
    in_task[index].store(1, std::memory_order_relaxed);
    if (lookout.may_be_missed() && needs_lookout()) call();
  }
  void is_watched() { check(!lookout.may_be_missed(), "a lookout is on duty"); }
};

/// The lookout goes off duty.
struct goes_off : rl::test_suite<goes_off, 3> {
  pool p;
  void before() {
    p.lookout.begin_use();
    p.call();
  }
  void thread(unsigned index) {
    if (index != 2) return p.work(index);
    p.lookout.rest([this] { return p.needs_lookout(); });
  }
  void after() { p.is_watched(); }
};

/// A loop has work for the first time.
struct first_use : rl::test_suite<first_use, 3> {
  pool p;
  void thread(unsigned index) {
    if (index != 2) return p.work(index);
    p.lookout.begin_use();
    if (p.needs_lookout()) p.call();
  }
  void after() { p.is_watched(); }
};

/// A loop is used without a word.
struct untold : rl::test_suite<untold, 3> {
  pool p;
  void thread(unsigned index) {
    if (index != 2) return p.work(index);
    p.lookout.begin_use();
  }
  void after() { p.is_watched(); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("lookout", argc, argv);
  const model::effort some{.at_most = 30'000, .random = 50'000};
  run.check<goes_off>("workers begin tasks while the lookout goes off duty", some);
  run.check<first_use>("workers begin tasks while a loop has its first work", some);
  run.check_fails<untold>("nobody looks after a loop's first work", some);
  return run.result();
}
