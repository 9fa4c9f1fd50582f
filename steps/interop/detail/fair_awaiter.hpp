// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle
#include <exception>  // for exception_ptr, current_exception
#include <utility>    // for forward, move

#include "async/detail/queue/coroutine_wait.hpp"  // for coroutine_wait
#include "steps/interop/detail/operation.hpp"     // for host

/// Fairness of coroutines whose waits are ready.
namespace steps::inline v0_1::interop::detail {

/// An awaiter that may be ready without a wait. In a coroutine that is a step, it gives way to other work of the loop
/// after a number of such waits, or if it takes long: the coroutine suspends, and the Awaiter is asked in another turn.
template <class Awaiter>
class fair_awaiter final : async::detail::coroutine_wait {
 public:
  template <class From>
  fair_awaiter(host* home, From&& from) : coroutine_wait(&ask), home_(home), awaiter_(std::forward<From>(from)) {}

  bool await_ready() { return (home_ == nullptr || home_->may_ask()) && awaiter_.await_ready(); }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> suspending) {
    if (home_ == nullptr || home_->ready_left != 0) return awaiter_.await_suspend(suspending);
    suspends(suspending);
    await_ = [](fair_awaiter& self) {
      static_cast<void>(self.home_->may_ask());
      return self.awaiter_.await_ready() ||
             !self.awaiter_.await_suspend(std::coroutine_handle<P>::from_address(self.coroutine().address()));
    };
    home_->next = suspending;
    home_->looks_at = this;
    home_->gives_way = true;
    return true;
  }
  decltype(auto) await_resume() {
    if (error_ != nullptr) std::rethrow_exception(std::move(error_));
    return awaiter_.await_resume();
  }

 private:
  /// In a later turn. False: the coroutine waits.
  static bool ask(coroutine_wait& w) noexcept {
    auto& self = static_cast<fair_awaiter&>(w);
    try {
      return self.await_(self);
    } catch (...) {
      self.error_ = std::current_exception();
      return true;
    }
  }

  host* const home_;  // null: the coroutine is no step
  bool (*await_)(fair_awaiter&) = nullptr;
  std::exception_ptr error_;
  Awaiter awaiter_;
};

}  // namespace steps::inline v0_1::interop::detail
