// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>  // for derived_from
#include <tuple>     // for tuple, apply
#include <utility>   // for declval, forward, move

#include "async/blocking_pool.hpp"         // for blocking_pool
#include "async/detail/base/invoke.hpp"    // for has_begun, invoke
#include "async/detail/pool/dropping.hpp"  // for dropping
#include "async/errors.hpp"                // for stopped
#include "async/threadpool.hpp"            // for threadpool
#include "steps/detail/calls.hpp"          // for discard_results
#include "steps/detail/result_wait.hpp"    // for result_wait

/// await(pool, f, args...): a thread of the pool makes the call while the flow waits.
namespace steps::inline v0_1::detail {

/// A pool of async/ that makes calls for flows.
template <class Pool>
concept pool_of_calls = std::derived_from<Pool, async::threadpool> || std::derived_from<Pool, async::blocking_pool>;

template <class Face, class Pool, class... Call>
struct pool_call_step final : Face {
  using call = std::tuple<Call...>;
  using result = decltype(std::apply(
      [](auto&&... part) -> decltype(auto) { return async::detail::invoke(std::forward<decltype(part)>(part)...); },
      std::declval<call>()));
  static_assert(async::detail::has_begun<result>());
  using wait = result_wait<result>;

  template <class... A>
  explicit pool_call_step(Pool& p, A&&... a) : pool(p), bound(std::forward<A>(a)...) {}

  static void run(step& s) {
    auto& self = static_cast<pool_call_step&>(s);
    discard_results(*s.flow_);
    auto done = wait::begin(s);
    self.pool.core().template submit<task>(std::move(done), std::move(self.bound));
  }

  /// The pool's task. Makes no call when the step does not wait any more.
  struct task {
    task(typename wait::token&& d, call&& b) : done(std::move(d)), bound(std::move(b)) {}
    task(task&&) = default;
    task& operator=(task&&) = delete;
    ~task() {
      if (done && async::detail::dropping::is_here()) wait::end(done, []() -> result { throw async::stopped(); });
    }

    typename wait::token done;
    call bound;

    void operator()() noexcept {
      wait::end(done, [this]() -> result { return make(); });
    }
    result make() {
      return std::apply(
          [](auto&&... part) -> result { return async::detail::invoke(std::forward<decltype(part)>(part)...); },
          std::move(bound));
    }
  };

  Pool& pool;
  call bound;  // function and arguments
};

}  // namespace steps::inline v0_1::detail
