// SPDX-License-Identifier: BSL-1.0
#include "steps/interop/stop_token.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "support/flows.hpp"

#if defined(__cpp_lib_jthread)

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::cancel_on_stop;
using steps::interop::stop_token_of;
using testing::bench;
using testing::lines;
using namespace std::chrono_literals;

TEST_CASE_TEMPLATE("stop is requested when the step times out, before its cancel and error handlers", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  std::stop_token token;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        token = stop_token_of(asi);
        asi.setTimeout(5ms);
        asi.setCancel([&](IAsyncSteps&) { seen.emplace_back(token.stop_requested() ? "cancel" : "early"); });
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.emplace_back(code);
        asi.success();
      });
  flow.execute();
  b.pass(4ms);
  CHECK(token.stop_possible());
  CHECK_FALSE(token.stop_requested());
  b.pass(3ms);
  CHECK(token.stop_requested());
  CHECK(seen == lines{"cancel", "Timeout"});
}

TEST_CASE_TEMPLATE("stop is requested when the flow is cancelled, by an error of a sub-step, and never by success",
                   Flow, STEPS_FLOWS) {
  bench b;
  std::stop_token token;
  Flow flow{b.loop};

  SUBCASE("cancel()") {
    flow.add([&](IAsyncSteps& asi) {
      token = stop_token_of(asi);
      asi.waitExternal();
    });
    flow.execute();
    b.drain();
    CHECK_FALSE(token.stop_requested());
    flow.cancel();
    CHECK(token.stop_requested());
  }
  SUBCASE("an error below") {
    flow.add(
        [&](IAsyncSteps& asi) {
          token = stop_token_of(asi);
          asi.add([](IAsyncSteps& inner) { inner.errorNoThrow("Broken"); });
        },
        [&](IAsyncSteps& asi, ErrorCode) {
          CHECK(token.stop_requested());
          asi.success();
        });
    flow.execute();
    b.drain();
    CHECK(token.stop_requested());
  }
  SUBCASE("its own error") {
    flow.add(
        [&](IAsyncSteps& asi) {
          token = stop_token_of(asi);
          asi.error("Broken");
        },
        [](IAsyncSteps& asi, ErrorCode) { asi.success(); });
    flow.execute();
    b.drain();
    CHECK(token.stop_requested());
  }
  SUBCASE("the end of the flow object") {
    auto mortal = std::make_unique<Flow>(b.loop);
    mortal->add([&](IAsyncSteps& asi) {
      token = stop_token_of(asi);
      asi.waitExternal();
    });
    mortal->execute();
    b.drain();
    mortal.reset();
    CHECK(token.stop_requested());
  }
  SUBCASE("success") {
    flow.add([&](IAsyncSteps& asi) {
          token = stop_token_of(asi);
          asi.success(1);
        })
        .add([](IAsyncSteps& asi) { asi.error("Later"); });
    flow.execute();
    b.drain();
    CHECK_FALSE(token.stop_requested());
    CHECK_FALSE(token.stop_possible());
    CHECK(b.unhandled == lines{"Later"});
  }
}

TEST_CASE_TEMPLATE("a step has one token, which setCancel() and setTimeout() do not replace", Flow, STEPS_FLOWS) {
  bench b;
  std::stop_token token;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.setCancel([] {});
    asi.setTimeout(1s);
    token = stop_token_of(asi);
    asi.setTimeout(2s);
    asi.setCancel([] {});
    CHECK(stop_token_of(asi) == token);
  });
  flow.execute();
  b.drain();
  flow.cancel();
  CHECK(token.stop_requested());
}

TEST_CASE_TEMPLATE("a step below has a token of its own, whose stop is not that of the step above", Flow, STEPS_FLOWS) {
  bench b;
  std::stop_token above;
  std::stop_token below;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    above = stop_token_of(asi);
    asi.add(
        [&](IAsyncSteps& inner) {
          below = stop_token_of(inner);
          inner.error("Broken");
        },
        [](IAsyncSteps& inner, ErrorCode) { inner.success(); });
    asi.add([](IAsyncSteps& inner) { inner.waitExternal(); });
  });
  flow.execute();
  b.drain();
  CHECK(below.stop_requested());
  CHECK_FALSE(above.stop_requested());
  flow.cancel();
  CHECK(above.stop_requested());
}

