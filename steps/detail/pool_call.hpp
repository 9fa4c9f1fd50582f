// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <functional>   // for invoke
#include <tuple>        // for tuple, apply
#include <type_traits>  // for is_void_v
#include <utility>      // for forward, move

#include "async/threadpool.hpp"    // for threadpool
#include "steps/completion.hpp"    // for completion
#include "steps/detail/calls.hpp"  // for make_wait

/// await(pool, f, args...): a worker makes the call while the flow waits.
namespace steps::detail {

/// The completion that hands a call's result to the next step.
template <class R>
struct call_token {
  using type = completion<R>;
};
template <>
struct call_token<void> {
  using type = completion<>;
};
template <class R>
struct call_token<R&> {
  using type = completion<std::reference_wrapper<R>>;
};
template <class R>
struct call_token<const R&> {
  using type = completion<R>;
};

template <class Face, class... Call>
struct pool_call_step final : Face {
  using call = std::tuple<Call...>;
  using result = decltype(std::apply(
      [](auto&&... part) -> decltype(auto) { return std::invoke(std::forward<decltype(part)>(part)...); },
      std::declval<call>()));
  using token = typename call_token<result>::type;

  template <class... A>
  explicit pool_call_step(async::threadpool& p, A&&... a) : pool(p), bound(std::forward<A>(a)...) {}

  static void run(step& s) {
    auto& self = static_cast<pool_call_step&>(s);
    discard_results(*s.flow_);
    token done(make_wait<typename token::block>(s));
    self.pool.execute(task{std::move(done), std::move(self.bound)});
  }

  /// The pool's task. Makes no call when the step does not wait any more.
  struct task {
    token done;
    call bound;

    void operator()() noexcept {
      if (!done) return;
      try {
        if constexpr (std::is_void_v<result>) {
          make();
          done.success();
        } else {
          done.success(make());
        }
      } catch (...) {
        done.fail();
      }
    }
    result make() {
      return std::apply([](auto&&... part) -> result { return std::invoke(std::forward<decltype(part)>(part)...); },
                        std::move(bound));
    }
  };

  async::threadpool& pool;
  call bound;  // function and arguments
};

}  // namespace steps::detail
