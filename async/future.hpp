// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for same_as
#include <exception>    // for exception_ptr
#include <future>       // for future, shared_future, future_errc
#include <type_traits>  // for decay_t, conditional_t, is_void_v, is_object_v
#include <utility>      // for exchange, forward, move, swap

#include "async/detail/base/future_errors.hpp"    // for throw_future_error
#include "async/detail/base/never.hpp"            // for never
#include "async/detail/call/call_result.hpp"      // for promised_result, make_state
#include "async/detail/call/from_std_future.hpp"  // for from_std_future
#include "async/detail/call/future_access.hpp"    // for future_access, is_own_future
#include "async/detail/call/future_base.hpp"      // for future_base
#include "async/detail/call/result_awaiter.hpp"   // for result_awaiter
#include "async/detail/call/result_state.hpp"     // for result
#include "async/detail/call/to_std_future.hpp"    // for to_std_future

namespace async::inline v0_1 {

class blocking_pool;

namespace detail {
/// A pool that makes calls.
template <class Pool>
concept pool_of_calls = std::same_as<Pool, threadpool> || std::same_as<Pool, blocking_pool>;
}  // namespace detail

/// The result of a call, a promise or a continuation, which may not be ready yet.
///
///   async::future<std::string> text = pool.post(read_file, name);
///   async::future<std::size_t> size = std::move(text).then([](async::future<std::string> t) { return t.get().size();
///   });
///
/// Has the members of std::future, and adds is_ready(), has_exception(), then(), cancel(), co_await and conversions
/// from and to std::future. The base class, detail::future_base, describes valid(), is_ready(), has_exception(), the
/// waits and cancel(). Use it for results of tasks. Do not use it where several threads read one result
/// (shared_future).
///
/// Waits       inside a task of a pool, get() and wait() make the call that they wait for, if it is a call of that pool
///             that no thread has taken, or a continuation. Otherwise they run tasks that the call, or the current
///             task, has made, and sleep without blocking the pool. So they cannot deadlock a pool, even of one worker.
///             In a callback of an event loop, such as a step of a flow, they throw std::system_error
///             (resource_deadlock_would_occur) unless the result is there: use asi.await() or then().
/// Destructor  does not wait. The call is made all the same, unless cancel() drops it.
/// Cancel      cancel() drops a call, or a flow of steps::post(), that has not begun, and returns true. Otherwise it
///             cancels the flow, or requests a call with a std::stop_token to stop, and returns false. It does not
///             reach through then(): in `pool.post(f).then(g)` and `steps::post(...).then(g)` it drops g, the future is
///             broken at once, and the call or flow before g goes on.
/// Threads     one at a time for an object. Distinct objects of the same result: any.
/// Exceptions  get() throws what the call has thrown, or std::future_error: broken_promise for a promise or a call that
///             was given up; no_state for a future that was moved from. The broken promise is a dropped_call, which
///             tells why, if a pool has dropped the call, or cancel() has ended the call or flow.
/// Progress    making a result ready is lock-free, with one exception: it spins while a waiter that gives up leaves the
///             result's list. Such waiters have reached a time limit, are cancelled or dropped, as steps, coroutines
///             and when_all() may be, or have got another result first. It takes no system call unless a thread sleeps.
/// Memory      one recycled block for call, state and result.
template <class T>
class future : public detail::future_base<T> {
  using base = detail::future_base<T>;

 public:
  /// A future without a state.
  future() noexcept = default;
  future(future&& other) noexcept = default;
  future& operator=(future&& other) noexcept {
    future taken(std::move(other));
    std::swap(this->state_, taken.state_);
    return *this;
  }
  /// Takes over a std::future. A thread of the process looks whether it is ready: at once, after 50 us, then at growing
  /// intervals of at most 10 ms. A deferred call is made at once. Throws std::bad_alloc, and std::system_error if that
  /// thread cannot start; the std::future is as before then.
  /// Explicit, so that `c ? pool.post(f) : std::async(f)` is a std::future.
  explicit future(std::future<T>&& other) : base(other.valid() ? detail::from_std_future(other) : nullptr) {}
  /// The same, by assignment.
  template <std::same_as<std::future<T>> Other>
  future& operator=(Other&& other) {
    return *this = future(std::move(other));
  }
  ~future() = default;

  /// A std::future of the same result. Its waits help in tasks, too, with libstdc++; with other libraries
  /// threadpool::wait() does. Throws std::bad_alloc; this future is as before then.
  operator std::future<T>() && {  // NOLINT: implicit, for code written for std::future
    if (this->state_ == nullptr) return {};
    std::future<T> made = detail::to_std_future(*this->state_);
    this->state_ = nullptr;
    return made;
  }
  /// The same of a future of a future, such as that of a call which posts a call: a std::future of a std::future.
  template <class Inner>
    requires detail::is_own_future<T> && std::same_as<Inner, typename detail::standard_type<T>::type>
  operator std::future<Inner>() && {  // NOLINT: implicit, as above
    if (this->state_ == nullptr) return {};
    return std::move(*this).then(detail::get_as<Inner, future>());
  }
  /// As the conversion to std::future.
  operator std::shared_future<T>() && {  // NOLINT: implicit, for code written for std::future
    return static_cast<std::future<T>>(std::move(*this)).share();
  }

