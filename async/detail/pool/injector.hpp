// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <utility>  // for move

#include "async/bounded_queue.hpp"        // for bounded_queue
#include "async/detail/base/atomics.hpp"  // for atomic
#include "async/detail/base/config.hpp"   // for ASYNCSTEPS_FUNCTION
#include "async/errors.hpp"               // for stopped, queue_full
#include "async/queue.hpp"                // for queue
#include "async/task.hpp"                 // for task
#include "async/threadpool_options.hpp"   // for threadpool_options

namespace async::inline v0_1::detail {

/// The injection queue of a pool, for tasks from outside: unbounded, or bounded with an overflow policy.
///
/// Threads, order and progress as async::queue and async::bounded_queue.
class injector {
 public:
  explicit injector(const threadpool_options& options) : injector(options.max_queue, options.when_full) {}
  injector(std::size_t capacity, threadpool_options::overflow when_full);
  injector(const injector&) = delete;
  injector& operator=(const injector&) = delete;
  ~injector();

  /// Takes `work` in; waits for room if that is the policy, or takes it in without regard to the limit where `may_wait`
  /// is false. False: the caller has to run the task. Throws queue_full, or stopped if the injector is closed; the
  /// caller then keeps the task.
  bool put(task& work, bool may_wait);

  /// put() of a thread inside the pool: what finds no room goes beyond the limit, whatever the policy. Throws
  /// std::bad_alloc; then the caller keeps the task.
  void put_from_inside(task& work);
  /// Takes `work` in without regard to a limit. Throws std::bad_alloc; then the caller keeps it.
  void put_unlimited(task& work);

  /// 0: unbounded.
  std::size_t capacity() const noexcept;
  bool is_bounded() const noexcept { return bounded_ != nullptr; }
  threadpool_options::overflow when_full() const noexcept { return when_full_; }

  /// Takes the oldest task. Takes turns between those within the limit and those beyond it. False: there is none.
  bool take(task& out) noexcept;

  bool empty() const noexcept { return unbounded_.empty() && (bounded_ == nullptr || is_bounded_empty()); }

  /// Notes the number of waiting tasks; peak() is the largest number noted.
  void sample() noexcept;
  std::size_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }  // relaxed: a figure

  /// Returns unused memory of the unbounded queue to the system; says how many bytes that were.
  std::size_t trim() noexcept;

  /// Makes a bounded injector refuse tasks; threads that wait for room get stopped.
  void close() noexcept;

 private:
  bool is_bounded_empty() const noexcept;

  const threadpool_options::overflow when_full_;
  queue<task> unbounded_;
  bounded_queue<task>* const bounded_;  // owned; null: unbounded
  atomic<bool> beyond_first_{false};    // relaxed: it is enough that each kind has its turn before long
  atomic<std::size_t> peak_{0};
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION injector::injector(std::size_t capacity, threadpool_options::overflow when_full)
    : when_full_(when_full), bounded_(capacity == 0 ? nullptr : new bounded_queue<task>(capacity)) {}

ASYNCSTEPS_FUNCTION injector::~injector() { delete bounded_; }

ASYNCSTEPS_FUNCTION bool injector::put(task& work, bool may_wait) {
  using policy = threadpool_options::overflow;
  if (bounded_ == nullptr) {
    unbounded_.enqueue(std::move(work));
    return true;
  }
  const bool may_go_beyond = !may_wait && when_full_ == policy::block;
  const bool is_next = !may_go_beyond || unbounded_.empty();  // else it comes behind those that have gone beyond
  if (is_next && bounded_->enqueue(std::move(work))) return true;
  if (bounded_->is_closed()) throw stopped();
  if (when_full_ == policy::reject) throw queue_full();
  if (when_full_ == policy::caller_runs) return false;
  if (may_go_beyond) return put_unlimited(work), true;
  // NOLINTNEXTLINE(bugprone-use-after-move): an enqueue() that fails leaves its argument
  if (!bounded_->blocking_enqueue(std::move(work))) throw stopped();
  return true;
}

ASYNCSTEPS_FUNCTION void injector::put_from_inside(task& work) {
  if (bounded_ == nullptr || !bounded_->enqueue(std::move(work))) put_unlimited(work);
}

ASYNCSTEPS_FUNCTION void injector::put_unlimited(task& work) { unbounded_.enqueue(std::move(work)); }

ASYNCSTEPS_FUNCTION bool injector::take(task& out) noexcept {
  if (bounded_ == nullptr) return unbounded_.dequeue(out);
  if (!unbounded_.empty()) {
    const bool beyond_first = beyond_first_.load(std::memory_order_relaxed);
    beyond_first_.store(!beyond_first, std::memory_order_relaxed);
    if (beyond_first && unbounded_.dequeue(out)) return true;
  }
  return bounded_->dequeue(out) || unbounded_.dequeue(out);
}

ASYNCSTEPS_FUNCTION std::size_t injector::capacity() const noexcept {
  return bounded_ == nullptr ? 0 : bounded_->capacity();
}
ASYNCSTEPS_FUNCTION bool injector::is_bounded_empty() const noexcept { return bounded_->empty(); }

ASYNCSTEPS_FUNCTION void injector::sample() noexcept {
  const std::size_t size = unbounded_.approx_size() + (bounded_ == nullptr ? 0 : bounded_->approx_size());
  std::size_t peak = peak_.load(std::memory_order_relaxed);  // relaxed, both: a figure
  while (size > peak && !peak_.compare_exchange_weak(peak, size, std::memory_order_relaxed)) {
  }
}

ASYNCSTEPS_FUNCTION std::size_t injector::trim() noexcept { return unbounded_.trim(); }

ASYNCSTEPS_FUNCTION void injector::close() noexcept {
  if (bounded_ != nullptr) bounded_->close();
}
#endif

}  // namespace async::inline v0_1::detail
