// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>  // for boost: 1.74 forgets to include it
#include <utility>    // for forward, move, boost: 1.74 forgets to include it

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
#include <memory>       // for shared_ptr
#include <mutex>        // for mutex, lock_guard
#include <string>       // for string, to_string
#include <type_traits>  // for decay_t, is_same_v

#include "async/event_loop.hpp"   // for event_loop
#include "steps/iasyncsteps.hpp"  // for IAsyncSteps

/// Boost.Asio 1.70 or newer: its operations as waits of steps, and event loops that run inside an io_context.
/// Boost before 1.79 uses std::result_of, which libc++ lacks in C++20: compile with -DBOOST_ASIO_HAS_STD_INVOKE_RESULT
/// there.
namespace steps {

namespace detail {

/// Calls function() when the step ends by an error, a timeout or cancel(), before its cancel handlers; not on success.
template <class F>
struct abort_scope : scope {
  explicit abort_scope(F&& f) noexcept : function(std::move(f)) {}
  static void left(scope& self) noexcept {
    auto& s = static_cast<abort_scope&>(self);
    if (self.ops == nullptr) s.function();  // by error or cancel: the scope has been taken off first
    std::destroy_at(&s.function);
  }
  // As for timers: left before the cancel handlers run, and not replaced by setCancel().
  static constexpr scope_ops ops{scope_ops::kind::leave_first, nullptr, &left};

  F function;
};

template <class F>
void on_abort(step& s, F function) {
  flow& f = *s.flow_;
  if (!has_room(f, sizeof(abort_scope<F>))) throw unwinding(errors::InternalError, info_of(f));
  make_scope<abort_scope<F>>(f, s, std::move(function));
}

}  // namespace detail

namespace interop {

namespace detail {

/// State that an operation shares with the step that waits for it. Only the object's executor touches `ended`.
template <class Object>
struct asio_wait {
  Object object;  // a pointer of any kind
  bool ended = false;
#if BOOST_ASIO_VERSION >= 101900
  boost::asio::cancellation_signal signal;
  void cancel() { signal.emit(boost::asio::cancellation_type::all); }
#else
  void cancel() { object->cancel(); }
#endif
};

template <class Object, class... T>
class asio_handler {
 public:
  asio_handler(std::shared_ptr<asio_wait<Object>> w, steps::completion<T...> d) noexcept
      : wait_(std::move(w)), done_(std::move(d)) {}

  template <class... A>
  void operator()(A&&... results) const {
    end();
    done_.success(std::forward<A>(results)...);
  }
  template <class E, class... A>
    requires std::is_same_v<std::decay_t<E>, boost::system::error_code>  // lvalues as well, as of composed operations
  void operator()(E&& error, A&&... results) const {
    end();
    if (!error) {
      done_.success(std::forward<A>(results)...);
    } else {
      done_.error(error.message(), std::string(error.category().name()) + ":" + std::to_string(error.value()));
    }
  }

#if BOOST_ASIO_VERSION >= 101900
  using cancellation_slot_type = boost::asio::cancellation_slot;
  cancellation_slot_type get_cancellation_slot() const noexcept { return wait_->signal.slot(); }
#endif

 private:
  void end() const noexcept { wait_->ended = true; }

