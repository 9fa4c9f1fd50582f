// SPDX-License-Identifier: BSL-1.0
//
// Names and times that need a change to fit into a trace's file.
#define ASYNCSTEPS_TRACE 1
#include <doctest/doctest.h>

#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "async/event_loop.hpp"
#include "async/trace.hpp"
#include "support/json.hpp"

using testing::json;

namespace {

std::vector<json> events(const async::trace& session, const std::string& phase) {
  std::ostringstream text;
  session.write(text);
  std::vector<json> found;
  const json file = json::parse(text.str());
  for (const json& e : file["traceEvents"].list) {
    if (e["ph"].text == phase) found.push_back(e);
  }
  return found;
}

}  // namespace

TEST_CASE("names of threads in any encoding, and those that are cut, are written in UTF-8") {
  const auto is_written = [](const char* name, const std::string& as) {
    async::trace session;
    std::thread([name] {
      async::trace::name_thread(name, 7);
      async::event_loop loop;
      loop.immediate([] {});
      loop.iterate();
    }).join();
    for (const json& e : events(session, "M")) {
      if (e["args"]["name"].text == as) return true;
    }
    return false;
  };
  CHECK(is_written("caf\xc3\xa9", "caf\xc3\xa9/7"));
  CHECK(is_written("caf\xe9", "caf?/7"));
  CHECK(is_written("\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xff", "?? ??? ???? ?/7"));
  CHECK(is_written("\xe2\x82\xac \xf0\x9f\x98\x80", "\xe2\x82\xac \xf0\x9f\x98\x80/7"));
  CHECK(is_written("thirty bytes in front of this \xc3\xa9", "thirty bytes in front of this ?"));
}

TEST_CASE("a span that began in an earlier session begins with the session in which it ends") {
  auto first = std::make_unique<async::trace>();
  std::unique_ptr<async::trace> second;
  async::event_loop loop;
  loop.immediate([&] {
    first.reset();
    second = std::make_unique<async::trace>();
  });
  loop.iterate();
  const std::vector<json> spans = events(*second, "X");
  REQUIRE(spans.size() == 1);
  CHECK(spans.front()["ts"].number == 0);
  CHECK(spans.front()["dur"].number >= 0);
}
