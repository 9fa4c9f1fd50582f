// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <new>      // for placement new
#include <utility>  // for exchange

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_SHARED

namespace async::inline v0_1::detail {

/// A coroutine that can go on. run() resumes it, and may free this.
struct resumption {
  explicit resumption(void (*f)(resumption&) noexcept) noexcept : run(f) {}

  void (*const run)(resumption&) noexcept;
  resumption* after = nullptr;
};

/// The coroutines that this thread is going to resume, first in, first out. See resume_scope.
struct resume_list {
  resumption* first = nullptr;
  resumption* last = nullptr;
  unsigned scopes = 0;   // 0: empty
  bool resumes = false;  // a coroutine of the list runs, inside the outermost scope

  void push(resumption& r) noexcept {
    r.after = nullptr;
    (last != nullptr ? last->after : first) = &r;
    last = &r;
  }
  /// Null: it is empty.
  resumption* pop() noexcept {
    resumption* const next = first;
    if (next != nullptr) first = next->after;
    if (first == nullptr) last = nullptr;
    return next;
  }
  /// Whether the thread runs one of them, and is in no call of a queue that this one makes.
  bool is_in_coroutine() const noexcept { return resumes && scopes == 1; }
};
ASYNCSTEPS_SHARED inline constinit thread_local resume_list resumptions{};

/// While it lives, the thread runs tasks or loops inside a coroutine that it has resumed, which waits for them: they
/// may wait for the coroutines that they wake. In a bulk these are held back all the same.
class resumptions_apart {
 public:
  resumptions_apart() noexcept : is_needed_(resumptions.is_in_coroutine()) {
    if (is_needed_) [[unlikely]]
      ::new (static_cast<void*>(&before_)) resume_list(std::exchange(resumptions, {}));
  }
  ~resumptions_apart() {
    if (is_needed_) [[unlikely]]
      resumptions = before_;
  }
  resumptions_apart(const resumptions_apart&) = delete;
  resumptions_apart& operator=(const resumptions_apart&) = delete;

 private:
  const bool is_needed_;
  union {
    resume_list before_;  // if needed
  };
};

}  // namespace async::inline v0_1::detail
