// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>      // for uint32_t
#include <optional>     // for optional
#include <type_traits>  // for conditional_t, invoke_result_t
#include <utility>      // for forward, in_place, move

#include "async/detail/base/atomics.hpp"          // for atomic
#include "async/detail/base/backoff.hpp"          // for backoff
#include "async/detail/base/held_back.hpp"        // for nothing_held_back
#include "async/detail/base/invoke.hpp"           // for has_begun
#include "async/detail/call/call_memory.hpp"      // for stored_call
#include "async/detail/call/call_result.hpp"      // for free_state
#include "async/detail/call/future_access.hpp"    // for future_access, is_own_future
#include "async/detail/call/hand_over_word.hpp"   // for hand_over_word
#include "async/detail/call/result_state.hpp"     // for result, result_state, broken_promise
#include "async/detail/future/ready_actions.hpp"  // for actions_of_thread
#include "async/detail/future/result_word.hpp"    // for continuation
#include "async/detail/pool/pool_core.hpp"        // for pool_core

namespace async::inline v0_1::detail {

/// The value of a future that f returns, else what it returns.
template <class T>
struct unwrapped {
  using type = T;
};
template <class T>
struct unwrapped<future<T>> {
  using type = T;
};
template <class T>
struct unwrapped<shared_future<T>> {
  using type = T;
};

/// Whether F is a function of this library that waits for nothing: it has this type.
template <class F>
concept brief_function = requires { typename F::waits_for_nothing; };

/// The result of then(): f is called with the future `Source` when that is ready, by the thread that makes it ready or
/// as a task of a pool: a pool_core or a blocking_crew. If f returns a future, its result becomes this one.
/// `OwnsSource`: cancel() cancels the source, too.
template <class Source, class F, class Pool = pool_core, bool OwnsSource = false>
class then_result final : public result<typename unwrapped<std::invoke_result_t<F, Source>>::type>,
                          private continuation {
  using returned = std::invoke_result_t<F, Source>;
  using value_type = typename unwrapped<returned>::type;
  static_assert(has_begun<value_type>());
  static constexpr bool unwraps = is_own_future<returned>;
  static constexpr bool is_threadpool = std::is_same_v<Pool, pool_core>;
  struct nothing {};

  /// The future that f has returned, and the action that waits for it. Not the action that waits for the source: when a
  /// task makes the call, the thread that has made the source ready may yet have to run that one.
  struct inner_wait : continuation {
    inner_wait(then_result& o, returned&& f) noexcept : continuation(&inner_arrived), owner(o), future(std::move(f)) {}
    then_result& owner;
    returned future;
  };

 public:
  /// `pool` null: the thread that makes `source` ready. `of_source`: its state.
  template <class G>
  explicit then_result(Pool* pool, G&& f, Source&& source, result_state& of_source)
      : result<value_type>(how, own_pool(pool)),
        continuation(&arrived),
        source_(of_source),
        call_(std::in_place, std::forward<G>(f), std::move(source)) {
    if constexpr (!is_threadpool) {
      elsewhere_ = pool;
    } else {
      is_bounded_ = pool != nullptr && pool->is_bounded();
    }
  }

  /// To be called once, after construction. Uses the maker's reference.
  void begin() noexcept {
    continuation& self = *this;
    if (!source_.word.add(self)) actions_of_thread.run(self);
  }

 private:
  static then_result& of(result_state& s) noexcept { return static_cast<then_result&>(s); }

  /// Whether this thread may call f, which may wait, or wait for room in the pool's queue.
  static bool may_wait(const then_result& self) noexcept {
    if constexpr (!is_threadpool) {
      return false;
    } else {
      return self.pool() == nullptr ? !brief_function<F> : self.is_bounded_ && self.pool() != this_pool;
    }
  }

  /// The source is ready.
  static continuation* arrived(continuation& c) noexcept {
    auto& self = static_cast<then_result&>(c);
    if (may_wait(self) && is_held_back(c)) return nullptr;
    if constexpr (!is_threadpool) {
      if (!self.word.is_taken() && self.hand_over_.begin()) return self.put_or_break();
    } else if (self.pool() != nullptr && !self.word.is_taken() && self.hand_over_.begin()) {
      return self.submit_or_break([&self] { self.hand_over_.end(); });
    }
    const nothing_held_back in_copies_and_destructors;
    continuation* const more = self.word.take() ? self.make_now() : nullptr;
    self.release();
    return more;
  }

  /// As submit_or_break(), with a blocking_crew, which does not wait for threads that are still in put().
  continuation* put_or_break() noexcept {
    struct under_way {
      then_result& self;
      ~under_way() { self.hand_over_.end(); }
    };
    this->add_reference();
    continuation* const more = this->break_if_refused([this] {
      const under_way here{*this};
      elsewhere_->put(this->as_task());
    });
    this->release();
    return more;
  }

  static bool make(result_state& s) {
    then_result& self = of(s);
    if constexpr (is_threadpool) {
      if (self.pool() != nullptr) self.hand_over_.close();  // a task makes the call, which the pool may not have yet
    }
    self.wait_for_readers();
    if constexpr (!unwraps) {
      self.keep([&self]() -> decltype(auto) { return self.call_(); });
      return true;
    } else {
      if (!self.guard([&self] { self.inner_.emplace(self, self.call_()); })) return true;
      auto* const inner = future_access::state(self.inner_->future);
      if (inner == nullptr) {
        self.error = broken_promise();
        return true;
      }
      self.add_reference();
      if (inner->word.add(*self.inner_)) return false;
      self.take_inner();
      self.release();
      return true;
    }
  }

  /// The future that f has returned is ready.
  static continuation* inner_arrived(continuation& c) noexcept {
    const nothing_held_back in_destructors;
    then_result& self = static_cast<inner_wait&>(c).owner;
    self.take_inner();
    continuation* const more = self.word.publish();
    self.release();
    return more;
  }
  void take_inner() noexcept {
    if constexpr (is_unique_future<returned>) {
      this->keep([this]() -> decltype(auto) { return future_access::state(inner_->future)->take(); });
      inner_.reset();
    } else if constexpr (unwraps) {
      this->keep([this]() -> decltype(auto) { return future_access::state(inner_->future)->get(); });
      inner_.reset();
    }
  }

  /// If the source is not ready, it forgets this.
  static void drop(result_state& s) noexcept {
    then_result& self = of(s);
    self.wait_for_readers();
    const bool was_listed = self.source_.word.remove(self);
    if (!was_listed) self.hand_over_.close();
    if constexpr (OwnsSource) self.source_.cancel();
    self.call_.drop();
    if (was_listed) self.release();  // the maker's reference; the caller has another one
  }
  /// The source, which lives until the call is made or dropped: the thread that does it waits for this one.
  static result_state* source(result_state& s) noexcept {
    then_result& self = of(s);
    result_state* found = nullptr;
    self.readers_.fetch_add(1, std::memory_order_relaxed);  // relaxed: published by [K30]
    if (self.word.is_free()) {
      found = &self.source_;
      found->add_reference();
    }
    self.readers_.fetch_sub(1, std::memory_order_release);  // [K31] release, pairs with [K32]: the reference
    return found;
  }
  /// The caller has taken the result.
  void wait_for_readers() noexcept {
    // [K32] acquire, pairs with [K31]: the reference
    for (backoff pause; readers_.load(std::memory_order_acquire) != 0;) pause.wait();
  }
  static constexpr result_state::operations how{&make, &drop, nullptr, &free_state<then_result>,
                                                is_threadpool ? &source : nullptr};

  static pool_core* own_pool(Pool* pool) noexcept {
    if constexpr (is_threadpool) {
      if (pool != nullptr) pool->registered().note_if_foreign();
      return pool;
    } else {
      return nullptr;
    }
  }

  result_state& source_;  // valid until call_ is made or dropped
  stored_call<F, Source> call_;
  [[no_unique_address]] std::conditional_t<is_threadpool, nothing, Pool*> elsewhere_{};
  hand_over_word hand_over_;
  bool is_bounded_ = false;           // the pool
  atomic<std::uint32_t> readers_{0};  // threads in source()
  [[no_unique_address]] std::conditional_t<unwraps, std::optional<inner_wait>, nothing> inner_;
};

}  // namespace async::inline v0_1::detail
