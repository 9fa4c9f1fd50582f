// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>    // for future
#include <memory>    // for destroy_at
#include <optional>  // for optional
#include <utility>   // for exchange, move

#include "async/detail/base/block_cache.hpp"      // for allocate_block, free_block
#include "async/detail/base/naps.hpp"             // for tell_of_poll
#include "async/detail/base/reference_count.hpp"  // for reference_count
#include "async/detail/call/call_state.hpp"       // for is_ready
#include "async/detail/future/future_watch.hpp"   // for future_watcher, watch, watchers_of, look_interval
#include "async/detail/loop/loop_entry.hpp"       // for loop_entry
#include "async/detail/loop/loop_ref.hpp"         // for loop_ref, message, timer_node
#include "steps/interop/detail/operation.hpp"     // for trigger

namespace steps::inline v0_1::interop::detail {

/// A coroutine's wait for a future. A loop looks at the future in its turns: when the wait begins, when the future is
/// notified, and now and then, since a promise of another library does not notify.
///
/// Threads     begin(), notified(), release(): any. All others: the loop's.
template <class T>
class future_wait final : async::detail::message, async::detail::timer_node, async::detail::future_watcher {
 public:
  /// The awaiter's reference, by which it withdraws.
  class handle {
   public:
    handle() noexcept = default;
    explicit handle(future_wait& w) noexcept : wait_(&w) { w.share(); }
    handle(handle&& other) noexcept : wait_(std::exchange(other.wait_, nullptr)) {}
    handle& operator=(handle&& other) noexcept {
      std::swap(wait_, other.wait_);
      return *this;
    }
    ~handle() {
      if (wait_ != nullptr) wait_->release();
    }

    /// Ends the wait and drops the future: at once on the loop's thread, else at the loop's next look.
    void cancel() noexcept {
      if (wait_ == nullptr) return;
      const async::detail::loop_entry here(*wait_->loop_.get(), async::detail::loop_entry::who::owner);
      if (here) wait_->end();
    }

   private:
    future_wait* wait_ = nullptr;
  };

  /// Throws std::bad_alloc, without effects. The trigger may fire before this has returned.
  static void begin(async::detail::loop_core& core, std::future<T>&& f, trigger<T>&& wanted, handle& tie) {
    void* const block = async::detail::allocate_block(sizeof(future_wait), alignof(future_wait));
    auto& self = *::new (block) future_wait(core, std::move(f), std::move(wanted));
    tie = handle(self);
    if (const async::detail::loop_entry here(core, async::detail::loop_entry::who::owner); here) {
      if (core.closing()) return self.end();
      return core.timers().arm_now(self);
    }
    self.share();  // the message's
    if (self.loop_.push(self)) return;
    self.end();
    self.release();
  }

 private:
  future_wait(async::detail::loop_core& core, std::future<T>&& f, trigger<T>&& wanted) noexcept
      : message(&arrived),
        timer_node(&due),
        future_watcher(&notified),
        loop_(core),
        state_(async::detail::shared_state_of(f)),
        future_(std::move(f)),
        end_(std::move(wanted)) {}

  /// Sends the loop to look: the list's reference becomes the message's. A loop that has gone has ended the wait.
  static void notified(async::detail::future_watcher& w) noexcept {
    auto& self = static_cast<future_wait&>(w);
    if (!self.loop_.push(self)) self.release();
  }
  static void arrived(async::detail::message& m, async::detail::delivery how) {
    auto& self = static_cast<future_wait&>(m);
    how == async::detail::delivery::on_loop ? self.look() : self.end();
    self.release();
  }
  static void due(async::detail::timer_node& node) {
    auto& self = static_cast<future_wait&>(node);
    self.loop_.get()->closing() ? self.end() : self.look();
  }

  void look() noexcept {
    if (!end_.has_value()) return;
    if (!end_->is_wanted()) return end();
    if (!async::detail::is_ready(future_) && !is_ready_after_all()) {
      if (!loop_.get()->is_of_pool()) async::detail::tell_of_poll();  // in a task that has this loop
      return loop_.get()->timers().rearm_after(*this, interval_.next());
    }
    std::future<T> ready = std::move(future_);
    trigger<T> wanted = std::move(*end_);
    end();
    wanted.run([&ready]() -> T { return ready.get(); });
  }
  bool is_ready_after_all() noexcept {
    if (std::exchange(listens_, true)) return false;
    share();
    async::detail::watch(*this, state_);
    return async::detail::is_ready(future_);
  }
  /// Releases all that the wait has. A trigger that has not fired breaks its promise.
  void end() noexcept {
    if (!end_.has_value()) return;
    loop_.get()->timers().disarm(*this);
    if (listens_ && async::detail::watchers_of(state_).remove(*this)) release();
    const std::future<T> unused = std::move(future_);
    const trigger<T> unfired = std::move(*end_);
    end_.reset();
    release();
  }

  void share() noexcept { references_.add(); }
  void release() noexcept {
    if (!references_.drop()) return;
    std::destroy_at(this);
    async::detail::free_block(this, sizeof(future_wait), alignof(future_wait));
  }

  /// Held by the loop until the end, the awaiter, the list of watchers, and a message under way.
  async::detail::reference_count references_;
  const async::detail::loop_ref loop_;
  const void* const state_;
  std::future<T> future_;
  std::optional<trigger<T>> end_;  // none: it has ended
  async::detail::look_interval interval_;
  bool listens_ = false;
};

}  // namespace steps::inline v0_1::interop::detail
