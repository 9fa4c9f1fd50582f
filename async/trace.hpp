// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <ostream>    // for ostream
#include <stdexcept>  // for logic_error
#include <string>     // for to_string

#include "async/detail/trace/trace_json.hpp"    // for trace_json
#include "async/detail/trace/trace_log.hpp"     // for tracing, trace_log
#include "async/detail/trace/trace_points.hpp"  // for ASYNC_TRACE

namespace async {

/// How much a trace records.
struct trace_options {
  /// Of each thread, the latest so many events are kept: 40 bytes each, taken at once at the thread's first event.
  std::size_t events_per_thread = 65536;
};

/// Records what pools, event loops and flows do, and writes it for a viewer: ui.perfetto.dev or chrome://tracing.
///
/// Use it to see where time goes between threads: who runs, sleeps, steals and wakes whom, and which step of which flow
/// runs when. Do not use it to measure single operations of less than a microsecond: an event takes two looks at the
/// clock.
///
///   async::trace session;
///   …  // what is to be seen
///   std::ofstream file("trace.json");
///   session.write(file);
///
/// Compile the whole program, every translation unit of it, with -DASYNC_TRACE=1; where some are compiled without, what
/// is recorded is left to chance. Without it the library contains nothing of this, not one instruction; a session then
/// does nothing, is_compiled_in is false, and what it writes holds no events and says why.
///
/// Recorded    as spans: tasks of pools, callbacks of event loops, step functions with their types, error handlers,
///             sleeps ("park"), wake-ups with an arrow to the sleeper; as moments: steals; from start to end: flows,
///             branches of parallel() among them, with "success", "error" or "cancel". A flow that never began has no
///             start, but its end as a moment.
/// Threads     one session at a time in a process, made, stopped and destroyed by one thread; its other members by any.
///             What is still running when write() is called is not in it: a span is recorded when it ends.
/// Progress    recording takes no lock, and memory only for the first event of a thread; write() holds nobody up.
/// Exceptions  the constructor: std::logic_error when there is another session. write(): std::bad_alloc, and what the
///             stream is set to throw; else the stream's state tells. A thread without memory drops its events.
/// Memory      that of the rings stays until the process ends; later sessions use it again.
/// Times       std::chrono::steady_clock, written in microseconds since the session's start.
class trace {
 public:
  /// Whether this translation unit, and so the program, is compiled with ASYNC_TRACE.
#if defined(ASYNC_TRACE) && ASYNC_TRACE
  static constexpr bool is_compiled_in = true;
#else
  static constexpr bool is_compiled_in = false;
#endif

  /// Begins to record. Throws std::logic_error when there is another session.
  explicit trace(trace_options options = {})
      : begin_(detail::trace_time()), number_(detail::tracing.begin(options.events_per_thread)) {
    if (number_ == 0) throw std::logic_error("async::trace: another session has not been destroyed");
  }
  trace(const trace&) = delete;
  trace& operator=(const trace&) = delete;

  /// Stops recording, and forgets what was recorded.
  ~trace() {
    stop();
    detail::tracing.end();
  }

  /// Ends the recording; what has been recorded can still be written. Events that other threads are just recording may
  /// still come.
  void stop() noexcept { detail::tracing.stop(); }

  /// Writes what is recorded, as JSON in the Trace Event Format. Each thread's name, and how many events it has
  /// dropped, are in its "thread_name"; the sum is in "otherData".
  void write(std::ostream& to) const {
    detail::trace_json json(to, begin_);
    json.begin();
    std::uint64_t dropped = detail::tracing.lost();
    detail::tracing.for_each(number_, [&](const detail::trace_log& log) { dropped += json.add(log); });
    json.write();
    json.end("\"dropped\":" + std::to_string(dropped) +
             (is_compiled_in ? "" : ",\"note\":\"compiled without -DASYNC_TRACE=1: nothing is recorded\""));
  }

  /// How many events there is no room for: the oldest of a full ring, all of a thread without memory.
  std::uint64_t dropped() const noexcept {
    std::uint64_t all = detail::tracing.lost();
    detail::tracing.for_each(
        number_, [&all](const detail::trace_log& log) { all += log.read([](const detail::trace_event&) {}); });
    return all;
  }

  /// Calls the calling thread "name/number" in the trace. Workers of pools are "worker/0" and so on, or what
  /// threadpool_options::name says, others "thread/" and a number. Before the thread's first event of a session; holds
  /// for all that follow. At most 31 characters are kept.
  static void name_thread(const char* name, std::size_t number) noexcept { detail::name_traced_thread(name, number); }

 private:
  const std::int64_t begin_;
  const std::uint64_t number_;
};

}  // namespace async
