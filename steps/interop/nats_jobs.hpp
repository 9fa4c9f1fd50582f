// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>      // for uint64_t
#include <memory>       // for shared_ptr, make_shared
#include <string>       // for string
#include <type_traits>  // for decay_t, is_invocable_v
#include <utility>      // for forward, move

#include "async/event.hpp"                          // for event
#include "async/threadpool.hpp"                     // for threadpool
#include "steps/iasyncsteps.hpp"                    // for IAsyncSteps
#include "steps/interop/detail/nats/bridge.hpp"     // for bridge
#include "steps/interop/detail/nats/forked.hpp"     // for leave_behind
#include "steps/interop/detail/nats/job_state.hpp"  // for job_state
#include "steps/interop/detail/nats/json.hpp"       // for number_at, is_true_at
#include "steps/interop/detail/nats/message.hpp"    // for is_blank, parcel
#include "steps/interop/detail/nats/request.hpp"    // for check_names
#include "steps/interop/detail/nats/stream.hpp"     // for make_stream, ask_server, stream_is_another
#include "steps/interop/detail/nats/worker_of.hpp"  // for worker_of, worker_state, acknowledge_job
#include "steps/interop/nats.hpp"                   // for bus
#include "steps/interop/nats_options.hpp"           // for jobs_options, publish_options, work_options

namespace steps::inline v0_1::interop::nats {

/// A job as its flow sees it. Copies share it. Keep none beyond the flow: as long as there is a copy, the job is under
/// way, so that it is neither finished nor handed back.
///
/// Threads     as a plain object.
class job {
 public:
  const std::string& data() const noexcept { return state_->data; }        ///< what was published
  const std::string& id() const noexcept { return state_->id; }            ///< its key, see publish_options
  const std::string& subject() const noexcept { return state_->subject; }  ///< that of the jobs
  std::uint64_t sequence() const noexcept { return state_->sequence; }     ///< its number in the stream, from 1
  std::uint64_t delivery() const noexcept { return state_->delivery; }     ///< 1: nobody had it before

  /// Adds a step of the job's flow that acknowledges the job before the flow's end, and ends when the server has
  /// confirmed that. From then on an error of the flow does not bring the job back.
  IAsyncSteps& acknowledge(IAsyncSteps& asi) const {
    return asi.add([s = state_](IAsyncSteps& step) { detail::acknowledge_job(step, s); });
  }

  /// For the library.
  explicit job(std::shared_ptr<detail::job_state> s) noexcept : state_(std::move(s)) {}

 private:
  std::shared_ptr<detail::job_state> state_;
};

/// Where the server has stored a job.
struct stored {
  std::uint64_t sequence = 0;  ///< its number in the stream
  bool is_duplicate = false;   ///< the stream had a job with this id already, and has not stored this one
};

/// This process's part in the work on jobs, see jobs::work().
///
/// Threads     any.
/// Lifetime    the destructor calls stop() and blocks until stopped() is set: where the server does not answer, until
///             options::ping has noticed that. Do not destroy it in a step or a task.
class [[nodiscard]] worker {
 public:
  worker(worker&&) noexcept = default;
  worker& operator=(worker&&) = delete;
  ~worker() {
    if (state_ == nullptr || detail::leave_behind(state_)) return;
    stop();
    stopped().wait();
  }

  /// Takes no further jobs. Flows that have begun go on; jobs whose flows have not begun go back to the server, which
  /// delivers them to other workers at once. Returns at once.
  void stop() { state_->stop(); }
  /// Set when all has been finished or handed back after stop(), when the server has refused to deliver (see
  /// failure()), or after the end of the bus.
  async::event& stopped() noexcept { return state_->stopped(); }
  /// Why there are no jobs, or why a dead letter was refused; empty: there is no reason.
  std::string failure() const { return state_->failure(); }

 private:
  friend class jobs;
  explicit worker(std::shared_ptr<detail::worker_state> s) noexcept : state_(std::move(s)) {}

