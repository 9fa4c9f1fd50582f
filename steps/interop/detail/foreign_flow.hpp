// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint32_t
#include <limits>   // for numeric_limits
#include <memory>   // for shared_ptr
#include <mutex>    // for mutex, lock_guard
#include <utility>  // for exchange, move

#include "async/detail/base/chrono.hpp"  // for milliseconds, ceil
#include "async/event_loop.hpp"          // for event_loop
#include "async/future.hpp"              // for future
#include "steps/asyncsteps.hpp"          // for AsyncSteps
#include "steps/interop/binary.h"        // for FutoInAsyncSteps, FutoInHandle

/// A flow of this library inside a step of another runtime.
namespace steps::inline v0_1::interop::detail {

/// A flow on a loop of its own, which the loop of the foreign flow drives: so its steps never run at the same time as
/// those of the foreign flow.
///
/// Threads     the foreign loop's, except that the loop may be woken from any.
class foreign_flow {
 public:
  explicit foreign_flow(FutoInAsyncSteps& bsi)
      : link_(std::make_shared<link>(&bsi, this)), loop_([to = link_] { call_soon(to); }), flow_(loop_) {}
  foreign_flow(const foreign_flow&) = delete;
  foreign_flow& operator=(const foreign_flow&) = delete;

  AsyncSteps& flow() noexcept { return flow_; }
  async::future<void>& end() noexcept { return end_; }
  bool has_ended() const { return end_.is_ready(); }

  /// Begins the flow.
  void execute() { end_ = flow_.promise<void>(); }
  async::event_loop::cycle_result turn() {
    is_in_turn_ = true;
    const async::event_loop::cycle_result next = loop_.iterate();
    is_in_turn_ = false;
    return next;
  }
  bool is_in_turn() const noexcept { return is_in_turn_; }
  /// Runs a turn, and has the foreign loop run the next one in time.
  void drive() {
    forget_timer();
    const async::event_loop::cycle_result next = turn();
    if (!has_turned()) drive_after(next);  // else this may have been destroyed
  }
  void drive_soon() { call_soon(link_); }
  void drive_after(const async::event_loop::cycle_result& turn) {
    if (!turn.have_work) return;
    if (turn.delay <= turn.delay.zero()) return drive_soon();
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(turn.delay).count();
    constexpr std::uint32_t most = (std::numeric_limits<std::uint32_t>::max)();
    FutoInAsyncSteps& bsi = *link_->bsi;
    timer_ = bsi.api->sched_deferred(&bsi, ms > most ? most : static_cast<std::uint32_t>(ms), this, [](void* self) {
      static_cast<foreign_flow*>(self)->has_timer_ = false;
      static_cast<foreign_flow*>(self)->drive();
    });
    has_timer_ = true;
  }
  /// The foreign step has ended: nothing of it is called any more.
  void part() noexcept {
    forget_timer();
    std::shared_ptr<link> scheduled;
    FutoInAsyncSteps* bsi;
    {
      const std::lock_guard<std::mutex> together(link_->lock);
      bsi = std::exchange(link_->bsi, nullptr);
      link_->flow = nullptr;
      scheduled = std::move(link_->scheduled);
    }
    if (scheduled != nullptr) bsi->api->sched_cancel(bsi, &scheduled->callback);
  }

 protected:
  ~foreign_flow() {
    part();
    async::detail::core_of(loop_).adopt();  // the thread that ends the foreign step may be another one each time
  }

 private:
  /// The part that callbacks of the foreign loop and wake-ups from other threads refer to.
  struct link {
    link(FutoInAsyncSteps* b, foreign_flow* f) noexcept : bsi(b), flow(f) {}

    std::mutex lock;
    FutoInAsyncSteps* bsi;
    foreign_flow* flow;
    std::shared_ptr<link> scheduled;  // itself, while a callback is on its way
    FutoInHandle callback{};
  };

  /// Called after each turn. Returns true when it may have destroyed this, and when there is no next turn.
  virtual bool has_turned() = 0;

  static void call_soon(const std::shared_ptr<link>& to) {
    const std::lock_guard<std::mutex> together(to->lock);
    if (to->bsi == nullptr || to->scheduled != nullptr) return;
    to->scheduled = to;
    to->callback = to->bsi->api->sched_immediate(to->bsi, to.get(), &called);
  }
  static void called(void* data) {
    std::shared_ptr<link> to;
    foreign_flow* flow = nullptr;
    {
      const std::lock_guard<std::mutex> together(static_cast<link*>(data)->lock);
      flow = static_cast<link*>(data)->flow;
      to = std::move(static_cast<link*>(data)->scheduled);
    }
    if (flow != nullptr) flow->drive();
  }
  void forget_timer() noexcept {
    if (!std::exchange(has_timer_, false)) return;
    FutoInAsyncSteps& bsi = *link_->bsi;
    bsi.api->sched_cancel(&bsi, &timer_);
  }

  const std::shared_ptr<link> link_;
  async::event_loop loop_;
  AsyncSteps flow_;
  async::future<void> end_;
  FutoInHandle timer_{};
  bool has_timer_ = false;
  bool is_in_turn_ = false;
};

/// The error that has ended a flow, for C.
template <class F>
void with_error_of(async::future<void>& end, F&& call) {
  try {
    end.get();
  } catch (const Error& e) {
    call(e.code().c_str(), e.error_info().c_str());
  } catch (const std::exception& e) {
    call(e.what(), "");
  } catch (...) {
    call(errors::InternalError.c_str(), "an exception that is no std::exception");
  }
}

}  // namespace steps::inline v0_1::interop::detail
