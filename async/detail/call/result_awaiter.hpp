// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <coroutine>  // for coroutine_handle
#include <utility>    // for move

#include "async/detail/call/future_access.hpp"   // for future_access
#include "async/detail/future/result_word.hpp"   // for continuation, forget_action, is_held_back
#include "async/detail/scope/current_scope.hpp"  // for work_of_others

namespace async::inline v0_1::detail {

/// Resumes a coroutine when a future is ready, on the thread that makes it ready. Does not resume a coroutine that is
/// destroyed while it waits.
template <class Future>
class [[nodiscard]] result_awaiter : continuation {
 public:
  explicit result_awaiter(Future f) noexcept : continuation(&arrived), future_(std::move(f)) {}
  ~result_awaiter() {
    if (is_listed_ && !future_access::state(future_)->word.remove(*this)) detail::forget_action(*this);
  }
  result_awaiter(const result_awaiter&) = delete;
  result_awaiter& operator=(const result_awaiter&) = delete;

  bool await_ready() const noexcept { return !future_.valid() || future_.is_ready(); }
  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    is_listed_ = true;  // before add(), after which this object may be gone
    if (future_access::state(future_)->word.add(*this)) return true;
    is_listed_ = false;
    return false;
  }
  /// Throws std::future_error for a future without state.
  decltype(auto) await_resume() { return future_.get(); }

 private:
  static continuation* arrived(continuation& c) noexcept {
    if (is_held_back(c)) return nullptr;
    auto& self = static_cast<result_awaiter&>(c);
    self.is_listed_ = false;
    const work_of_others here;
    self.waiting_.resume();
    return nullptr;
  }

  Future future_;
  std::coroutine_handle<> waiting_;
  bool is_listed_ = false;
};

}  // namespace async::inline v0_1::detail
