// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>       // for shared_ptr, make_shared
#include <string>       // for string
#include <type_traits>  // for decay_t, is_invocable_v
#include <utility>      // for forward, move

#include "async/event.hpp"                              // for event
#include "async/threadpool.hpp"                         // for threadpool
#include "steps/iasyncsteps.hpp"                        // for IAsyncSteps
#include "steps/interop/detail/nats/bridge.hpp"         // for bridge
#include "steps/interop/detail/nats/forked.hpp"         // for leave_behind
#include "steps/interop/detail/nats/request.hpp"        // for request, check_interest, is_subject
#include "steps/interop/detail/nats/service_state.hpp"  // for service_state, service_of
#include "steps/interop/nats_options.hpp"               // for options, serve_options

/// Flows and pools of several machines, on the messaging system NATS (nats.io) and its C client, version 3.4 or newer.
namespace steps::inline v0_1::interop::nats {

class bus;
class jobs;

/// A subject that this process serves, see bus::serve().
///
/// Threads     any.
/// Lifetime    the destructor calls stop() and blocks until stopped() is set: where the server does not answer, until
///             options::ping has noticed that. Do not destroy it in a step or a task.
class [[nodiscard]] service {
 public:
  service(service&&) noexcept = default;
  service& operator=(service&&) = delete;
  ~service() {
    if (state_ == nullptr || detail::leave_behind(state_)) return;
    stop();
    stopped().wait();
  }

  /// Takes no further requests: the server hands them to the other members of the group. Those that have arrived are
  /// answered. Returns at once.
  void stop() { state_->stop(); }
  /// Set when all requests have been answered after stop(), or after the end of the bus; also when the client refuses
  /// the subject, such as one with two dots in a row, which it does once there is a connection.
  async::event& stopped() noexcept { return state_->stopped(); }

 private:
  friend class bus;
  explicit service(std::shared_ptr<detail::service_state> s) noexcept : state_(std::move(s)) {}

  std::shared_ptr<detail::service_state> state_;
};

/// A connection to NATS servers, for calls of steps to other processes and from them.
///
///   steps::interop::nats::bus bus({.url = "nats://10.0.0.7:4222"});
///   auto service = bus.serve("sum", "adders", pool, [](std::string numbers) { return sum_of(numbers); });
///   …
///   asi.setTimeout(1s);
///   bus.call(asi, "sum", "1 2 3");
///   asi.add([](steps::IAsyncSteps& step, std::string sum) { … });
///
/// Use it when one machine is not enough, for requests that may be repeated by hand or not at all: a call is delivered
/// at most once. For work that must be done, also when machines die, use jobs (nats_jobs.hpp).
///
/// Reconnect   a connection that is lost is made anew, by the Retry of the options, for as long as the bus lives. Calls
///             that have been sent fail with CommError: the other side may have carried them out. Calls made meanwhile
///             fail at once with ConnectError: it has not, and asi.retry() may repeat them. Services go on.
/// Threads     any. The bus has a thread that polls the socket, and one of the client for answers and for each service;
///             while little arrives, one of these polls instead. No thread of a pool or loop ever waits for the
///             network. Connecting, which blocks, is done in async::blocking_pool::shared().
/// Progress    a call takes some short locks. One that is alone is written by the thread that makes it, except with
///             TLS, as is the answer to a request that is alone. Others wake the thread that polls; those that are made
///             while it writes go out together. An idle bus uses no CPU but for a ping in options::ping.
/// Exceptions  std::bad_alloc; std::system_error from the constructor. Without memory for a thread of the bus or client
///             a message may get lost, a call may fail with std::bad_alloc, and the bus may connect anew.
/// Fork        a child of fork() has no use of it: calls fail with Stopped, and send(), serve() and work() do nothing.
///             There the destructors of the bus, its services and workers return at once. The parent's go on. Make no
///             other bus in such a child: the client's threads are gone.
/// Lifetime    the destructor ends services and workers, and fails calls that are under way with CommError. It blocks
///             for at most a second, to write what is to be sent. Steps may outlive it: later calls fail with Stopped.
/// Platform    Unix.
class bus {
 public:
  /// Starts to connect, and returns: wait for connected().
  explicit bus(options how = {}) : bridge_(std::make_shared<detail::bridge>(std::move(how))) { bridge_->start(); }
  bus(const bus&) = delete;
  bus& operator=(const bus&) = delete;
  ~bus() {
    if (!detail::leave_behind(bridge_)) bridge_->close();
  }