  std::shared_ptr<detail::worker_state> state_;
};

/// Work that must be done: jobs that the servers store (JetStream), and that flows of any machine carry out.
///
///   steps::interop::nats::jobs mails(bus, {.stream = "MAILS", .subject = "mails", .dead_letter = "mails.dead"});
///   mails.publish(asi, text, {.id = "order-4711"});                       // a step; ends when it is stored
///   auto worker = mails.work(pool, {.limit = 50}, [](steps::IAsyncSteps& asi, const steps::interop::nats::job& j) {
///     …                                                                   // a flow for each job
///   });
///
/// A job is delivered at least once: again when its flow fails, its worker gives no sign of life, or an acknowledgement
/// has got lost. So a flow that has run may run again: make its effect one that may happen twice, by the job's id as
/// the key under which it writes. Use bus::call() for questions whose answers somebody waits for.
///
/// Success     of a flow: the job is acknowledged, and the server removes it. With work_options::confirm the flow goes
///             on until the server has confirmed that.
/// Errors      of a flow: the job is delivered again, by the Retry of the options. After the last delivery, and after
///             GiveUp, it is stored under jobs_options::dead_letter, with its error in the headers
///             Nats-Service-Error-Code and Nats-Service-Error; long texts are cut. One that has too much data for
///             these headers, or that the stream refuses, is delivered again, for ever: worker::failure() tells. So a
///             stream that was there before has to take the subject of dead letters, too. A job that kills its workers
///             is given up after work_options::most_deliveries.
/// Reconnect   work and steps of publish() go on, also when the server has been restarted.
/// Threads     any. No thread of a pool ever waits for the network. A worker has a thread of the client.
/// Exceptions  std::bad_alloc.
/// Lifetime    may end before its workers, and after the bus. The pool outlives its workers.
class jobs {
 public:
  /// Names a queue of jobs, without asking the server.
  explicit jobs(bus& b, jobs_options o) : bridge_(b.bridge_), options_(std::move(o)) {}

  /// Adds a step that makes the stream, unless there is one of that name, which stays as it is. Workers do so, too.
  /// JetStreamError: the server refuses. Without a connection it waits for one.
  IAsyncSteps& open(IAsyncSteps& asi) {
    return asi.add([to = bridge_, p = detail::make_stream(options_)](IAsyncSteps& step) {
      detail::ask_server(step, to, p, true, detail::stream_is_another);
      step.add([](IAsyncSteps&) {});
    });
  }
  /// Adds a step that ends when the server has stored the job; it passes `stored` on. NoResponders: there is no such
  /// stream. JetStreamError: it is full, or the server refuses for another reason. InvalidRequest: too much data, or an
  /// id that begins or ends with a blank or has control characters.
  IAsyncSteps& publish(IAsyncSteps& asi, std::string data, publish_options o = {}) {
    if (detail::is_blank(o.id)) o.id = bridge_->unique();
    detail::parcel p{.subject = options_.subject, .data = std::move(data), .id = std::move(o.id)};
    return asi.add([to = bridge_, p = std::move(p), waits = o.waits](IAsyncSteps& step) {
      if (!detail::is_id(p.id)) {
        step.error(steps::errors::InvalidRequest, "a job's id has no blanks around it, and no control characters");
      }
      detail::ask_server(step, to, p, waits);
      step.add([](IAsyncSteps& end, const std::string& answer) {
        end.success(stored{.sequence = detail::number_at(answer, "seq"),
                           .is_duplicate = detail::is_true_at(answer, "duplicate")});
      });
    });
  }
  /// Runs a flow f(IAsyncSteps&, job) on the pool for each job, at most work_options::limit at a time on this machine.
  /// Its results are dropped. It may take as long as it likes; limit it by setTimeout().
  /// When the pool is full and rejects, jobs wait for room. Where it blocks or its callers run tasks, jobs wait in the
  /// client, which prolongs none: what takes longer than ack_wait there runs more than once. Throws Error:
  /// InvalidRequest for an empty name of the stream or consumer, or one with blanks, or names that are too long.
  template <class F>
  worker work(async::threadpool& pool, work_options o, F&& f) {
    using function = std::decay_t<F>;
    static_assert(std::is_invocable_v<function&, IAsyncSteps&, job>,
                  "the flow of a job begins as f(IAsyncSteps&, job)");
    static_assert(steps::detail::returns_nothing<function, IAsyncSteps&, job>(),
                  "the flow of a job returns void, and has no result; a coroutine is made one by co()");
    detail::check_names(options_.stream, o.consumer);
    auto state =
        std::make_shared<detail::worker_of<job, function>>(bridge_, options_, pool, std::move(o), std::forward<F>(f));
    bridge_->add(state);
    return worker(std::move(state));
  }

 private:
  const std::shared_ptr<detail::bridge> bridge_;
  const jobs_options options_;
};

}  // namespace steps::inline v0_1::interop::nats