  std::shared_ptr<asio_wait<Object>> wait_;
  steps::completion<T...> done_;
};

/// The results of a signature without its error_code.
template <class Signature>
struct asio_results;
template <class... A>
struct asio_results<void(A...)> {
  template <class Object>
  using handler = asio_handler<Object, std::decay_t<A>...>;
};
template <class... A>
struct asio_results<void(boost::system::error_code, A...)> : asio_results<void(A...)> {};
template <class... A>
struct asio_results<void(const boost::system::error_code&, A...)> : asio_results<void(A...)> {};

}  // namespace detail

/// See asio_token().
template <class Object>
struct [[nodiscard]] asio_token_of {
  IAsyncSteps& asi;  ///< the step that waits
  Object object;     ///< a pointer of any kind to the object that the operation belongs to
};

/// A completion token for an operation of `object` (a socket, timer, acceptor, resolver) inside a step function: the
/// step waits, and the operation's results are the step's.
///
///   flow.add([&](steps::IAsyncSteps& asi) {
///     asi.setTimeout(5s);
///     boost::asio::async_read_until(socket, input, '\n', steps::interop::asio_token(asi, socket));
///   }).add([](steps::IAsyncSteps& asi, std::size_t bytes) { … });
///
/// Error       an error_code is the step's error: its message() is the code ("End of file"), its category and value the
///             info ("asio.misc:2"). It is the code of the exception that Asio would throw. Partial results are
///             dropped.
/// Cancel      when the step ends by a timeout, an error or cancel(), the operation is cancelled on the object's
///             executor. From Boost 1.77 on, which has cancellation slots, only this operation; before, all operations
///             of the object.
/// Threads     the loop may run anywhere. Inside the io_context (asio_loop) the operation is cancelled as the step
///             ends. From a loop on another thread the cancel is dispatched to the object's executor.
/// Lifetime    buffers and object must live until the operation has ended, as always with Asio. stack() is right for
///             them if the loop runs inside the io_context and this has one thread; else give a std::shared_ptr of the
///             object.
/// Exceptions  std::bad_alloc, and what the operation's start throws.
/// Memory      two blocks, besides Asio's.
template <class T>
asio_token_of<T*> asio_token(IAsyncSteps& asi, T& object) noexcept {
  return {asi, &object};
}
template <class T>
asio_token_of<std::shared_ptr<T>> asio_token(IAsyncSteps& asi, std::shared_ptr<T> object) noexcept {
  return {asi, std::move(object)};
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
///             post needs.
/// Lifetime    ends before the io_context's.
class asio_loop : public async::event_loop {
 public:
  /// A loop inside `io`. Throws std::bad_alloc.
  explicit asio_loop(boost::asio::io_context& io) : asio_loop(std::make_shared<driver>(io)) {}
  ~asio_loop() {
    const std::lock_guard lock(driver_->mutex);
    driver_->loop = nullptr;
    driver_->timer.cancel();
  }

 private:
  struct driver : std::enable_shared_from_this<driver> {
    explicit driver(boost::asio::io_context& io) : strand(boost::asio::make_strand(io)), timer(io) {}

    /// By any thread.
    void wake() noexcept {
      boost::asio::post(strand, [self = shared_from_this()] { self->turn(); });
    }
    /// On the strand.
    void turn() {
      const std::lock_guard lock(mutex);
      if (loop == nullptr) return;
      const async::event_loop::cycle_result next = loop->iterate();   // if it throws, it wakes
      if (!next.have_work) return static_cast<void>(timer.cancel());  // it would keep the io_context running
      if (next.delay == next.delay.zero()) return wake();
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
    driver_->loop = this;
    driver_->wake();
  }

  const std::shared_ptr<driver> driver_;
};

}  // namespace interop
}  // namespace steps

namespace boost::asio {

/// How Asio starts an operation with an asio_token().
template <class Object, class Signature>
class async_result<steps::interop::asio_token_of<Object>, Signature> {
 public:
  using return_type = void;

  template <class Initiation, class... Args>
  static void initiate(Initiation&& start, steps::interop::asio_token_of<Object> token, Args&&... args) {
    initiate(std::forward<Initiation>(start), token, static_cast<typename results::template handler<Object>*>(nullptr),
             std::forward<Args>(args)...);
  }

 private:
  using results = steps::interop::detail::asio_results<Signature>;

  template <class Initiation, class... T, class... Args>
  static void initiate(Initiation&& start, steps::interop::asio_token_of<Object>& token,
                       steps::interop::detail::asio_handler<Object, T...>*, Args&&... args) {
    using wait = steps::interop::detail::asio_wait<Object>;
    auto shared = std::make_shared<wait>();
    shared->object = std::move(token.object);
    auto done = token.asi.template completion<T...>();
    steps::detail::on_abort(token.asi, [shared] {
      boost::asio::dispatch(shared->object->get_executor(), [shared] {
        if (!shared->ended) shared->cancel();
      });
    });
    std::forward<Initiation>(start)(
        steps::interop::detail::asio_handler<Object, T...>(std::move(shared), std::move(done)),
        std::forward<Args>(args)...);
  }
};

}  // namespace boost::asio
