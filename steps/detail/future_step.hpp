// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // for declval, forward, move

#include "async/detail/call/future_access.hpp"  // for future_access, is_unique_future
#include "async/future.hpp"                     // for future
#include "steps/detail/calls.hpp"               // for misuse, discard_results
#include "steps/detail/engine/callable.hpp"     // for call_handler
#include "steps/detail/result_wait.hpp"         // for result_wait
#include "steps/detail/wait/future.hpp"         // for pass_on

/// async::future as a step, by await().
namespace steps::inline v0_1::detail {

/// A step of await(async::future) or await(async::shared_future). If the wait ends early it cancels a future, which
/// nobody else has, but not a shared_future.
template <class Face, class Future, class E>
struct future_step final : Face {
  using result = decltype(std::declval<Future&>().get());
  using wait = result_wait<result>;

  template <class H>
  future_step(Future&& f, H&& h) : future(std::move(f)), handler(std::forward<H>(h)) {}
  ~future_step() { leave(); }

  static void run(step& s) {
    auto& self = static_cast<future_step&>(s);
    flow& f = *s.flow_;
    discard_results(f);
    if (!self.future.valid()) return misuse(f, "await() of a future without a shared state");
    if (!self.future.is_ready()) {
      teller tells{wait::begin(s)};
      if constexpr (async::detail::is_unique_future<Future>) {
        self.listening = async::detail::future_access::then_of_owner(std::move(self.future), std::move(tells));
      } else {
        self.listening = std::move(self.future).then(std::move(tells));
      }
      return;
    }
    pass_on(static_cast<Face&>(s), self.future);
  }
  void fail(ErrorCode code) {
    leave();  // what the handler adds may need what the future's call or flow holds
    call_handler<Face>(handler, *this, code);
  }
  /// Drops the future of a wait that ends early.
  void leave() noexcept {
    if (listening.valid()) static_cast<void>(listening.cancel());
  }

  /// Ends the wait, on the thread that makes the future ready.
  struct teller {
    using waits_for_nothing = void;
    typename wait::token done;

    void operator()(Future ready) noexcept {
      wait::end(done, [&ready]() -> result { return ready.get(); });
    }
  };

  Future future;
  async::future<void> listening;
  [[no_unique_address]] E handler;
};

}  // namespace steps::inline v0_1::detail
