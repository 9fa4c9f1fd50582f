// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>       // for destroy_at
#include <type_traits>  // for is_void_v
#include <utility>      // for exchange, move

#include "async/detail/base/block_cache.hpp"     // for allocate_block, free_block
#include "async/detail/base/functional.hpp"      // for ref
#include "async/detail/base/naps.hpp"            // for tell_of_poll
#include "async/detail/call/call_state.hpp"      // for is_ready
#include "async/detail/future/future_watch.hpp"  // for watch, watchers_of
#include "steps/detail/engine/step_record.hpp"   // for discard_results
#include "steps/detail/wait/run_again.hpp"       // for run_again
#include "steps/detail/wait/wait_block.hpp"      // for wait_block

/// std::future as a step, by await().
namespace steps::inline v0_1::detail {

/// A wait for a std::future. A promise of this library notifies it; since the promise may be another, the step also
/// looks at the future now and then.
struct watch_block final : wait_block, async::detail::future_watcher {
  explicit watch_block(step& s) noexcept : wait_block(&arrived, s, &destroyed), future_watcher(&ready) {}

  static void ready(future_watcher& w) noexcept {
    auto& self = static_cast<watch_block&>(w);
    self.send();
    self.release();
  }
  static void arrived(async::detail::message& m, async::detail::delivery how) {
    auto& self = static_cast<watch_block&>(m);
    if (how == async::detail::delivery::on_loop && self.waiting != nullptr) {
      self.expects_notice = false;
      run_again(*self.waiting);
    }
    self.release();
  }
  static void destroyed(wait_block& b) noexcept {
    auto& self = static_cast<watch_block&>(b);
    std::destroy_at(&self);
    async::detail::free_block(&self, sizeof(watch_block));
  }

  bool expects_notice = true;  // the loop thread's: it has not been notified, as far as the loop knows
};

/// The step's side of a watch_block, with the timer.
struct watch_scope : scope, async::detail::timer_node {
  explicit watch_scope(const void* s) noexcept : timer_node(&due), state(s) {}

  /// Without memory for a block only the timer looks.
  void listen() noexcept {
    try {
      block = ::new (async::detail::allocate_block(sizeof(watch_block))) watch_block(*holder);
    } catch (...) {
      return;
    }
    async::detail::watch(*block, state);
  }
  /// Registers anew after a notification that was for another future, whose state had the same address. False: there
  /// was no notification.
  bool listen_again() noexcept {
    if (block == nullptr || std::exchange(block->expects_notice, true)) return false;
    block->wait.share();
    async::detail::watch(*block, state);
    return true;
  }
  void arm_again() noexcept {
    holder->flow_->core->timers().rearm_after(*this, interval.next());  // a notification finds it armed
  }
  static void due(timer_node& node) {
    step& s = *static_cast<watch_scope&>(node).holder;
    if (!s.flow_->core->closing()) run_again(s);
  }
  static void left(scope& base) noexcept {
    auto& self = static_cast<watch_scope&>(base);
    self.holder->flow_->core->timers().disarm(self);
    if (self.block == nullptr) return;
    if (async::detail::watchers_of(self.state).remove(*self.block)) self.block->release();
    self.block->close();
  }
  static constexpr scope_ops ops{scope_ops::kind::leave_first, nullptr, &left};

  const void* const state;
  watch_block* block = nullptr;
  async::detail::look_interval interval;
};

/// Passes the value of a future that is ready to the next step, or throws its exception.
template <class Face, class Future>
void pass_on(Face& asi, Future& ready) {
  using result = decltype(ready.get());
  if constexpr (std::is_void_v<result>) {
    ready.get();
  } else if constexpr (std::is_lvalue_reference_v<result> && !std::is_const_v<std::remove_reference_t<result>>) {
    asi.success(std::ref(ready.get()));
  } else {
    asi.success(ready.get());
  }
}

/// A step of await(std::future) or await(std::shared_future).
template <class Face, class Future, class E>
struct await_step final : Face {
  template <class H>
  await_step(Future&& f, H&& h) : future(std::move(f)), handler(std::forward<H>(h)) {}

  static void run(step& s) {
    auto& self = static_cast<await_step&>(s);
    flow& f = *s.flow_;
    s.flags_ |= record_flag::begun;
    discard_results(f);
    if (!self.future.valid()) return misuse(f, "await() of a future without a shared state");
    if (!async::detail::is_ready(self.future) && !self.is_ready_after_all(f, s)) {
      if (!f.core->is_of_pool()) async::detail::tell_of_poll();  // in a task that has this loop
      self.watch->arm_again();
      return f.mark_wait();
    }
    pass_on(static_cast<Face&>(s), self.future);
  }
  void fail(ErrorCode code) { call_handler<Face>(handler, *this, code); }

  bool is_ready_after_all(flow& f, step& s) {
    if (watch == nullptr) {
      watch = &make_scope<watch_scope>(f, s, async::detail::shared_state_of(future));
      watch->listen();
    } else if (!watch->listen_again()) {
      return false;
    }
    return async::detail::is_ready(future);
  }

  Future future;
  watch_scope* watch = nullptr;
  [[no_unique_address]] E handler;
};

}  // namespace steps::inline v0_1::detail
