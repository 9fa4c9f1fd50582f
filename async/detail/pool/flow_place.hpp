// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_ASSERT
#include "async/detail/pool/pool_core.hpp"      // for pool_core, worker, pool_loop
#include "async/detail/scope/scope_cache.hpp"   // for task_scope, posted_task, posted_by_flow
#include "async/detail/trace/trace_points.hpp"  // for ASYNCSTEPS_TRACES
#include "async/priority.hpp"                   // for priority

namespace async::inline v0_1::detail {

/// The loop of a flow that is about to start. Its destructor lets the loop rest, or queues it.
///
/// A worker keeps a loop in hand: a flow that ends in its first turn leaves it there for the next one, so that such
/// flows need no atomic read-modify-write for it. A flow that goes on takes the loop along.
class pool_core::flow_place {
 public:
  flow_place(pool_core& pool, worker* w, pool_loop* h, pool_loop& otherwise, bool is_here) noexcept
      : here(is_here), pool_(pool), worker_(w), loop_(h != nullptr ? *h : otherwise), has_it_(h != nullptr) {}
  ~flow_place() {
    if (!has_it_) return;
    if (here) loop_.driver.unbias();
    if (!loop_.slot.word.is_scheduled() && !loop_.driver.has_messages())
      pool_.make_spare(worker_, loop_);  // no flow was sent
    pool_.end_possession(loop_, false);
  }
  flow_place(const flow_place&) = delete;
  flow_place& operator=(const flow_place&) = delete;

  loop_core& core() const noexcept { return loop_.core(); }

  /// Gives the flow's priority to the loop, for as long as the flow has it. The flow has come by submit_with(). Before
  /// visit().
  void rank(priority wanted) noexcept {
    ASYNCSTEPS_ASSERT(pool_.priorities_.find() != nullptr);
    if (has_it_) loop_.slot.level = wanted;
  }

  /// Hands the loop a flow's start. False: it takes none any more, or the pool is ending and the caller is a thread
  /// from outside: it may wait for the flow, while the thread that closes the loops waits for it.
  bool send(message& start) noexcept {
    return (pool_.is_inside() || !pool_.shutdown_.has_begun()) && core().push(start);
  }

  /// Calls f() in a turn of the loop. Only if `here`.
  template <class F>
  void visit(F f) {
    has_it_ = false;
    visit_end after{*this};
    loop_driver::turn in(loop_.driver);
    const turn_end at_end{after, in};
    task_scope* const tag = worker_->post_tag;
    if (pool_.shutdown_.is_closing()) [[unlikely]]
      worker_->post_tag = &posted_by_flow;
    f();
    worker_->post_tag = tag;
  }

  /// In f() of visit(), where that has ended a flow: takes the worker's own newest job as the next task, if nothing has
  /// stayed in the loop and wanted(job). Null: f() is to return.
  template <class Wanted>
  job* next_task(Wanted wanted) noexcept {
    worker& w = *worker_;
    if (ASYNCSTEPS_TRACES) return nullptr;  // each task is a span
    if (!loop_.driver.vacate(pool_.loops_unhandled_)) return nullptr;
    const job_deque::element e = pool_.next_in_turn(w);
    if (!e) return nullptr;
    if (e.tag != &posted_task || !wanted(e.item)) {
      w.own.push(e.item, e.tag);  // there is room
      ++w.tasks_left;
      return nullptr;
    }
    w.made_from = w.own.position();
    pool_.count_task(w);
    pool_.sleepers_.notify_event();
    return e.item;
  }

  const bool here;

 private:
  struct visit_end {
    flow_place& self;
    bool is_vacant = false;
    bool has_work = false;
    ~visit_end() {
      if (is_vacant) {
        self.loop_.slot.level = priority::normal;
        self.worker_->in_hand = &self.loop_;
      } else {
        self.loop_.driver.unbias();
        self.pool_.end_possession(self.loop_, has_work);
        self.pool_.before_functions();  // tasks that run next may block, and the turn may have armed a timer
      }
    }
  };
  struct turn_end {
    visit_end& after;
    loop_driver::turn& in;
    ~turn_end() {
      flow_place& self = after.self;
      after.is_vacant = self.worker_->in_hand == nullptr && self.loop_.driver.vacate(self.pool_.loops_unhandled_);
      if (!after.is_vacant) after.has_work = self.pool_.settle(self.worker_, self.loop_, in);
    }
  };

  pool_core& pool_;
  worker* const worker_;
  pool_loop& loop_;
  bool has_it_;
};

[[gnu::always_inline]] inline pool_core::flow_place pool_core::place_for_flow() noexcept {
  worker* const w = own_worker();
  if (w == nullptr || current_loop != nullptr) {
    return {*this, w, take_spare(w), crew_.loop(w != nullptr ? w->index : 0), false};
  }
  pool_loop* h = std::exchange(w->in_hand, nullptr);
  if (h == nullptr && (h = take_spare(w)) != nullptr) {
    h->driver.bias();
    h->ran_on = static_cast<std::uint32_t>(w->index + 1);
  }
  return {*this, w, h, w->own_loop, h != nullptr};
}

}  // namespace async::inline v0_1::detail