  /// Set while there is a connection: connected().wait_for(5s), asi.await(connected()).
  async::event& connected() noexcept { return bridge_->connected(); }
  /// The reason why the last attempt to connect, or the last connection, has failed; empty: there is a connection.
  std::string failure() const { return bridge_->failure(); }

  /// Adds a step that sends a request to one of those that serve the subject, and passes the answer on, a std::string.
  /// Errors: NoResponders at once when nobody does; ConnectError and CommError as above; InvalidRequest for a subject
  /// with blanks or of more than 2,048 bytes, or too much data; the error of the other side, with its code and info.
  /// Set a timeout: a request or an answer may get lost. A step that ends before the answer forgets it, and the other
  /// side goes on.
  IAsyncSteps& call(IAsyncSteps& asi, std::string subject, std::string request) {
    return asi.add([to = bridge_, subject = std::move(subject), request = std::move(request)](IAsyncSteps& step) {
      detail::request(step, to, {.subject = subject, .data = request});
    });
  }

  /// Sends a message without an answer, at most once; without a connection it is dropped, as is one with too much data
  /// or a subject with blanks or of more than 2,048 bytes. Returns at once.
  void send(std::string subject, std::string text) {
    if (detail::is_subject(subject)) bridge_->send({.subject = std::move(subject), .data = std::move(text)});
  }

  /// Serves a subject: each request becomes a task f(std::string) of the pool, whose result is the answer (nothing:
  /// an empty one), or a flow f(IAsyncSteps&, std::string), which begins with that step and whose last result is the
  /// answer, a std::string. Errors go to the caller, one with an empty or blank code as InternalError; long codes and
  /// infos are cut. An answer with too much data is the caller's InvalidRequest. Several threads call f at the same
  /// time. The subject may end with a wildcard.
  ///
  /// Each request goes to one member of a group, whichever machines these are on; with an empty group everyone gets it.
  /// When serve_options::limit requests are under way, or the pool has a bounded queue that is full and blocks, further
  /// requests wait in the client, and other services of this process go on. A pool that rejects makes the callers'
  /// error QueueFull. The pool outlives the service.
  ///
  /// Throws Error: InvalidRequest for an empty subject, a subject or group with blanks, or both of more than 2,048
  /// bytes.
  template <class F>
  service serve(std::string subject, std::string group, async::threadpool& pool, F&& f, const serve_options& o = {}) {
    using function = std::decay_t<F>;
    static_assert(
        std::is_invocable_v<function&, IAsyncSteps&, std::string> || std::is_invocable_v<function&, std::string>,
        "what serves is called as f(IAsyncSteps&, std::string), a flow, or as f(std::string), a task");
    static_assert(steps::detail::returns_nothing<function, IAsyncSteps&, std::string>(),
                  "a flow that serves returns void: asi.success(...) passes the answer; a coroutine is made one by "
                  "co()");
    detail::check_interest(subject, group);
    auto state = std::make_shared<detail::service_of<function>>(bridge_, std::move(subject), std::move(group), pool,
                                                                std::forward<F>(f), o);
    bridge_->add(state);
    return service(std::move(state));
  }

 private:
  friend class jobs;
  std::shared_ptr<detail::bridge> bridge_;
};

}  // namespace steps::inline v0_1::interop::nats
