// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <ostream>    // for ostream
#include <stdexcept>  // for logic_error
#include <string>     // for to_string

#include "async/detail/trace/trace_json.hpp"    // for trace_json
#include "async/detail/trace/trace_log.hpp"     // for tracing, trace_log
#include "async/detail/trace/trace_points.hpp"  // for ASYNCSTEPS_TRACE

namespace async::inline v0_1 {

/// Settings of a trace.
struct trace_options {
  /// The number of latest events that are kept of each thread. Each takes 40 bytes, allocated at the thread's first
  /// event.
  std::size_t events_per_thread = 65536;
};

/// Records the activity of pools, event loops and flows, and writes it for a viewer: ui.perfetto.dev or
/// chrome://tracing.
///
/// Use it to see where time goes between threads: when they run, sleep, steal and wake each other, and which step of
/// which flow runs when. Do not use it to measure single operations of less than a microsecond: an event reads the
/// clock twice.
///
///   async::trace session;
///   …  // the code to trace
///   std::ofstream file("trace.json");
///   session.write(file);
///
/// Compile every translation unit of the program with -DASYNCSTEPS_TRACE=1. If some are compiled without it, it is
/// undefined which events are recorded. Without it the library contains not one instruction for tracing. A session then
/// does nothing, is_compiled_in is false, and the file holds no events and says why.
///
/// Recorded    as spans: tasks of pools, callbacks of event loops, step functions with their types, error handlers,
///             sleeps ("park"), wake-ups with an arrow to the sleeper. As instants: steals. From start to end: flows,
///             including branches of parallel(), with "success", "error" or "cancel". A flow that never began has only
///             its end, as an instant.
/// Threads     one session at a time per process, made, stopped and destroyed by one thread. Any thread may call its
///             other members. A span is recorded when it ends; write() omits those that are still running.
/// Progress    recording takes no lock, and allocates only at the first event of a thread. write() blocks no thread.
/// Exceptions  the constructor: std::logic_error if there is another session. write(): std::bad_alloc, and what the
///             stream is set to throw; otherwise see the stream's state. A thread without memory drops its events.
/// Memory      the rings stay until the process ends; later sessions reuse them.
/// Times       std::chrono::steady_clock, written in microseconds since the session's start.
class trace {
 public:
  /// Whether this translation unit, and so the program, is compiled with ASYNCSTEPS_TRACE.
#if defined(ASYNCSTEPS_TRACE) && ASYNCSTEPS_TRACE
  static constexpr bool is_compiled_in = true;
#else
  static constexpr bool is_compiled_in = false;
#endif

  /// Starts recording. Throws std::logic_error if there is another session.
  explicit trace(trace_options options = {})
      : begin_(detail::trace_time()), number_(detail::tracing.begin(options.events_per_thread)) {
    if (number_ == 0) throw std::logic_error("async::trace: another session has not been destroyed");
  }
  trace(const trace&) = delete;
  trace& operator=(const trace&) = delete;

  /// Stops recording and discards the events.
  ~trace() {
    stop();
    detail::tracing.end();
  }

  /// Stops recording; the events can still be written. Events that other threads are just recording may still arrive.
  void stop() noexcept { detail::tracing.stop(); }

  /// Writes the events as JSON in the Trace Event Format. The "thread_name" of each thread has its name and the number
  /// of events that it has dropped; "otherData" has the sum.
  void write(std::ostream& to) const {
    detail::trace_json json(to, begin_);
    json.begin();
    std::uint64_t dropped = detail::tracing.lost();
    detail::tracing.for_each(number_, [&](const detail::trace_log& log) { dropped += json.add(log); });
    json.write();
    json.end("\"dropped\":" + std::to_string(dropped) +
             (is_compiled_in ? "" : ",\"note\":\"compiled without -DASYNCSTEPS_TRACE=1: nothing is recorded\""));
  }

  /// The number of events for which there was no room: the oldest of a full ring, all of a thread without memory.
  std::uint64_t dropped() const noexcept {
    std::uint64_t all = detail::tracing.lost();
    detail::tracing.for_each(
        number_, [&all](const detail::trace_log& log) { all += log.read([](const detail::trace_event&) {}); });
    return all;
  }

  /// Names the calling thread "name/number" in the trace. By default workers of pools are "worker/0" and so on, or as
  /// threadpool_options::name says; other threads are "thread/" and a number. Call it before the thread's first event
  /// of a session; it holds for all sessions that follow. At most 31 characters are kept.
  static void name_thread(const char* name, std::size_t number) noexcept { detail::name_traced_thread(name, number); }

 private:
  const std::int64_t begin_;
  const std::uint64_t number_;
};

}  // namespace async::inline v0_1
