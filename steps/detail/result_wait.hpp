// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <type_traits>  // for is_void_v
#include <utility>      // for move

#include "async/detail/base/functional.hpp"  // for reference_wrapper
#include "steps/completion.hpp"              // for completion
#include "steps/detail/calls.hpp"            // for make_wait

namespace steps::inline v0_1::detail {

/// The completion that hands a result of type R to the next step.
template <class R>
struct result_token {
  using type = completion<R>;
};
template <>
struct result_token<void> {
  using type = completion<>;
};
template <class R>
struct result_token<R&> {
  using type = completion<std::reference_wrapper<R>>;
};
template <class R>
struct result_token<const R&> {
  using type = completion<R>;
};

/// A step's wait for a result of type R that another thread brings.
template <class R>
struct result_wait {
  using token = typename result_token<R>::type;
  using block = typename token::block;

  /// Makes the step wait. Throws what make_wait() throws.
  static token begin(step& s) { return token(make_wait<block>(s)); }
  /// The first token of a wait that has been made so.
  static token of(block& b) noexcept { return token(b); }

  /// Ends the wait with what get() returns or throws. Does not call it when the step does not wait any more.
  template <class Get>
  static void end(const token& done, Get get) noexcept {
    if (keep(done, std::move(get))) send(done);
  }
  /// The same in two calls. True: the token has won the wait, and send() follows.
  template <class Get>
  static bool keep(const token& done, Get get) noexcept {
    if (!done) return false;
    try {
      if constexpr (std::is_void_v<R>) {
        get();
        return done.keep();
      } else {
        return done.keep(get());
      }
    } catch (...) {
      return done.keep_exception();
    }
  }
  static void send(const token& done) noexcept { done.block_->send(); }
};

}  // namespace steps::inline v0_1::detail
