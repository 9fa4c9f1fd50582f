// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>   // for destroy_at
#include <utility>  // for exchange

#include "async/detail/base/block_cache.hpp"     // for allocate_block, free_block
#include "async/detail/call/result_state.hpp"    // for result_state
#include "async/detail/future/result_word.hpp"   // for continuation
#include "async/detail/loop/timer_queue.hpp"     // for timer_node
#include "async/detail/queue/event_count.hpp"    // for event_count
#include "async/detail/select/select_limit.hpp"  // for timer_limit
#include "steps/detail/wait/queue_wait.hpp"      // for queue_caller
#include "steps/detail/wait/run_again.hpp"       // for run_again
#include "steps/detail/wait/wait_block.hpp"      // for wait_block

/// The places of a step of select() in queues and timers, which wake it: one for each case that it waits for.
namespace steps::inline v0_1::detail {

/// A place in the line of a queue. A wake-up is used by an attempt that begins after it; leave() passes on all others,
/// since a queue wakes one waiter for each element.
class queue_place {
 public:
  queue_place() = default;
  queue_place(const queue_place&) = delete;
  queue_place& operator=(const queue_place&) = delete;

  /// Lines up, unless it has; in front, after a wake-up that came to nothing. Throws std::bad_alloc the first time.
  void line_up(flow& f, async::detail::event_count& events) {
    if (caller_ == nullptr) {
      caller_ = ::new (async::detail::allocate_block(sizeof(queue_caller))) queue_caller(f, events);
      events.add(*caller_, false);
    } else if (is_used_) {
      is_used_ = false;
      caller_->reset();
      events.add(*caller_, true);
    }
  }
  /// Before an attempt, and after it unless it has thrown.
  void look() noexcept { was_called_ = caller_ != nullptr && caller_->has_arrived(); }
  void attempted() noexcept { is_used_ = was_called_; }

  void leave() noexcept {
    if (caller_ == nullptr) return;
    queue_caller& caller = *std::exchange(caller_, nullptr);
    is_used_ ? queue_caller::destroy(caller) : caller.leave();
  }

 private:
  queue_caller* caller_ = nullptr;
  bool was_called_ = false;
  bool is_used_ = false;
};

/// A wait for an async::future, which it keeps ready to be looked at, and the message that tells the flow.
struct ready_block final : wait_block, async::detail::continuation {
  ready_block(step& s, async::detail::result_state& r) noexcept
      : wait_block(&arrived, s, &destroyed), continuation(&ready), state(r) {
    state.add_reference();
  }
  ready_block(const ready_block&) = delete;
  ready_block& operator=(const ready_block&) = delete;
  ~ready_block() { state.release(); }

  static continuation* ready(continuation& c) noexcept {
    auto& self = static_cast<ready_block&>(c);
    self.send();
    self.release();
    return nullptr;
  }
  static void arrived(async::detail::message& m, async::detail::delivery how) {
    auto& self = static_cast<ready_block&>(m);
    if (how == async::detail::delivery::on_loop && self.waiting != nullptr) run_again(*self.waiting);
    self.release();
  }
  static void destroyed(wait_block& b) noexcept {
    auto& self = static_cast<ready_block&>(b);
    std::destroy_at(&self);
    async::detail::free_block(&self, sizeof(ready_block));
  }

  async::detail::result_state& state;
};

/// A place among the actions of a future. It is notified once.
class ready_place {
 public:
  ready_place() = default;
  ready_place(const ready_place&) = delete;
  ready_place& operator=(const ready_place&) = delete;

  /// Throws std::bad_alloc the first time.
  void line_up(step& s, async::detail::result_state& state) {
    if (block_ != nullptr) return;
    block_ = ::new (async::detail::allocate_block(sizeof(ready_block))) ready_block(s, state);
    if (!state.word.add(*block_)) block_->release();  // it is ready, as the attempt to come finds
  }
  void look() noexcept {}
  void attempted() noexcept {}
  void leave() noexcept {
    if (block_ == nullptr) return;
    ready_block& block = *std::exchange(block_, nullptr);
    if (block.state.word.remove(block)) block.release();
    block.close();
  }

 private:
  ready_block* block_ = nullptr;
};

/// For a case that is not notified.
struct no_place {
  void look() noexcept {}
  void attempted() noexcept {}
  void leave() noexcept {}
};

/// The timer of a step, for the shortest of its limits.
struct limit_timer : async::detail::timer_node {
  limit_timer() noexcept : timer_node(&due) {}

  static void due(timer_node& node) {
    auto& self = static_cast<limit_timer&>(node);
    if (self.waiting->flow_->core->closing()) return;
    self.limit->pass();
    run_again(*self.waiting);
  }

  step* waiting = nullptr;
  async::detail::timer_limit* limit = nullptr;
};

}  // namespace steps::inline v0_1::detail