TEST_CASE("the token does not make the step wait") {
  bench b;
  bool next = false;
  steps::AsyncSteps flow{b.loop};
  flow.add([](IAsyncSteps& asi) { static_cast<void>(stop_token_of(asi)); }).add([&](IAsyncSteps&) { next = true; });
  flow.execute();
  b.drain();
  CHECK(next);
}

TEST_CASE("a stop callback may complete the wait that is ending, which changes nothing") {
  bench b;
  lines seen;
  std::optional<std::stop_callback<std::function<void()>>> callback;
  steps::AsyncSteps flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setTimeout(1ms);
        const auto token = stop_token_of(asi);
        callback.emplace(token, [done = asi.completion<>()] { done.success(); });
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.emplace_back(code);
        asi.success();
      });
  flow.execute();
  b.pass(5ms);
  CHECK(seen == lines{"Timeout"});
}

TEST_CASE("stop_token_of() outside a running step function is an InternalError") {
  bench b;
  steps::AsyncSteps flow{b.loop};
  CHECK_THROWS_AS(stop_token_of(flow), steps::Error);
  flow.add([](IAsyncSteps& asi) {
    asi.success();
    CHECK_THROWS_AS(stop_token_of(asi), steps::Error);
  });
  flow.execute();
  b.drain();
  CHECK(b.unhandled == lines{"InternalError"});
}

TEST_CASE("a token in a flow without room is an InternalError that names the limit") {
  bench b;
  using tiny = steps::NitroSteps<steps::nitro::MaxSteps<1>, steps::nitro::ArenaBytes<256>>;
  tiny flow{b.loop};
  lines seen;
  flow.add(
      [](IAsyncSteps& asi) {
        for (std::size_t room = 1024; room != 0; room /= 2) {
          try {
            static_cast<void>(asi.stack(room));
          } catch (const steps::Error&) {
            continue;
          }
        }
        static_cast<void>(stop_token_of(asi));
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.emplace_back(code);
        seen.emplace_back(asi.state().error_info());
        asi.success();
      });
  flow.execute();
  b.drain();
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] == "InternalError");
  CHECK(seen[1].find("ArenaBytes") != std::string::npos);
}

TEST_CASE_TEMPLATE("a stop request cancels the flow, on its loop's thread at once", Flow, STEPS_FLOWS) {
  bench b;
  bool cancelled = false;
  std::stop_source source;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) { asi.setCancel([&] { cancelled = true; }); });
  std::future<void> end = flow.promise();
  const cancel_on_stop link{flow, source.get_token()};
  b.drain();
  CHECK_FALSE(cancelled);
  source.request_stop();
  CHECK(cancelled);
  CHECK_THROWS_AS(end.get(), std::future_error);
}

TEST_CASE("a stop that was requested before cancels an executing flow before its first step") {
  bench b;
  std::stop_source source;
  source.request_stop();
  bool ran = false;
  steps::AsyncSteps flow{b.loop};
  flow.add([&](IAsyncSteps&) { ran = true; });
  flow.execute();
  const cancel_on_stop link{flow, source.get_token()};
  b.drain();
  CHECK_FALSE(ran);
}

TEST_CASE("after the link's end, and after the flow's, a stop request cancels nothing") {
  bench b;
  std::stop_source source;
  bool cancelled = false;
  steps::AsyncSteps flow{b.loop};
  flow.add([&](IAsyncSteps& asi) { asi.setCancel([&] { cancelled = true; }); });
  flow.execute();
  {
    const cancel_on_stop link{flow, source.get_token()};
  }
  b.drain();
  source.request_stop();
  CHECK_FALSE(cancelled);

  std::stop_source second;
  steps::AsyncSteps ended{b.loop};
  ended.add([](IAsyncSteps&) {});
  ended.execute();
  const cancel_on_stop link{ended, second.get_token()};
  b.drain();
  second.request_stop();
  b.drain();
}

TEST_CASE("a step may request the stop of its own flow, whose cancel handler ends the link") {
  bench b;
  std::stop_source source;
  std::optional<cancel_on_stop> link;
  bool next = false;
  steps::AsyncSteps flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
        asi.setCancel([&] { link.reset(); });
        source.request_stop();
      })
      .add([&](IAsyncSteps&) { next = true; });
  flow.execute();
  link.emplace(flow, source.get_token());
  b.drain();
  CHECK_FALSE(next);
  CHECK_FALSE(link.has_value());
}

#else

TEST_CASE("this standard library has no stop_token: the header is empty") { CHECK(true); }

#endif
