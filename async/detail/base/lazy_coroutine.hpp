// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for same_as
#include <type_traits>  // for remove_cv_t, remove_cvref_t, true_type

namespace async::inline v0_1::detail {

/// The type of a static member `is_task` of coroutines that begin when they are awaited, such as steps::interop::task.
struct lazy_mark : std::true_type {};
template <class R>
concept lazy_coroutine = std::same_as<std::remove_cv_t<decltype(std::remove_cvref_t<R>::is_task)>, lazy_mark>;

/// To be asserted of the result of a user's function that is called, not awaited.
template <class R>
consteval bool has_begun() {
  static_assert(
      !lazy_coroutine<R>,
      "the function is a coroutine, which begins when it is awaited: nobody awaits it here. Write start(f()), "
      "or make it a step by co(f)");
  return true;
}

}  // namespace async::inline v0_1::detail
