// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>  // for derived_from
#include <memory>    // for destroy_at
#include <tuple>     // for tuple, apply
#include <utility>   // for declval, exchange, forward, move

#include "async/blocking_pool.hpp"            // for blocking_pool
#include "async/detail/base/atomics.hpp"      // for atomic
#include "async/detail/base/block_cache.hpp"  // for free_block
#include "async/detail/base/invoke.hpp"       // for has_begun, invoke
#include "async/detail/pool/dropping.hpp"     // for dropping
#include "async/errors.hpp"                   // for stopped
#include "async/threadpool.hpp"               // for threadpool
#include "steps/detail/calls.hpp"             // for discard_results, make_wait
#include "steps/detail/result_wait.hpp"       // for result_wait
#include "steps/detail/wait/wait_block.hpp"   // for wait_block

/// await(pool, f, args...): a thread of the pool makes the call while the flow waits.
namespace steps::inline v0_1::detail {

/// A pool of async/ that makes calls for flows.
template <class Pool>
concept pool_of_calls = std::derived_from<Pool, async::threadpool> || std::derived_from<Pool, async::blocking_pool>;

/// A call that a thread of the pool makes, or that is destroyed when its step ends before: whoever takes it first.
struct pool_call {
  /// True for the first caller, who has the call from then on.
  bool take() noexcept {
    // relaxed: the step has published the call with the pool's task, and its end is on the flow's thread
    return !is_taken.load(std::memory_order_relaxed) && !is_taken.exchange(true, std::memory_order_relaxed);
  }

  async::detail::atomic<bool> is_taken{false};
};

/// The wait for a call, with the call.
template <class Block, class Call>
struct pool_call_block final : Block, pool_call {
  pool_call_block(step& s, Call&& c) : Block(s, &destroyed), bound(std::move(c)) {}
  ~pool_call_block() { drop(); }

  void destroy_call() noexcept { std::destroy_at(&bound); }
  void drop() noexcept {
    if (take()) destroy_call();
  }

  /// The step ends.
  static void leave(wait_block& b) noexcept {
    auto& self = static_cast<pool_call_block&>(b);
    self.drop();
    self.close();
  }
  static void destroyed(wait_block& b) noexcept {
    auto& self = static_cast<pool_call_block&>(b);
    std::destroy_at(&self);
    async::detail::free_block(&self, sizeof(pool_call_block), alignof(pool_call_block));
  }

  union {
    Call bound;
  };
};

/// The step's side of it.
struct pool_call_scope : scope {
  template <class Block>
  explicit pool_call_scope(Block& b) noexcept : block(b), leave(&Block::leave) {}
  static void left(scope& base) noexcept {
    auto& self = static_cast<pool_call_scope&>(base);
    self.leave(self.block);
  }
  static constexpr scope_ops ops{scope_ops::kind::leave_first, nullptr, &left, nullptr, true};

  wait_block& block;
  void (*const leave)(wait_block&) noexcept;
};

template <class Face, class Pool, class... Call>
struct pool_call_step final : Face {
  using call = std::tuple<Call...>;
  using result = decltype(std::apply(
      [](auto&&... part) -> decltype(auto) { return async::detail::invoke(std::forward<decltype(part)>(part)...); },
      std::declval<call>()));
  static_assert(async::detail::has_begun<result>());
  using wait = result_wait<result>;

  using block = pool_call_block<typename wait::block, call>;

  template <class... A>
  explicit pool_call_step(Pool& p, A&&... a) : pool(p), bound(std::forward<A>(a)...) {}

  static void run(step& s) {
    auto& self = static_cast<pool_call_step&>(s);
    discard_results(*s.flow_);
    task its(make_wait<block, pool_call_scope>(s, std::move(self.bound)));
    self.pool.core().template submit<task>(std::move(its));
  }

  /// The pool's task. Makes no call when the step does not wait any more.
  class task {
   public:
    /// Takes the block's first token over.
    explicit task(block& b) noexcept : done_(wait::of(b)), block_(&b) {}
    task(task&& other) noexcept : done_(std::move(other.done_)), block_(std::exchange(other.block_, nullptr)) {}
    task& operator=(task&&) = delete;
    ~task() {
      if (block_ == nullptr) return;
      const bool is_live = block_->take();
      if (is_live) {
        block_->destroy_call();
        if (async::detail::dropping::is_here()) wait::end(done_, []() -> result { throw async::stopped(); });
      }
      async::detail::dropping::note(is_live);
    }

    void operator()() noexcept {
      block& b = *std::exchange(block_, nullptr);
      if (!b.take()) return;
      const bool ends_wait = wait::keep(done_, [&b]() -> result { return make(b.bound); });
      b.destroy_call();  // the result may have been made from it
      if (ends_wait) wait::send(done_);
    }

   private:
    static result make(call& bound) {
      return std::apply(
          [](auto&&... part) -> result { return async::detail::invoke(std::forward<decltype(part)>(part)...); },
          std::move(bound));
    }

    typename wait::token done_;
    block* block_;  // null: nothing to do
  };

  Pool& pool;
  call bound;  // function and arguments
};

}  // namespace steps::inline v0_1::detail
