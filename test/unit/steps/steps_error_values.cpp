// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <exception>
#include <future>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "async/async.hpp"
#include "steps/steps.hpp"

using steps::Error;
using steps::ErrorCode;
using steps::ErrorInfo;

TEST_CASE("an Error keeps its code and info, from any kind of text") {
  const std::string text = "a code that is made while the program runs";
  char buffer[] = "buffer";
  const char* const pointer = text.c_str();
  CHECK(Error("Literal").code() == "Literal");
  CHECK(Error(text).code() == text);
  CHECK(Error(pointer, "info").code() == text);
  CHECK(Error(buffer).code() == "buffer");
  CHECK(Error(ErrorCode()).code() == "");
  CHECK(Error(text, "info").error_info() == "info");
  CHECK(Error("Literal", "info").error_info() == "info");
  CHECK(Error("Literal").error_info().empty());
  CHECK(std::string(Error(text).what()) == text);
}

TEST_CASE("codes are ordered by their content, as they are compared") {
  const std::string made = "Busy";
  std::map<ErrorCode, int> counts;
  for (const ErrorCode code : {ErrorCode("Timeout"), ErrorCode("Busy"), ErrorCode(made), ErrorCode()}) ++counts[code];
  CHECK(counts.size() == 3);
  CHECK(counts[ErrorCode("Busy")] == 2);
  CHECK(counts.begin()->first == ErrorCode());
  CHECK(ErrorCode("Busy") < ErrorCode("Timeout"));
  CHECK_FALSE(ErrorCode(made) > ErrorCode("Busy"));
}

TEST_CASE("an Error owns its texts, and so do copies of it") {
  std::string text = "a code that is longer than a short string";
  Error copy("Other");
  {
    char info[] = "the info of the error";
    const Error error(text, info);
    info[0] = '?';
    copy = error;
  }
  text.assign(text.size(), '?');
  CHECK(copy.code() == "a code that is longer than a short string");
  CHECK(copy.error_info() == "the info of the error");
  CHECK_FALSE(copy.code().is_lasting());
}

TEST_CASE("an Error keeps its whole info, also a long one and one with zeros") {
  for (const std::size_t size : {0U, 1U, 78U, 79U, 80U, 81U, 5000U}) {
    const std::string info = std::string(size, 'i') + std::string(size == 0 ? 0 : 1, '\0');
    Error copy("Other", "another info");
    {
      const Error error("Literal", info);
      copy = error;
    }
    CHECK(copy.error_info() == info);
    CHECK(copy.explanation() == info);
    CHECK(copy.code() == "Literal");
    CHECK(Error(std::string("made"), info).error_info() == info);
  }
}

TEST_CASE("the code of a literal may be kept for good, also when there is an info") {
  ErrorCode code;
  {
    const Error error("Literal", "info");
    code = error.code();
  }
  CHECK(code.is_lasting());
  CHECK(code == "Literal");
}

TEST_CASE("an Error is caught as a runtime_error, whose text is the code") {
  try {
    throw Error("Code", "info");
  } catch (const std::runtime_error& e) {
    CHECK(std::string_view(e.what()) == "Code");
  }
}

TEST_CASE("codes are compared by content; null is the empty code") {
  const std::string text = "Timeout";
  const char* const null = nullptr;
  CHECK(ErrorCode(text) == steps::errors::Timeout);
  CHECK(ErrorCode(text) == std::string_view("Timeout"));
  CHECK_FALSE(ErrorCode(text) == "Time");
  CHECK(ErrorCode(null) == ErrorCode());
  CHECK_FALSE(ErrorCode(null) == null);
  CHECK(ErrorCode().view().empty());
  static_assert(ErrorCode("Literal").is_lasting());
}

namespace {

template <class Base>
struct without_text : Base {
  using Base::Base;
  const char* what() const noexcept override { return nullptr; }
};

}  // namespace

TEST_CASE("an exception without a text has an empty code, or an empty info") {
  const auto outcome = [](auto fail) {
    async::event_loop loop;
    steps::AsyncSteps flow{loop};
    std::string seen;
    flow.add([&](steps::IAsyncSteps&) { fail(); },
             [&](steps::IAsyncSteps& asi, ErrorCode code) {
               seen = std::string(code) + ":" + asi.state().error_info().str();
               asi.success();
             });
    flow.execute();
    while (loop.iterate().have_work) {
    }
    return seen;
  };
  CHECK(outcome([] { throw without_text<std::exception>(); }) == ":");
  CHECK(outcome([] { throw without_text<std::system_error>(std::make_error_code(std::errc::io_error)); }) == ":");
  CHECK(outcome([] {
          throw without_text<std::system_error>(std::make_error_code(std::errc::resource_deadlock_would_occur));
        }) == "InternalError:");
  CHECK(outcome([] { throw without_text<std::future_error>(std::future_errc::broken_promise); }) == "BrokenPromise:");
  CHECK(outcome([] { throw without_text<std::future_error>(std::future_errc::no_state); }) == ":");
  CHECK(outcome([] { throw without_text<async::stopped>(); }) == "Stopped:");
}
