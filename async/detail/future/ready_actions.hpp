// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_FUNCTION, ASYNCSTEPS_SHARED
#include "async/detail/base/held_back.hpp"      // for nothing_held_back
#include "async/detail/base/platform.hpp"       // for has_stack_room
#include "async/detail/base/resumptions.hpp"    // for resumptions, resumptions_apart
#include "async/detail/future/result_word.hpp"  // for continuation, run_all

namespace async::inline v0_1::detail {

/// Runs the actions of results that are ready when the action comes, within then(). A function may call then() again on
/// such a result, and so on. After a thousand of these calls, or when the thread's stack runs short, the action is put
/// off until the outermost call has run its own, or until the thread waits for a result that is not ready.
///
/// One thread's.
class ready_actions {
 public:
  void run(continuation& c) noexcept {
    if (calls_ >= most_calls || (calls_ != 0 && !has_stack_room())) [[unlikely]]
      return put_off(c);
    ++calls_;
    run_all(c.run(c));
    if (calls_ == 1 && first_ != nullptr) [[unlikely]]
      run_put_off();
    --calls_;
  }
  /// To be called where the thread waits for a result that one of them may have to make. True: some have run.
  bool before_wait() noexcept {
    if (first_ == nullptr) [[likely]]
      return false;
    run_put_off();
    return true;
  }

  /// While it lives, the thread runs tasks and loops inside a wait: what these put off, and the coroutines that they
  /// wake, are not left to the calls around the wait.
  class apart {
   public:
    /// Whether the thread is inside a function of then(), or a coroutine that it has resumed; if not, there are no such
    /// calls.
    static bool is_needed() noexcept;
    apart() noexcept;
    ~apart();
    apart(const apart&) = delete;
    apart& operator=(const apart&) = delete;

   private:
    const unsigned before_;
    const nothing_held_back here_;
    const resumptions_apart there_;
  };

 private:
  static constexpr unsigned most_calls = 1'000;

  void put_off(continuation& c) noexcept;
  void run_put_off() noexcept;

  continuation* first_ = nullptr;  // first in, first out
  continuation* last_ = nullptr;
  unsigned calls_ = 0;  // of run(), on this thread's stack
};
ASYNCSTEPS_SHARED inline constinit thread_local ready_actions actions_of_thread{};

inline bool ready_actions::apart::is_needed() noexcept {
  return (actions_of_thread.calls_ | unsigned{resumptions.resumes}) != 0;  // one branch, on a hot path
}
inline ready_actions::apart::apart() noexcept : before_(actions_of_thread.calls_) {
  static_cast<void>(actions_of_thread.before_wait());  // its calls do not change calls_
  actions_of_thread.calls_ = 0;
}
inline ready_actions::apart::~apart() { actions_of_thread.calls_ = before_; }

template <class F>
[[gnu::noinline]] void call_with_apart(F& f) {
  const ready_actions::apart from_those_around;
  f();
}
/// Calls f(), apart from functions of then(), actions and coroutines that the thread is inside of, which is seldom.
template <class F>
void call_apart(F f) {
  if (ready_actions::apart::is_needed()) [[unlikely]] {
    call_with_apart(f);
  } else {
    f();
  }
}

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void ready_actions::put_off(continuation& c) noexcept {
  c.next.set(nullptr);
  if (first_ == nullptr) {
    first_ = &c;
  } else {
    last_->next.set(&c);
  }
  last_ = &c;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void ready_actions::run_put_off() noexcept {
  ++calls_;  // those that the actions put off come into the same list
  while (first_ != nullptr) {
    continuation& c = *std::exchange(first_, first_->next.get());
    c.next.set(nullptr);
    run_all(c.run(c));
  }
  --calls_;
}
#endif

}  // namespace async::inline v0_1::detail
