// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle
#include <cstddef>    // for size_t
#include <exception>  // for current_exception, exception_ptr
#include <tuple>      // for tuple, apply
#include <utility>    // for exchange, forward, move

#include "async/detail/base/atomics.hpp"              // for atomic
#include "async/detail/queue/coroutine_wait.hpp"      // for coroutine_wait
#include "async/detail/select/select_wait_state.hpp"  // for select_wait_state
#include "async/detail/select/select_waiter.hpp"      // for select_waiter, select_block
#include "async/detail/select/selection.hpp"          // for selection

/// Coroutines that wait for several things. Elements stay in their queues until the coroutine is about to go on, so
/// that none is lost when it is destroyed.
namespace async::inline v0_1::detail {

/// A coroutine that waits, or the rest of one that has gone on or been destroyed. The derived class passes it on to the
/// thread that lets it go on.
class select_coroutine : public select_waiter {
 public:
  enum class alarm : unsigned char { none, up, lost };

  select_coroutine(action to_wake, action to_free, coroutine_wait& w) noexcept
      : select_waiter(to_wake, to_free), wait(w) {}

  /// The time is up, or the loop that has the timer has gone. Takes over a reference.
  void ring(alarm why) noexcept {
    alarm_.store(why, std::memory_order_relaxed);  // relaxed: wake() publishes it
    wake();
  }
  alarm rung() const noexcept { return alarm_.load(std::memory_order_relaxed); }  // relaxed: as above

  select_wait_state state;
  coroutine_wait& wait;  // gone if the state is abandoned

 private:
  atomic<alarm> alarm_{alarm::none};
};

/// A wait of a coroutine for the first of several cases. Alarm: calls ring() of the waiter after the shortest limit,
/// until it is destroyed or cancel() is called.
///
/// Threads     those of the coroutine.
template <class Alarm, class... Cases>
class select_wait : public coroutine_wait {
 public:
  explicit select_wait(std::tuple<Cases...>&& cases) : coroutine_wait(&look_again), cases_(std::move(cases)) {}
  /// Gives up all places in queues. The coroutine goes on, or is destroyed.
  ~select_wait() {
    if (waiter_ == nullptr) return;
    waiter_->state.abandon();
    leave();
  }

 protected:
  using chosen = selection<Cases...>;
  using watches_type = typename chosen::watches_type;

  chosen all() noexcept {
    return std::apply([](Cases&... each) { return chosen(each...); }, cases_);
  }
  /// Looks at the cases, without waiting. Throws what attempts throw.
  bool try_all() { return (found_ = all().try_all()) != chosen::pending; }

  /// Makes the waiter, after a try_all() that has found nothing. Throws std::bad_alloc.
  template <class Waiter, class... A>
  Waiter& make_waiter(A&&... arguments) {
    auto& block = select_block<Waiter, watches_type>::make(*this, std::forward<A>(arguments)...);
    waiter_ = &block;
    watches_ = &block.watches;
    return block;
  }
  /// False: a case takes effect after all. True: the coroutine waits, and may have resumed already.
  bool begin(std::coroutine_handle<> suspending) noexcept {
    suspends(suspending);
    return wait();
  }
  void leave() noexcept {
    alarm_.cancel();
    all().leave_all(*watches_);
    std::exchange(waiter_, nullptr)->release();
  }

  Alarm& timer() noexcept { return alarm_; }
  std::tuple<Cases...>& cases() noexcept { return cases_; }
  std::size_t found() const noexcept { return found_; }
  /// The exception of an attempt, or of a lost alarm, that ended the wait; null if a case did.
  std::exception_ptr take_error() noexcept { return std::move(error_); }

 private:
  static bool look_again(coroutine_wait& w) noexcept {
    auto& self = static_cast<select_wait&>(w);
    return self.look() || !self.wait();
  }

  /// Not inlined: compilers may keep variables of await_suspend() in the frame.
  [[gnu::noinline]] bool wait() noexcept {
    for (select_coroutine& mine = *waiter_;;) {
      all().list_all(*watches_);
      if (look()) return false;
      if (mine.state.suspend()) return true;
      mine.state.again();
      if (look()) return false;
    }
  }
  /// True: the coroutine goes on, and has left.
  bool look() noexcept {
    try {
      if (waiter_->rung() != select_coroutine::alarm::none) alarm_.rung(waiter_->rung(), cases_);
      found_ = all().try_all(watches_);
    } catch (...) {
      error_ = std::current_exception();
    }
    if (found_ == chosen::pending && error_ == nullptr) return false;
    leave();
    return true;
  }

  std::tuple<Cases...> cases_;
  [[no_unique_address]] Alarm alarm_;
  std::size_t found_ = chosen::pending;
  std::exception_ptr error_;
  select_coroutine* waiter_ = nullptr;
  watches_type* watches_ = nullptr;
};

}  // namespace async::inline v0_1::detail
