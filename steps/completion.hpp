// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for byte, size_t
#include <exception>    // for exception_ptr, current_exception
#include <memory>       // for destroy_at
#include <new>          // for placement new, launder
#include <string_view>  // for string_view
#include <utility>      // for forward, exchange, move, index_sequence

#include "async/detail/base/block_cache.hpp"         // for allocate_block, free_block
#include "async/detail/base/config.hpp"              // for ASYNCSTEPS_TSAN
#include "async/detail/base/min_max.hpp"             // for max_of
#include "async/detail/future/unseen_by_tsan.hpp"    // for unseen_by_tsan
#include "steps/detail/root/flow_control_block.hpp"  // for resume_with
#include "steps/detail/wait/wait_block.hpp"          // for wait_block
#include "steps/errors.hpp"                          // for ErrorCode, Error

namespace steps::inline v0_1 {

class IAsyncSteps;
template <class... T>
class completion;

namespace detail {

template <class R>
struct result_wait;
struct completion_access;

/// How a wait has ended, until its flow learns of it: results, an error or an exception, in the same memory. So a block
/// for small results takes one cache line.
template <class... T>
struct result_block : wait_block {
  using values = pack<T...>;

  explicit result_block(step& s, void (*d)(wait_block&) noexcept = &destroyed) noexcept : wait_block(&arrived, s, d) {}
  ~result_block() {
#if ASYNCSTEPS_TSAN
    const async::detail::unseen_by_tsan quiet;
#endif
    if (kept == content::values) values::destroy(memory);
    if (kept == content::error) {
      Error* const error = held<Error*>();
      std::destroy_at(error);
      async::detail::free_block(error, sizeof(Error), alignof(Error));
    }
    if (kept == content::thrown) std::destroy_at(&held<std::exception_ptr>());
  }

  template <class... A>
  void keep_values(A&&... results) {
    values::construct(memory, std::forward<A>(results)...);
    kept = content::values;
  }
  void keep_error(ErrorCode code, std::string_view info) {
    void* const block = async::detail::allocate_block(sizeof(Error), alignof(Error));
    try {
      ::new (static_cast<void*>(memory)) Error*(::new (block) Error(code, info));
    } catch (...) {
      async::detail::free_block(block, sizeof(Error), alignof(Error));
      throw;
    }
    kept = content::error;
  }
  /// Keeps the exception that is being handled.
  void keep_exception() noexcept {
    ::new (static_cast<void*>(memory)) std::exception_ptr(std::current_exception());
    kept = content::thrown;
  }

  static void arrived(async::detail::message& m, async::detail::delivery how) {
    auto& self = static_cast<result_block&>(m);
    step* const s = self.waiting;
    if (how == async::detail::delivery::on_loop && s != nullptr && ends_wait_of(*s->flow_, *s)) {
      flow& f = *s->flow_;
      if (self.kept == content::thrown) {
        raise_thrown(f, self.template held<std::exception_ptr>());
      } else if (self.kept == content::error) {
        const Error& error = *self.template held<Error*>();
        raise(f, error.code(), error.explanation());
      } else {
        [&]<std::size_t... Index>(std::index_sequence<Index...>) {
          resume_with(f, std::move(*values::template at<Index>(self.memory))...);
        }(std::index_sequence_for<T...>());
      }
    }
    self.release();
  }
  static void destroyed(wait_block& b) noexcept {
    auto& self = static_cast<result_block&>(b);
    std::destroy_at(&self);
    async::detail::free_block(&self, sizeof(result_block), alignof(result_block));
  }

 private:
  enum class content : unsigned char { none, values, error, thrown };

  template <class V>
  V& held() noexcept {
    return *std::launder(reinterpret_cast<V*>(memory));
  }

