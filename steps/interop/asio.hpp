// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>  // for exception_ptr, rethrow_exception, boost: 1.74 forgets to include it
#include <utility>    // for declval, forward, move, boost: 1.74 forgets to include it

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/version.hpp>
#if BOOST_ASIO_VERSION >= 101900
#include <boost/asio/cancellation_signal.hpp>
#endif
#include <future>       // for future_errc, future_error
#include <memory>       // for shared_ptr, weak_ptr
#include <mutex>        // for mutex, lock_guard
#include <string>       // for string, to_string
#include <type_traits>  // for decay_t, is_convertible_v, is_same_v

#include "async/event_loop.hpp"                  // for event_loop
#include "steps/completion.hpp"                  // for completion_access
#include "steps/iasyncsteps.hpp"                 // for IAsyncSteps
#include "steps/interop/detail/abort_scope.hpp"  // for on_abort

/// Boost.Asio 1.70 or newer: its operations as waits of steps, and event loops that run inside an io_context.
/// `boost/asio.hpp` of Boost 1.74 forgets the standard header `utility`: with g++ 11 and newer it does not compile as
/// the first header of a file. Include this header, or `utility`, before.
/// Boost before 1.79 uses std::result_of, which libc++ lacks in C++20: compile with -DBOOST_ASIO_HAS_STD_INVOKE_RESULT
/// there.
namespace steps::inline v0_1 {

namespace interop {

namespace detail {

/// Ends the step's wait, at the latest with its own end.
template <class... T>
struct asio_end {
  explicit asio_end(steps::completion<T...> d) noexcept : done(std::move(d)) {}
  asio_end(const asio_end&) = delete;
  asio_end& operator=(const asio_end&) = delete;
  ~asio_end() {
    if (done) end([] { throw std::future_error(std::future_errc::broken_promise); });
  }
  template <class End>
  void end(const End& tell) const noexcept {
    steps::detail::completion_access::end(done, tell);
  }

  const steps::completion<T...> done;
};

/// What the handlers of an operation hold; it goes with the last of them, on whatever thread. The step that waits only
/// has a weak reference: object and executor may not outlive the io_context, which destroys the handlers that are left.
/// Only the object's executor touches what changes.
template <class Object>
struct asio_wait {
  using executor_type = std::decay_t<decltype(std::declval<Object&>()->get_executor())>;

  asio_wait(Object o, std::shared_ptr<const void> k)
      : object(std::move(o)), executor(object->get_executor()), keep_alive(std::move(k)) {}

  /// The step has ended before the operation.
  void give_up() {
    is_given_up = true;
    if (!has_ended) cancel();
  }
#if BOOST_ASIO_VERSION >= 101900
  void cancel() { signal.emit(boost::asio::cancellation_type::all); }

  boost::asio::cancellation_signal signal;
#else
  void cancel() { object->cancel(); }
  /// An operation of several parts has ended one. That it has not ended shows that it has begun another one, which
  /// only a further cancel() reaches. The object exists then.
  void part_has_ended() {
    if (is_given_up && !has_ended) cancel();
  }
#endif

  Object object;  // a pointer of any kind
  const executor_type executor;
  const std::shared_ptr<const void> keep_alive;
  bool is_given_up = false;
  bool has_ended = false;
};

#if BOOST_ASIO_VERSION < 101900
/// The object's executor for the handlers of an operation, also for those between its parts.
template <class Object>
class asio_part_executor {
 public:
  explicit asio_part_executor(std::shared_ptr<asio_wait<Object>> w) noexcept : wait_(std::move(w)) {}

  boost::asio::execution_context& context() const noexcept { return wait_->executor.context(); }
  void on_work_started() const noexcept {}  // the operation counts itself
  void on_work_finished() const noexcept {}
  template <class F, class A>
  void dispatch(F&& f, const A&) const {
    boost::asio::dispatch(wait_->executor, part<std::decay_t<F>>{std::forward<F>(f), wait_});
  }
  template <class F, class A>
  void post(F&& f, const A&) const {
    boost::asio::post(wait_->executor, part<std::decay_t<F>>{std::forward<F>(f), wait_});
  }
  template <class F, class A>
  void defer(F&& f, const A& allocator) const {
    post(std::forward<F>(f), allocator);
  }
  friend bool operator==(const asio_part_executor&, const asio_part_executor&) = default;

