// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"         // for under_model
#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_SHARED
#include "async/detail/scope/current_scope.hpp"  // for work_of_others

namespace async::inline v0_1::detail {

/// A coroutine that can go on. run() resumes it, and may free this.
struct resumption {
  explicit resumption(void (*f)(resumption&) noexcept) noexcept : run(f) {}

  void (*const run)(resumption&) noexcept;
  resumption* after = nullptr;
};

/// The coroutines that this thread is going to resume, first in, first out.
struct resume_list {
  resumption* first = nullptr;
  resumption* last = nullptr;
  unsigned scopes = 0;  // 0: empty

  void push(resumption& r) noexcept {
    r.after = nullptr;
    (last != nullptr ? last->after : first) = &r;
    last = &r;
  }
  [[gnu::noinline]] void run_all() noexcept {
    const work_of_others here;
    while (first != nullptr) {
      resumption& next = *first;
      first = next.after;
      if (first == nullptr) last = nullptr;
      next.run(next);
    }
  }
};
ASYNCSTEPS_SHARED inline constinit thread_local resume_list resumptions{};

/// Holds back the coroutines that the calling thread is to resume, until its outermost scope ends. So a chain of
/// coroutines that wake each other needs no stack. A bulk_enqueue has a scope around its claim: none runs before the
/// bulk has published or given up all slots. A call for one element has none there: a coroutine that the element's
/// constructor or assignment wakes runs inside the claim.
class resume_scope {
 public:
  resume_scope() noexcept {
    if constexpr (!under_model) ++resumptions.scopes;
  }
  ~resume_scope() {
    if constexpr (!under_model) {
      if (resumptions.scopes == 1 && resumptions.first != nullptr) [[unlikely]]
        resumptions.run_all();  // inside the scope
      --resumptions.scopes;
    }
  }
  resume_scope(const resume_scope&) = delete;
  resume_scope& operator=(const resume_scope&) = delete;
};

}  // namespace async::inline v0_1::detail
