// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>   // for shared_ptr
#include <utility>  // for move

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_TSAN

namespace async::inline v0_1::detail {

#if ASYNCSTEPS_TSAN
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);

/// Hides a scope from ThreadSanitizer. Used to release an exception that another thread has got from a future: its
/// references are counted inside the standard library's binary, which ThreadSanitizer does not see.
struct unseen_by_tsan {
  unseen_by_tsan() noexcept {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~unseen_by_tsan() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  unseen_by_tsan(const unseen_by_tsan&) = delete;
  unseen_by_tsan& operator=(const unseen_by_tsan&) = delete;
};
#endif

/// A reference to a shared state, released unseen by ThreadSanitizer: it may be the last one of the state's exception.
template <class T>
struct kept_state {
  explicit kept_state(std::shared_ptr<T>&& other) noexcept : held(std::move(other)) {}
  ~kept_state() {
#if ASYNCSTEPS_TSAN
    const unseen_by_tsan quiet;
    held.reset();
#endif
  }
  kept_state(const kept_state&) = delete;
  kept_state& operator=(const kept_state&) = delete;

  std::shared_ptr<T> held;
};

}  // namespace async::inline v0_1::detail