 private:
  template <class F>
  struct part {
    F function;
    std::shared_ptr<asio_wait<Object>> wait;

    void operator()() {
      function();
      wait->part_has_ended();
    }
  };

  std::shared_ptr<asio_wait<Object>> wait_;
};
#endif

/// The same for results of types T. Object and executor go before the wait ends.
template <class Object, class... T>
struct asio_wait_for : asio_end<T...>, asio_wait<Object> {
  asio_wait_for(steps::completion<T...> d, Object o, std::shared_ptr<const void> k)
      : asio_end<T...>(std::move(d)), asio_wait<Object>(std::move(o), std::move(k)) {}
};

template <class Object, bool PassesCode, class... T>
class asio_handler {
 public:
  explicit asio_handler(std::shared_ptr<asio_wait_for<Object, T...>> w) noexcept : wait_(std::move(w)) {}

  template <class... A>
  void operator()(A&&... results) const {
    end([&] { wait_->done.success(std::forward<A>(results)...); });
  }
  template <class E, class... A>
    requires(!PassesCode && std::is_same_v<std::decay_t<E>, boost::system::error_code>)  // lvalues as well
  void operator()(E&& error, A&&... results) const {
    end([&] {
      if (!error) {
        wait_->done.success(std::forward<A>(results)...);
      } else {
        wait_->done.error(error.message(), std::string(error.category().name()) + ":" + std::to_string(error.value()));
      }
    });
  }
  template <class E, class... A>
    requires(!PassesCode && sizeof...(A) == sizeof...(T) && std::is_convertible_v<E, std::exception_ptr>)
  void operator()(E&& error, A&&... results) const {
    end([&] {
      const std::exception_ptr thrown = std::forward<E>(error);
      if (thrown != nullptr) std::rethrow_exception(thrown);
      wait_->done.success(std::forward<A>(results)...);
    });
  }

#if BOOST_ASIO_VERSION >= 101900
  using cancellation_slot_type = boost::asio::cancellation_slot;
  cancellation_slot_type get_cancellation_slot() const noexcept { return wait_->signal.slot(); }

  using executor_type = typename asio_wait<Object>::executor_type;
  executor_type get_executor() const noexcept { return wait_->executor; }
#else
  using executor_type = asio_part_executor<Object>;
  executor_type get_executor() const noexcept { return executor_type(wait_); }
#endif

 private:
  template <class End>
  void end(const End& tell) const noexcept {
    wait_->has_ended = true;
    wait_->end(tell);
  }

  std::shared_ptr<asio_wait_for<Object, T...>> wait_;
};

/// The handler for a signature, whose results go to the step: with the error_code or exception, or without.
template <bool PassesCode, class Signature>
struct asio_results;
template <bool PassesCode, class... A>
struct asio_results<PassesCode, void(A...)> {
  template <class Object>
  using handler = asio_handler<Object, PassesCode, std::decay_t<A>...>;
};
template <class... A>
struct asio_results<false, void(boost::system::error_code, A...)> : asio_results<false, void(A...)> {};
template <class... A>
struct asio_results<false, void(const boost::system::error_code&, A...)> : asio_results<false, void(A...)> {};
template <class... A>
struct asio_results<false, void(std::exception_ptr, A...)> : asio_results<false, void(A...)> {};
template <class... A>
struct asio_results<false, void(const std::exception_ptr&, A...)> : asio_results<false, void(A...)> {};

}  // namespace detail

/// See asio_token(). `PassesCode`: the error_code is a result.
template <class Object, bool PassesCode = false>
struct [[nodiscard]] asio_token_of {
  IAsyncSteps& asi;                             ///< the step that waits
  Object object;                                ///< a pointer of any kind to the object that the operation belongs to
  std::shared_ptr<const void> keep_alive = {};  ///< what the operation uses, for as long as it runs

