// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle
#include <memory>     // for destroy_at
#include <new>        // for placement new

#include "async/detail/base/block_cache.hpp"        // for allocate_block, free_block
#include "async/detail/base/resumptions.hpp"        // for resumption, resumptions
#include "async/detail/queue/coroutine_wait.hpp"    // for coroutine_wait
#include "async/detail/queue/event_count.hpp"       // for event_count
#include "async/detail/queue/queue_result.hpp"      // for queue_result
#include "async/detail/queue/queue_wait_state.hpp"  // for queue_wait_state
#include "async/detail/queue/queue_waiter.hpp"      // for queue_waiter

namespace async::inline v0_1::detail {

class queue_wait;

/// A coroutine's place among the waiters of a queue. It may outlive the coroutine's frame, until notify() has come.
struct queue_wait_block : queue_waiter {
  struct operations {
    void (*go_on)(queue_wait_block&) noexcept;  // notified: see that the coroutine looks at the queue again
    void (*destroy)(queue_wait_block&) noexcept;
  };
  queue_wait_block(queue_wait& w, const operations& o) noexcept : queue_waiter(waiter), wait(w), own(o) {}

  void destroy() noexcept { own.destroy(*this); }

  queue_wait_state state;
  queue_wait& wait;  // gone if the state is abandoned

 private:
  static void notified(queue_waiter& w) noexcept {
    auto& self = static_cast<queue_wait_block&>(w);
    switch (self.state.notify()) {
      case queue_wait_state::next::nothing:
        return;
      case queue_wait_state::next::pass_on:
        return self.own.go_on(self);
      case queue_wait_state::next::free:
        return self.destroy();
    }
  }
  static constexpr queue_waiter::operations waiter{[](queue_waiter&) noexcept {}, &notified};

  const operations& own;
};

/// The part of an awaiter that does not depend on the element. The element stays in the queue until the coroutine is
/// about to go on, so that none is lost when the coroutine is destroyed.
///
/// Threads     those of the coroutine. notify() of the block: any.
class queue_wait : public coroutine_wait {
 public:
  /// coroutine_wait::look_again(), called directly.
  bool look_again() noexcept { return look(*this); }

 protected:
  /// Looks at the queue, without waiting. `closed` also for an exception, which is stored.
  using attempt = queue_result (*)(queue_wait&) noexcept;

  queue_wait(event_count& e, attempt a) noexcept : coroutine_wait(&look), events_(e), attempt_(a) {}
  /// Leaves the queue. A coroutine that has been chosen lets another one have its turn.
  ~queue_wait() {
    if (block_ == nullptr || events_.remove(*block_)) {
      if (block_ != nullptr) block_->destroy();
      return;
    }
    if (block_->state.abandon()) block_->destroy();
    events_.wake(1);
  }

  /// False: there is a result after all. True: the coroutine waits, and may have resumed already.
  bool begin(queue_wait_block& mine, std::coroutine_handle<> suspending) noexcept {
    block_ = &mine;
    suspends(suspending);
    return wait(false);
  }

 private:
  /// Looks at the queue after a notification, with the claimed block.
  static bool look(coroutine_wait& w) noexcept {
    auto& self = static_cast<queue_wait&>(w);
    queue_wait_block& mine = *self.block_;
    const queue_result got = self.attempt_(self);
    if (got == queue_result::blocked) return !self.wait(true);
    self.block_ = nullptr;
    mine.destroy();
    if (got != queue_result::done) self.events_.wake(1);
    return true;
  }
  /// Not inlined: compilers may keep variables of await_suspend() in the frame.
  [[gnu::noinline]] bool wait(bool in_front) noexcept {
    queue_wait_block& mine = *block_;
    for (;; in_front = true) {
      events_.add(mine, in_front);
      if (attempt_(*this) != queue_result::blocked) return leave(mine);
      if (mine.state.suspend()) return true;
      mine.state.again();
      const queue_result got = attempt_(*this);
      if (got == queue_result::blocked) continue;
      block_ = nullptr;
      mine.destroy();
      if (got != queue_result::done) events_.wake(1);
      return false;
    }
  }
  /// Leaves the queue with a result. A wake-up that has chosen this coroutine may have been for another element: it is
  /// passed on.
  bool leave(queue_wait_block& mine) noexcept {
    block_ = nullptr;
    if (events_.remove(mine)) {
      mine.destroy();
    } else {
      if (mine.state.detach()) mine.destroy();
      events_.wake(1);
    }
    return false;
  }

  event_count& events_;
  const attempt attempt_;
  queue_wait_block* block_ = nullptr;
};

/// The block of a coroutine that resumes on the thread that changes the queue.
struct resuming_block final : queue_wait_block, resumption {
  static resuming_block& make(queue_wait& w) {
    return *::new (allocate_block(sizeof(resuming_block), alignof(resuming_block))) resuming_block(w);
  }

 private:
  explicit resuming_block(queue_wait& w) noexcept : queue_wait_block(w, here), resumption(&resume) {}

  static void listed(queue_wait_block& b) noexcept { resumptions.push(static_cast<resuming_block&>(b)); }
  static void resume(resumption& r) noexcept {
    auto& self = static_cast<resuming_block&>(r);
    if (!self.state.claim()) return self.destroy();
    queue_wait& mine = self.wait;
    if (mine.look_again()) mine.coroutine().resume();
  }
  static void freed(queue_wait_block& b) noexcept {
    auto& self = static_cast<resuming_block&>(b);
    std::destroy_at(&self);
    free_block(&self, sizeof(resuming_block), alignof(resuming_block));
  }
  static constexpr operations here{&listed, &freed};
};

}  // namespace async::inline v0_1::detail