  static constexpr std::size_t size =
      async::detail::max_of(async::detail::max_of(values::size, sizeof(Error*)), sizeof(std::exception_ptr));
  alignas(values::align) alignas(Error*) alignas(std::exception_ptr) std::byte memory[size];  // the winner's, then the
                                                                                              // message's
  content kept = content::none;
};

}  // namespace detail

/// A token that ends the wait of a step, from any thread. asi.completion<T...>() makes it; hand it to the code that
/// will know the result.
///
/// Use it for every wait that another thread, a callback or a driver ends: it is safe by construction. Do not keep
/// `asi` for that purpose: a step that has timed out is gone, a token is not. Set a timeout: when all tokens are
/// dropped, the wait goes on. To run a function on a pool and wait for its result, await() is shorter.
///
///   asi.setTimeout(1s);
///   socket.read([done = asi.completion<std::string>()](std::string text) { done.success(std::move(text)); });
///
/// Threads     all calls from any thread, also at the same time, on the same or on copied tokens.
/// Progress    lock-free; never waits for the loop.
/// Exceptions  std::bad_alloc and what the results' constructors throw; the wait goes on then. Copies never throw.
/// Memory      one recycled block for a wait.
/// Lifetime    may outlive step, flow and loop; calls that come too late return false.
template <class... T>
class completion {
 public:
  /// A token without a wait: all calls return false.
  completion() noexcept = default;
  completion(const completion& other) noexcept : block_(other.block_) {
    if (block_ != nullptr) block_->wait.share();
  }
  completion(completion&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  completion& operator=(completion other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~completion() {
    if (block_ != nullptr) block_->release();
  }

  /// Ends the wait with results for the next step. Returns true for the first call only, and only while the step waits.
  /// A timeout or cancel may still come before it on the loop, and so may the end of another completion() of the same
  /// step: the first to arrive ends the step, and the other has no effect, although it may have returned true. A call
  /// that throws leaves the wait to later ones; one beside it may have returned false.
  template <class... A>
  bool success(A&&... results) const {
    static_assert(sizeof...(A) == sizeof...(T), "success() takes the results that completion<T...> names");
    static_assert(fits<A...>(), "success() takes results of the types that completion<T...> names, or what makes them");
    return keep(std::forward<A>(results)...) && block_->send();
  }

  /// Ends the wait with an error at the step. Returns as success() does.
  bool error(ErrorCode code, std::string_view info = {}) const {
    if (block_ == nullptr || !block_->wait.win()) return false;
    try {
      block_->keep_error(code, info);
    } catch (...) {
      block_->wait.take_back();
      throw;
    }
    return block_->send();
  }

  /// The same as success().
  template <class... A>
  bool operator()(A&&... results) const {
    return success(std::forward<A>(results)...);
  }

  /// True while neither a token nor anything else has ended the wait, as far as this thread can know.
  explicit operator bool() const noexcept { return block_ != nullptr && block_->wait.is_open(); }

 private:
  friend class IAsyncSteps;
  template <class R>
  friend struct detail::result_wait;
  friend detail::completion_access;
  using block = detail::result_block<detail::stored_t<T>...>;

  explicit completion(block& b) noexcept : block_(&b) {}

  template <class... A>
  static constexpr bool fits() noexcept {
    if constexpr (sizeof...(A) == sizeof...(T)) return (std::is_constructible_v<detail::stored_t<T>, A> && ...);
    return true;  // the other assertion tells
  }

  /// Wins the wait, and stores results. True: the caller sends them.
  template <class... A>
  bool keep(A&&... results) const {
    if (block_ == nullptr || !block_->wait.win()) return false;
    try {
      block_->keep_values(std::forward<A>(results)...);
    } catch (...) {
      block_->wait.take_back();
      throw;
    }
    return true;
  }
  /// The same with the exception that is being handled.
  bool keep_exception() const noexcept {
    if (block_ == nullptr || !block_->wait.win()) return false;
    block_->keep_exception();
    return true;
  }
  /// Ends the wait with the exception that is being handled.
  void fail() const noexcept {
    if (keep_exception()) block_->send();
  }

  block* block_ = nullptr;
};

namespace detail {

/// What a token does on behalf of other parts of the library.
struct completion_access {
  /// Ends the wait by end(), which uses the token; an exception from it is the step's error.
  template <class... T, class End>
  static void end(const completion<T...>& done, const End& end) noexcept {
    try {
      end();
    } catch (...) {
      done.fail();
    }
  }
};

}  // namespace detail

}  // namespace steps::inline v0_1