  /// The same token for an operation whose error_code is the first result, and no error of the step: the next step is
  /// (asi, boost::system::error_code, results...). A convention of Asio's as_tuple().
  asio_token_of<Object, true> with_error_code() && { return {asi, std::move(object), std::move(keep_alive)}; }
};

/// A completion token for an operation of `object` (a socket, timer, acceptor, resolver) inside a step function: the
/// step waits, and the operation's results are the step's.
///
///   flow.add([&](steps::IAsyncSteps& asi) {
///     asi.setTimeout(5s);
///     auto input = std::make_shared<std::string>();
///     boost::asio::async_read_until(socket, boost::asio::dynamic_buffer(*input), '\n',
///                                   steps::interop::asio_token(asi, socket, input));
///   }).add([](steps::IAsyncSteps& asi, std::size_t bytes) { … });
///
/// Error       an error_code is the step's error: its message() is the code ("End of file"), its category and value the
///             info ("asio.misc:2"). It is the code of the exception that Asio would throw. Partial results are
///             dropped. An operation that ends with a std::exception_ptr, as those of co_spawn() do, fails the step as
///             if the step's function had thrown the exception. asio_token(...).with_error_code() passes the error_code
///             or std::exception_ptr and all results on instead. An operation that is destroyed before its end, as
///             with its io_context, is the error BrokenPromise.
/// Cancel      when the step ends by a timeout, an error or cancel(), the operation is cancelled on the object's
///             executor. From Boost 1.77 on, which has cancellation slots, only this operation; before, all operations
///             of the object. There a composed operation (async_read, async_read_until) goes on while it finds data,
///             and ends when it would have to wait: what it has read is lost. Close the object if what follows must
///             not be lost.
/// Threads     the loop may run anywhere. Inside the io_context (asio_loop) the operation is cancelled as the step
///             ends. From a loop on another thread the cancel is dispatched to the object's executor: where several
///             threads run the io_context, make the object with a strand.
/// Lifetime    an operation ends after a step that has given it up, also on one thread. Object and buffers must live
///             until then. So a buffer in stack() is wrong for an operation that may be given up: pass its owner, a
///             std::shared_ptr, as `keep_alive`, which the operation holds. The object may be a std::shared_ptr, too.
///             An object in stack() is right if the loop runs inside the io_context, this has one thread, and the
///             operation is not composed.
///             The io_context may end before the step, but not while another thread ends the step by a timeout, an
///             error or cancel().
/// Exceptions  std::bad_alloc, and what the operation's start throws. An exception while results are handed to the step
///             is the step's error. std::terminate() is called when there is no memory for the cancel of an operation.
/// Memory      two blocks, besides Asio's.
template <class T>
asio_token_of<T*> asio_token(IAsyncSteps& asi, T& object, std::shared_ptr<const void> keep_alive = {}) noexcept {
  return {asi, &object, std::move(keep_alive)};
}
template <class T>
asio_token_of<std::shared_ptr<T>> asio_token(IAsyncSteps& asi, std::shared_ptr<T> object,
                                             std::shared_ptr<const void> keep_alive = {}) noexcept {
  return {asi, std::move(object), std::move(keep_alive)};
}

/// An event_loop that an io_context drives: flows and socket handlers run on the same threads.
///
///   boost::asio::io_context io;
///   steps::interop::asio_loop loop{io};
///   steps::AsyncSteps flow{loop};
///   flow.execute();
///   io.run();
///
/// Use it in a program whose main loop is Asio's. Do not call its run() or iterate().
///
/// Threads     as event_loop. Several threads may run the io_context: a strand keeps the turns of the loop apart. The
///             destructor waits for a turn under way; do not call it inside a turn.
/// Progress    each turn is a handler of the io_context, and a loop without work has none. So io_context::run() returns
///             when there are neither handlers nor timers, even if a flow still waits for another thread. Hold a work
///             guard then.
/// Exceptions  std::bad_alloc. An exception that leaves a turn comes out of io_context::run(); the next run() goes on
///             with the loop. std::terminate() is called when there is no memory for the handler that another thread's
///             post needs, or that the loop needs to go on after an exception.
/// Lifetime    ends before the io_context's.
class asio_loop : public async::event_loop {
 public:
  /// A loop inside `io`. Throws std::bad_alloc. Boost 1.74 crashes when there is no memory for a strand.
  explicit asio_loop(boost::asio::io_context& io) : asio_loop(std::make_shared<driver>(io)) {}
  ~asio_loop() {
    const std::lock_guard lock(driver_->mutex);
    driver_->loop = nullptr;
    driver_->timer.cancel();
  }

