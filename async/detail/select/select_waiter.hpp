// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <new>      // for placement new
#include <tuple>    // for tuple
#include <utility>  // for forward

#include "async/detail/base/atomics.hpp"          // for under_model
#include "async/detail/base/block_cache.hpp"      // for allocate_block, free_block
#include "async/detail/base/parker.hpp"           // for parker
#include "async/detail/base/reference_count.hpp"  // for reference_count

namespace async::inline v0_1::detail {

/// A thread or a coroutine that waits for several things. In a block with its watches, since a notification that was on
/// its way comes when the waiter has gone on.
///
/// References  one of the waiter, one of each listed watch, and one of a timer. A notification passes its own to
/// wake().
class select_waiter {
 public:
  using action = void (*)(select_waiter&) noexcept;
  select_waiter(const select_waiter&) = delete;
  select_waiter& operator=(const select_waiter&) = delete;

  void add_reference() noexcept { references_.add(); }
  void release() noexcept {
    if (references_.drop()) free_(*this);
  }
  /// Makes the waiter look at its cases again. Takes over a reference of the caller. Any thread may call it.
  void wake() noexcept { wake_(*this); }
  /// Whether wake() resumes a coroutine, on the same thread.
  bool resumes() const noexcept { return resumes_; }

 protected:
  select_waiter(action to_wake, action to_free) noexcept : wake_(to_wake), free_(to_free) {}
  ~select_waiter() = default;

  bool resumes_ = false;

 private:
  const action wake_;
  const action free_;
  reference_count references_;
};

/// A thread that waits.
class select_thread : public select_waiter {
 public:
  explicit select_thread(action to_free) noexcept : select_waiter(&unpark, to_free) {}
  detail::parker parker;

 private:
  static void unpark(select_waiter& w) noexcept {
    static_cast<select_thread&>(w).parker.unpark();
    w.release();
  }
};

/// A Waiter and its watches, one for each case. Watches: a tuple.
template <class Waiter, class Watches>
class select_block;
template <class Waiter, class... Watches>
class select_block<Waiter, std::tuple<Watches...>> final : public Waiter {
 public:
  /// Throws std::bad_alloc. The caller gets a reference.
  template <class... A>
  static select_block& make(A&&... arguments) {
    if constexpr (under_model) {
      return *new select_block(std::forward<A>(arguments)...);  // which the checker follows
    } else {
      void* const memory = allocate_block(sizeof(select_block), alignof(select_block));
      return *::new (memory) select_block(std::forward<A>(arguments)...);
    }
  }

  std::tuple<Watches...> watches;

 private:
  template <class... A>
  explicit select_block(A&&... arguments) noexcept
      : Waiter(&free, std::forward<A>(arguments)...), watches(self<Watches>()...) {}
  template <class>
  select_waiter& self() noexcept {
    return *this;
  }
  static void free(select_waiter& w) noexcept {
    auto& block = static_cast<select_block&>(w);
    if constexpr (under_model) {
      delete &block;
    } else {
      block.~select_block();
      free_block(&block, sizeof(select_block), alignof(select_block));
    }
  }
};

}  // namespace async::inline v0_1::detail
