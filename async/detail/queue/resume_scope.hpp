// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"         // for under_model
#include "async/detail/base/resumptions.hpp"     // for resumption, resumptions
#include "async/detail/scope/current_scope.hpp"  // for work_of_others

namespace async::inline v0_1::detail {

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
        run_all();  // inside the scope
      --resumptions.scopes;
    }
  }
  resume_scope(const resume_scope&) = delete;
  resume_scope& operator=(const resume_scope&) = delete;

 private:
  [[gnu::noinline]] static void run_all() noexcept {
    const work_of_others here;
    resumptions.resumes = true;
    while (resumption* const next = resumptions.pop()) next->run(*next);
    resumptions.resumes = false;
  }
};

}  // namespace async::inline v0_1::detail
