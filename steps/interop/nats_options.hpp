// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <nats/nats.h>

#include <cstddef>  // for size_t
#include <string>   // for string

#include "async/detail/base/chrono.hpp"           // for nanoseconds, milliseconds, minutes, seconds
#include "async/detail/base/unique_function.hpp"  // for unique_function
#include "steps/errors.hpp"                       // for ErrorCode
#include "steps/retry.hpp"                        // for Retry

/// Options of flows and pools on NATS.
namespace steps::inline v0_1::interop::nats {

/// How a bus connects. Moved into the bus.
struct options {
  /// Servers, separated by commas; the first that answers is taken, in random order.
  std::string url = "nats://127.0.0.1:4222";
  std::string name{};                                                  ///< shown by the server's monitoring
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(2);  ///< for one server
  /// The pauses between attempts to connect. They never end; `attempts` has no effect.
  Retry reconnect{.delay = std::chrono::milliseconds(20), .max_delay = std::chrono::seconds(2)};
  /// The interval of pings to the server. A connection that leaves two unanswered is lost.
  std::chrono::nanoseconds ping = std::chrono::seconds(20);
  /// Called before each attempt to connect, on a thread of async::blocking_pool::shared(), with the client's
  /// natsOptions: for credentials and TLS. Do not change what is set here, nor callbacks or the event loop. When it
  /// throws, the attempt has failed, and the next one is made after a pause. The end of the bus does not wait for it:
  /// an attempt that is under way may call it later, so let it own what it uses.
  async::unique_function<void(natsOptions*)> configure{};
};

/// How a bus serves requests.
struct serve_options {
  /// Requests under way on this machine, one at least. Further ones wait in the client's memory.
  std::size_t limit = 1'000;
  /// Requests that wait, one at least. Those that find no place are dropped: their callers' time limits expire.
  std::size_t backlog = 65'536;
};

/// A queue of jobs: where they are stored. Moved into the jobs.
struct jobs_options {
  std::string stream;         ///< the name of the stream, which is a work queue; without dots and blanks
  std::string subject;        ///< the subject of its jobs
  std::string dead_letter{};  ///< the subject of jobs that are given up, in the same stream; empty: they are dropped
  bool in_memory = false;     ///< true: a restart of the server loses the jobs
  std::size_t replicas = 1;   ///< servers of a cluster that each keep a copy
  /// The time for which the server knows the id of a job, and stores a second one with this id not again. A server that
  /// has been restarted knows only the ids of jobs that are not done.
  std::chrono::nanoseconds duplicates = std::chrono::minutes(2);
};

/// How a job is published.
struct publish_options {
  /// The job's key, under which the server and handlers recognise it; empty or blank: a new one.
  std::string id{};
  /// True: without a connection, or when the answer is lost, the step goes on trying, with the same id, until the
  /// server has stored the job or a time limit expires. False: it fails with ConnectError or CommError.
  bool waits = true;
};

/// How jobs are worked on.
struct work_options {
  /// The name of the consumer: workers of all machines that use this name share the jobs. Without dots and blanks.
  std::string consumer = "workers";
  std::size_t limit = 100;  ///< jobs under way on this machine: one at least, and at most 65,536
  /// A job is delivered again when its worker has given no sign of life for this long, 10 ms at least. Running flows
  /// give one three times as often, however long they take. It belongs to the consumer: all of its workers set the
  /// same.
  std::chrono::nanoseconds ack_wait = std::chrono::seconds(30);
  /// The deliveries of a job whose flow fails, and the pauses in between. The server counts deliveries that a worker
  /// handed back before its flow began, too.
  Retry retry{.attempts = 5, .delay = std::chrono::seconds(1), .max_delay = std::chrono::minutes(1)};
  /// A job that comes after this many deliveries is given up without a flow, as TooManyDeliveries: its workers have
  /// died, have handed it back when they were stopped, or could not store its dead letter. At least `retry.attempts`;
  /// more, so that restarts give up no job that could succeed.
  std::size_t most_deliveries = 30;
  /// True: a job is done when the server has confirmed the acknowledgement; it is not delivered again then, but for the
  /// last moments of a server that is killed. False: the acknowledgement may get lost, and the job run once more.
  bool confirm = true;
};

/// Error codes of calls and jobs, beside CommError, ConnectError and those of the other side.
namespace errors {
inline constexpr ErrorCode NoResponders{"NoResponders"};      ///< Nobody serves the subject, or no stream stores it.
inline constexpr ErrorCode JetStreamError{"JetStreamError"};  ///< The server refuses; the info is its explanation.
inline constexpr ErrorCode TooManyDeliveries{"TooManyDeliveries"};  ///< See most_deliveries.
inline constexpr ErrorCode GiveUp{"GiveUp"};  ///< Of a job's flow: another delivery would not help.
}  // namespace errors

}  // namespace steps::inline v0_1::interop::nats