  /// Waits as wait() does, and moves the result out or throws its exception. The future is not valid after that, unless
  /// the wait threw.
  T get() {
    this->known_state()->wait();
    const future here(std::move(*this));
    return here.state_->take();
  }

  /// A future of the same result that can be copied.
  shared_future<T> share() noexcept { return shared_future<T>(std::move(*this)); }

  /// Calls f(future) when this future is ready, and returns the future of what f returns. f runs on the thread that
  /// makes this future ready, or within then() if it is ready; inside a task, also on a thread that waits for the
  /// result. When such an f calls then() on a ready future, and so on a thousand times or until the stack runs short,
  /// the next f runs after the outermost one, or when the thread waits for a future or a group, or in select(), or,
  /// with libstdc++, for a std::future made of one. f gets the ready future as an rvalue, so that it sees values and
  /// exceptions.
  ///
  /// If f returns a future, then() returns a future of that one's result. An exception of f goes to the returned
  /// future. f must not block for long. A chain of any length needs neither stack nor threads. A loop by unwrapping, in
  /// which f returns the future of the next round, needs neither, but keeps about 200 bytes a round until it ends. An f
  /// that sets the next promise itself takes stack for each. This future is not valid after the call. Throws
  /// std::bad_alloc, what copying f throws, and std::future_error (no_state).
  template <class F>
  auto then(F&& f) && {
    return base::template continue_with<future>(base::no_pool, std::move(*this), std::forward<F>(f));
  }
  /// The same, with f as a task of the pool, a threadpool or a blocking_pool. If the pool refuses the task, the
  /// returned future is broken: dropped_call, which tells why (stopped, queue_full), or a plain broken promise for lack
  /// of memory or threads. The pool must live until the returned future is ready. In a chain of then(), the end of one
  /// call hands in the next: each pool must live until its own future is ready, also if a later one was cancelled.
  template <detail::pool_of_calls Pool, class F>
  auto then(Pool& pool, F&& f) && {
    return base::template continue_with<future>(&pool.core(), std::move(*this), std::forward<F>(f));
  }
  /// Refused: then() takes the future away.
  template <class... A>
  void then(A&&...) & {
    static_assert(detail::never<A...>, "then() takes the future away: write std::move(future).then(f)");
  }

  /// Awaits the result in a coroutine, which resumes on the thread that makes it ready. A coroutine that is destroyed
  /// while it waits, by a thread other than the one that makes the future ready, must be destroyed before it is ready.
  /// A coroutine that makes the next result ready takes stack for each link of such a chain.
  auto operator co_await() && noexcept { return detail::result_awaiter<future>(std::move(*this)); }
  /// Refused: co_await takes the future away.
  template <class U = T>
  detail::result_awaiter<future> operator co_await() & noexcept {
    static_assert(detail::never<U>, "co_await takes the future away: write co_await std::move(future)");
    return detail::result_awaiter<future>(std::move(*this));
  }

 private:
  friend struct detail::future_access;
  friend class shared_future<T>;
  explicit future(detail::result<T>* state) noexcept : base(state) {}
};

namespace detail {

template <class T>
inline constexpr bool is_copied = !std::is_object_v<T> || std::is_copy_constructible_v<T>;

}  // namespace detail

/// A result that several threads read, each through its own copy. Copies share the result.
///
/// As future, except: get() returns a reference to the value, which lives as long as a copy; then() continues a copy.
template <class T>
class shared_future : public detail::future_base<T> {
  using base = detail::future_base<T>;

 public:
  /// A future without a state.
  shared_future() noexcept = default;
  shared_future(const shared_future& other) noexcept : base(other.state_) {
    if (this->state_ != nullptr) this->state_->add_reference();
  }
  shared_future(shared_future&& other) noexcept = default;
  /// Takes the result over; as future::share().
  shared_future(future<T>&& other) noexcept : base(std::exchange(other.state_, nullptr)) {}  // NOLINT: implicit
  shared_future& operator=(shared_future other) noexcept {
    std::swap(this->state_, other.state_);
    return *this;
  }
  ~shared_future() = default;

  /// A std::shared_future of the same result, with a copy of the value. A T that cannot be copied is refused: convert
  /// the future before share(). Throws std::bad_alloc.
  operator std::shared_future<T>() const {  // NOLINT: implicit, for code written for std::future
    if constexpr (!detail::is_copied<T>) {
      static_assert(detail::is_copied<T>,
                    "a std::shared_future gets a copy of the value, but this one cannot be copied: convert the "
                    "async::future, before share()");
      return {};
    } else {
      return copied();
    }
  }

  /// Waits as wait() does, and returns the value (const T&, T& or void) or throws the exception.
  decltype(auto) get() const {
    this->known_state()->wait();
    return this->state_->get();
  }

