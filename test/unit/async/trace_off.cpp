// SPDX-License-Identifier: BSL-1.0
//
// A program that is compiled without ASYNCSTEPS_TRACE: all that is left of the trace is a session that says so.
#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "async/async.hpp"
#include "async/trace.hpp"
#include "support/json.hpp"

#define TEXT(...) TEXT_OF(__VA_ARGS__)
#define TEXT_OF(...) #__VA_ARGS__

static_assert(sizeof TEXT(ASYNCSTEPS_TRACE_SPAN(task, "task", 0)) == 1, "no instruction is left");
static_assert(sizeof TEXT(ASYNCSTEPS_TRACE_INSTANT(steal, "steal", 0)) == 1);
static_assert(sizeof TEXT(ASYNCSTEPS_TRACE_THREAD("worker", 0)) == 1);
static_assert(!async::trace::is_compiled_in);

TEST_CASE("a trace of a program without trace points says why it is empty") {
  async::trace session;
  async::threadpool pool(1);
  pool.post([] {}).get();
  pool.stop();
  std::ostringstream text;
  session.write(text);
  const testing::json trace = testing::json::parse(text.str());
  CHECK(trace["traceEvents"].list.empty());
  CHECK(trace["otherData"]["note"].text.find("-DASYNCSTEPS_TRACE=1") != std::string::npos);
  CHECK(session.dropped() == 0);
}