 private:
  struct driver : std::enable_shared_from_this<driver> {
    explicit driver(boost::asio::io_context& io) : strand(boost::asio::make_strand(io)), timer(io) {}

    /// By any thread. Throws std::bad_alloc.
    void post_turn() {
      boost::asio::post(strand, [self = shared_from_this()] { self->turn(); });
    }
    /// By any thread, of which none can be told that there is no memory.
    void wake() noexcept { post_turn(); }
    void start(async::event_loop& l) {
      const std::lock_guard lock(mutex);
      post_turn();
      loop = &l;
    }
    /// On the strand.
    void turn() {
      const std::lock_guard lock(mutex);
      if (loop == nullptr) return;
      const async::event_loop::cycle_result next = loop->iterate();  // if it throws, it wakes
      try {
        arrange_turn(next);
      } catch (...) {
        wake();
        throw;
      }
    }
    void arrange_turn(async::event_loop::cycle_result next) {
      if (!next.have_work) return static_cast<void>(timer.cancel());  // it would keep the io_context running
      if (next.delay == next.delay.zero()) return post_turn();
      timer.expires_after(next.delay);
      timer.async_wait(
          boost::asio::bind_executor(strand, [self = shared_from_this()](const boost::system::error_code& replaced) {
            if (!replaced) self->turn();
          }));
    }

    boost::asio::strand<boost::asio::io_context::executor_type> strand;
    std::mutex mutex;  // held during a turn
    boost::asio::steady_timer timer;
    async::event_loop* loop = nullptr;
  };

  explicit asio_loop(std::shared_ptr<driver> d) : event_loop(async::task([d] { d->wake(); })), driver_(std::move(d)) {
    driver_->start(*this);
  }

  const std::shared_ptr<driver> driver_;
};

}  // namespace interop
}  // namespace steps::inline v0_1

namespace boost::asio {

/// How Asio starts an operation with an asio_token().
template <class Object, bool PassesCode, class Signature>
class async_result<steps::interop::asio_token_of<Object, PassesCode>, Signature> {
  using token_type = steps::interop::asio_token_of<Object, PassesCode>;
  using results = steps::interop::detail::asio_results<PassesCode, Signature>;

 public:
  using return_type = void;

  template <class Initiation, class... Args>
  static void initiate(Initiation&& start, token_type token, Args&&... args) {
    initiate(std::forward<Initiation>(start), token, static_cast<typename results::template handler<Object>*>(nullptr),
             std::forward<Args>(args)...);
  }

 private:
  template <class Initiation, class... T, class... Args>
  static void initiate(Initiation&& start, token_type& token,
                       steps::interop::detail::asio_handler<Object, PassesCode, T...>*, Args&&... args) {
    using wait = steps::interop::detail::asio_wait_for<Object, T...>;
    auto shared = std::make_shared<wait>(token.asi.template completion<T...>(), std::move(token.object),
                                         std::move(token.keep_alive));
    steps::detail::on_abort(token.asi, [weak = std::weak_ptr<wait>(shared)] {
      const std::shared_ptr<wait> running = weak.lock();
      if (running == nullptr) return;  // the operation has ended, perhaps with its io_context
      boost::asio::dispatch(running->executor, [weak] {
        if (const auto still_running = weak.lock()) still_running->give_up();
      });
    });
    std::forward<Initiation>(start)(steps::interop::detail::asio_handler<Object, PassesCode, T...>(std::move(shared)),
                                    std::forward<Args>(args)...);
  }
};

}  // namespace boost::asio