  /// Calls f(shared_future) when the result is ready, as future::then() does. Threads that wait for the result may go
  /// on before f has been called: to wait for f, wait for the returned future.
  template <class F>
  auto then(F&& f) const {
    return base::template continue_with<shared_future>(base::no_pool, shared_future(*this), std::forward<F>(f));
  }
  /// The same, with f as a task of the pool.
  template <detail::pool_of_calls Pool, class F>
  auto then(Pool& pool, F&& f) const {
    return base::template continue_with<shared_future>(&pool.core(), shared_future(*this), std::forward<F>(f));
  }

  /// As with future.
  auto operator co_await() const noexcept { return detail::result_awaiter<shared_future>(*this); }

 private:
  friend struct detail::future_access;

  std::shared_future<T> copied() const {
    if (this->state_ == nullptr) return {};
    std::future<T> copy = then(detail::get_as<T, const shared_future&>());
    return copy.share();
  }
};

/// Makes a future ready.
///
/// Use it where the result comes from a callback or a thread of another library. Do not use it for a call in a pool,
/// which has a future already.
///
/// Threads     one at a time for an object; its future may be used by any other.
/// Order       actions that wait for the future (then(), coroutines, when_all()) run within the call that makes it
///             ready. Functions of then() and coroutines come after those that only pass it on, to a pool without a
///             limit, a flow, a when_all() or a future_group, and may wait for these.
/// Exceptions  std::future_error as std::promise: promise_already_satisfied, future_already_retrieved, no_state. A
///             promise that is destroyed breaks its future.
/// Memory      one recycled block.
template <class T>
class promise {
  struct unused {};
  using value_type = std::conditional_t<std::is_void_v<T> || std::is_reference_v<T>, unused, T>;
  using reference = std::conditional_t<std::is_lvalue_reference_v<T>, T, unused&>;
  static constexpr bool has_value = !std::is_void_v<T> && !std::is_reference_v<T>;

 public:
  /// Throws std::bad_alloc.
  promise() : state_(detail::make_state<detail::promised_result<T>>()) {}
  promise(promise&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)), has_future_(std::exchange(other.has_future_, false)) {}
  promise& operator=(promise&& other) noexcept {
    promise(std::move(other)).swap(*this);
    return *this;
  }
  promise(const promise&) = delete;
  promise& operator=(const promise&) = delete;
  ~promise() {
    if (state_ == nullptr) return;
    if (!has_future_) {
      state_->release();
    } else if (state_->word.take()) {
      detail::run_all(state_->fail(detail::broken_promise()));
    }
    state_->release();
  }

  /// Exchanges the shared states.
  void swap(promise& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(has_future_, other.has_future_);
  }
  friend void swap(promise& a, promise& b) noexcept { a.swap(b); }

  /// The future; once.
  future<T> get_future() {
    detail::result<T>* const state = known_state();
    if (std::exchange(has_future_, true)) detail::throw_future_error(std::future_errc::future_already_retrieved);
    return detail::future_access::make(state);
  }

  /// Makes the future ready with a value. If the value's constructor throws, the promise is as before.
  void set_value(const value_type& value)
    requires has_value
  {
    set(value);
  }
  void set_value(value_type&& value)
    requires has_value
  {
    set(std::move(value));
  }
  void set_value(reference to)
    requires std::is_lvalue_reference_v<T>
  {
    set(to);
  }
  void set_value()
    requires std::is_void_v<T>
  {
    set();
  }
  /// Makes the future ready with an exception, which is not null.
  void set_exception(std::exception_ptr error) { detail::run_all(taken_state()->fail(std::move(error))); }

 private:
  detail::promised_result<T>* known_state() const {
    if (state_ == nullptr) detail::throw_future_error(std::future_errc::no_state);
    return state_;
  }
  detail::promised_result<T>* taken_state() const {
    if (!known_state()->word.take()) detail::throw_future_error(std::future_errc::promise_already_satisfied);
    return state_;
  }
  template <class... V>
  void set(V&&... value) {
    detail::promised_result<T>& state = *taken_state();
    struct undo {
      detail::result_word* word;
      ~undo() {
        if (word != nullptr) word->give_back();
      }
    } at_end{&state.word};
    state.value.set(std::forward<V>(value)...);
    at_end.word = nullptr;
    detail::run_all(state.publish());  // from the publish() on, another thread may destroy the promise
  }

  detail::promised_result<T>* state_;
  bool has_future_ = false;
};

/// A future that is ready, with a value of type std::decay_t<T>, or of void.
template <class T>
future<std::decay_t<T>> make_ready_future(T&& value) {
  promise<std::decay_t<T>> made;
  future<std::decay_t<T>> result = made.get_future();
  made.set_value(std::forward<T>(value));
  return result;
}
inline future<void> make_ready_future() {
  promise<void> made;
  future<void> result = made.get_future();
  made.set_value();
  return result;
}
/// A future that is ready, with an exception.
template <class T>
future<T> make_exceptional_future(std::exception_ptr error) {
  promise<T> made;
  future<T> result = made.get_future();
  made.set_exception(std::move(error));
  return result;
}

}  // namespace async::inline v0_1
