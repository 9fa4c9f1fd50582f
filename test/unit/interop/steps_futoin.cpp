// SPDX-License-Identifier: BSL-1.0
//
// Programs written for the FutoIn C++ API, unchanged but for the include.
#include "steps/interop/futoin.hpp"

// Programs use assert without a header of their own, as those of FutoIn's README do.
static_assert([] {
  assert(sizeof(futoin::string) != 0);
  return true;
}());

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/event_loop.hpp"
#include "async/manual_clock.hpp"

namespace ri = futoin::ri;
using futoin::ErrorCode;
using futoin::IAsyncSteps;

namespace futoin {
namespace errors {
constexpr RawErrorCode OwnError = "OwnError";
}
}  // namespace futoin

namespace {

using order = std::vector<int>;

void drain(ri::AsyncTool& at) {
  while (at.iterate().have_work) {
  }
}

void business_logic(IAsyncSteps& asi) {
  asi.state("order", order{});
  auto log = [](IAsyncSteps& where, int what) { where.state<order>("order").push_back(what); };

  asi.add([log](IAsyncSteps& inner) { log(inner, 1); });
  asi.add(
      [log](IAsyncSteps& inner) {
        inner.add([](IAsyncSteps& innermost) { innermost.error("MyError", "Some description"); });
        log(inner, 2);
      },
      [log](IAsyncSteps& inner, ErrorCode code) {
        if (code == "MyError" && inner.state().error_info() == "Some description") {
          log(inner, 3);
          inner();
        } else {
          inner.error(futoin::errors::InternalError);
        }
      });
  asi.add([](IAsyncSteps& inner) { inner(123, true, "SomeString", std::vector<int>({1, 2, 3})); });
  asi.add([log](IAsyncSteps& inner, int a, bool b, futoin::string&& c, std::vector<int>&& d) {
    if (a == 123 && b && c == "SomeString" && d[2] == 3) log(inner, 4);
  });
  asi.loop(
      [log](IAsyncSteps& inner) {
        inner.repeat(3, [log](IAsyncSteps& sub, size_t i) {
          log(sub, 50 + static_cast<int>(i));
          if (i == 1) sub.breakLoop("OUTER");
        });
      },
      "OUTER");
  asi.forEach(std::list<futoin::string>{"1", "2"}, [log](IAsyncSteps& inner, size_t i, const futoin::string& v) {
    if (v == std::to_string(i + 1)) log(inner, 60 + static_cast<int>(i));
  });
  std::map<futoin::string, futoin::string> map{{"a", "b"}};
  asi.forEach(map, [log](IAsyncSteps& inner, const futoin::string& key, futoin::string& value) {
    if (key + value == "ab") log(inner, 7);
  });
  asi.add(
      [](IAsyncSteps& inner) {
        inner.setTimeout(std::chrono::milliseconds{1});
        inner.loop([](IAsyncSteps&) {});
      },
      [log](IAsyncSteps& inner, ErrorCode code) {
        if (code == futoin::errors::Timeout) {
          log(inner, 8);
          inner();
        }
      });
  auto& p = asi.parallel([log](IAsyncSteps& inner, ErrorCode code) {
    if (code == "SomeError") log(inner, 9);
    inner.success();
  });
  p.add([log](IAsyncSteps& inner) {
    log(inner, 91);
    inner.add([log](IAsyncSteps& sub) { log(sub, 93); });
  });
  p.add([log](IAsyncSteps& inner) {
    log(inner, 92);
    inner.add([log](IAsyncSteps& sub) {
      log(sub, 94);
      sub.error("SomeError");
    });
  });
  asi.add([](IAsyncSteps& inner) {
    auto steps = inner.newInstance();
    steps->add([](IAsyncSteps& sub) { sub.success(10); });
    inner.await(steps->promise<int>());
    inner.state()["some_obj"] = std::shared_ptr<IAsyncSteps>(std::move(steps));
  });
  asi.add([log](IAsyncSteps& inner, int from_promise) {
    auto& number = inner.stack<int>(from_promise);
    inner.add([log, &number](IAsyncSteps& sub) { log(sub, number); });
  });
}

template <class Flow>
struct counting_flows {
  std::atomic<std::size_t> count{0};
  std::size_t most{0};

  void operator()(IAsyncSteps& asi) {
    ++count;
    asi.relinquish();
    asi.add([this](IAsyncSteps&) {
      most = (std::max)(most, count.load());
      --count;
    });
  }
};

}  // namespace

static_assert(std::is_same_v<futoin::ISync, steps::ISync>);
static_assert(std::is_base_of_v<futoin::Error, futoin::ExtError>);
static_assert(std::is_same_v<ri::NitroSteps<ri::nitro::MaxSteps<8>, ri::nitro::MaxExtended<1>>,
                             ri::NitroSteps<ri::nitro::MaxExtended<7>, ri::nitro::MaxSteps<8>>>);

TEST_CASE_TEMPLATE("a tour of the FutoIn API", Flow, ri::AsyncSteps, ri::NitroSteps<>,
                   ri::NitroSteps<ri::nitro::MaxSteps<32>, ri::nitro::MaxExtended<8>, ri::nitro::ErrorCodeMaxSize<32>,
                                  ri::nitro::BurstSize<10>>) {
  ri::AsyncTool at{[]() {}};
  Flow asi{at};
  std::string unhandled;
  asi.state().set_unhandled_error([&](ErrorCode code) noexcept { unhandled = code; });
  business_logic(asi);
  asi.execute();
  drain(at);
  CHECK(unhandled == "");
  CHECK(asi.template state<order>("order") == order{1, 2, 3, 4, 50, 51, 60, 61, 7, 8, 91, 92, 93, 94, 9, 10});
}

TEST_CASE_TEMPLATE("a mutex lets one flow in at a time", Flow, ri::AsyncSteps, ri::NitroSteps<>) {
  ri::Mutex mtx;
  ri::ThreadlessMutex two{2, 8};
  ri::AsyncTool::Params prm;
  prm.mempool_mutex = false;
  ri::AsyncTool at{[]() {}, prm};
  for (futoin::ISync* object : {static_cast<futoin::ISync*>(&mtx), static_cast<futoin::ISync*>(&two)}) {
    counting_flows<Flow> f;
    std::deque<Flow> flows;
    for (int i = 0; i < 5; ++i) {
      flows.emplace_back(at);
      flows.back().sync(*object, std::ref(f));
      flows.back().execute();
    }
    drain(at);
    CHECK(f.count == 0);
    CHECK(f.most == (object == &mtx ? 1 : 2));
  }
}

TEST_CASE("a throttle takes the loop, and by default lets everybody wait") {
  ri::AsyncTool at{[]() {}};
  ri::Throttle throttle{at, 2, std::chrono::milliseconds(20)};
  ri::ThreadlessThrottle strict{at, 1, std::chrono::milliseconds(1000), 0};
  std::deque<ri::AsyncSteps> flows;
  int passed = 0;
  int rejected = 0;
  for (int i = 0; i < 5; ++i) {
    flows.emplace_back(at);
    flows.back().add(
        [&](IAsyncSteps& asi) {
          asi.sync(throttle, [&](IAsyncSteps&) { ++passed; });
          asi.sync(strict, [](IAsyncSteps&) {});
        },
        [&](IAsyncSteps& asi, ErrorCode code) {
          if (code == futoin::errors::DefenseRejected) ++rejected;
          asi();
        });
    flows.back().execute();
  }
  const auto start = std::chrono::steady_clock::now();
  drain(at);
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(39));
  CHECK(passed == 5);
  CHECK(rejected == 4);
}

TEST_CASE("a flow that is cancelled as a throttle or limiter lets it in passes its entry on") {
  async::manual_clock clock;
  async::event_loop loop(clock);
  const std::chrono::milliseconds period{100};
  ri::Throttle throttle{loop, 1, period};
  ri::Limiter limiter(loop, {9, 9, 1, period, 9});
  for (futoin::ISync* object : {static_cast<futoin::ISync*>(&throttle), static_cast<futoin::ISync*>(&limiter)}) {
    order passed;
    std::deque<ri::AsyncSteps> flows;
    for (int i = 0; i < 3; ++i) {
      flows.emplace_back(loop);
      flows.back().sync(*object, [&passed, i](IAsyncSteps&) { passed.push_back(i); });
      flows.back().execute();
    }
    while (loop.iterate().delay.count() == 0) {
    }
    CHECK(passed == order{0});
    loop.deferred(period, [&] { flows[1].cancel(); });
    clock.advance(period * 3 / 2);
    while (loop.iterate().have_work) {
    }
    CHECK(passed == order{0, 2});
  }
}

TEST_CASE("a limiter is made from its parameters") {
  ri::AsyncTool at{[]() {}};
  ri::Limiter::Params prm;
  prm.concurrent = 1;
  prm.rate = 2;
  prm.period = std::chrono::milliseconds(5000);
  ri::Limiter limiter(at, prm);
  ri::AsyncSteps asi{at};
  int passed = 0;
  std::string code;
  asi.repeat(3, [&](IAsyncSteps& inner, size_t) {
    inner.add([&](IAsyncSteps& sub) { sub.sync(limiter, [&](IAsyncSteps&) { ++passed; }); });
  });
  asi.state().set_unhandled_error([&](ErrorCode error) noexcept { code = error; });
  asi.execute();
  drain(at);
  CHECK(passed == 2);
  CHECK(code == "DefenseRejected");
}

TEST_CASE("a limiter's period and the delay of iterate() are milliseconds") {
  ri::AsyncTool at{[]() {}};
  CHECK(ri::AsyncTool::BURST_COUNT == 256);
  ri::AsyncTool::CycleResult idle = at.iterate();
  CHECK_FALSE(idle.have_work);
  CHECK(idle.delay.count() == 0);
  auto handle = at.deferred(std::chrono::seconds(100), []() {});
  const ri::AsyncTool::CycleResult armed = at.iterate();
  CHECK(armed.have_work);
  CHECK(armed.delay > std::chrono::seconds(10));  // even on a machine that stood still
  CHECK(armed.delay.count() <= 100'000);          // although the timer may be a tick late
  const auto rounded = at.iterate().delay;
  CHECK(rounded >= at.loop().iterate().delay - std::chrono::microseconds(66));  // no busy waiting for the rest
  handle.cancel();

  ri::Limiter::Params prm{1, 0, 1, ri::Limiter::milliseconds{3'600'000}, 0};
  prm.period = decltype(prm.period){3'600'000};
  const ri::Limiter::size_type rate = prm.rate;
  ri::Limiter limiter(at, prm);
  std::deque<ri::AsyncSteps> flows;
  std::size_t passed = 0;
  for (int i = 0; i < 3; ++i) {
    at.immediate([&]() {
      flows.emplace_back(at);
      flows.back().add([&](IAsyncSteps& asi) { asi.sync(limiter, [&](IAsyncSteps&) { ++passed; }); },
                       [](IAsyncSteps& asi, ErrorCode) { asi(); });
      flows.back().execute();
    });
    drain(at);
  }
  CHECK(passed == rate);
}

TEST_CASE("branches of a NitroSteps do not share its limits") {
  ri::AsyncTool at{[]() {}};
  ri::NitroSteps<> flow{at};
  int ended = 0;
  flow.add([&](IAsyncSteps& asi) {
    auto& group = asi.parallel();
    int& count = group.stack<int>(0);
    for (int i = 0; i != 20; ++i) {
      group.add([&count](IAsyncSteps& branch) {
        branch.setTimeout(std::chrono::seconds(10));
        branch.setCancel([](IAsyncSteps&) {});
        branch.stack<int>(1);
        for (int k = 0; k != 10; ++k) branch.add([&count](IAsyncSteps&) { ++count; });
      });
    }
    asi.add([&](IAsyncSteps&) { ended = count; });
  });
  flow.execute();
  drain(at);
  CHECK(ended == 200);
}

TEST_CASE("a tool is kept by its own type, and handed on as the interface") {
  ri::AsyncTool::PokeCallback poke = [] {};
  const ri::AsyncTool poked(poke);
  ri::AsyncTool of_none(ri::AsyncTool::PokeCallback{});
  int polled = 0;
  of_none.immediate([&polled] { ++polled; });
  of_none.iterate();
  CHECK(polled == 1);
  const ri::Mutex::size_type most = 2;
  ri::Mutex two = {most, 8};
  static_cast<void>(two);
  const auto owned = std::make_unique<ri::AsyncTool>([]() {});
  futoin::IAsyncTool* const tool = &owned->loop();
  CHECK(tool == &static_cast<futoin::IAsyncTool&>(*owned));
  ri::AsyncSteps flow{*tool};
  int ran = 0;
  flow.add([&](IAsyncSteps& asi) { ran += &asi.tool() == tool; });
  flow.execute();
  drain(*owned);
  CHECK(ran == 1);
}

TEST_CASE("an error from outside runs the handler before the next callback, not within the call") {
  ri::AsyncTool at{[]() {}};
  ri::AsyncSteps flow{at};
  IAsyncSteps* step = nullptr;
  std::string seen;
  flow.add(
      [&](IAsyncSteps& asi) {
        step = &asi;
        asi.waitExternal();
      },
      [&](IAsyncSteps& asi, ErrorCode) {
        seen += "handler ";
        asi();
      });
  flow.execute();
  drain(at);
  at.immediate([&]() {
    try {
      step->error("MyError");
    } catch (...) {
      seen += "thrown ";
    }
    at.immediate([&]() { seen += "later"; });
  });
  drain(at);
  CHECK(seen == "thrown handler later");
}

TEST_CASE("a limiter without parameters lets one flow in a second, and none waits") {
  ri::AsyncTool at{[]() {}};
  ri::Limiter limiter(at, {});
  ri::ThreadlessLimiter other;
  for (futoin::ISync* object : {static_cast<futoin::ISync*>(&limiter), static_cast<futoin::ISync*>(&other)}) {
    int passed = 0;
    std::string why;
    std::deque<ri::AsyncSteps> flows;
    for (int i = 0; i < 3; ++i) {
      flows.emplace_back(at);
      flows.back().add([&](IAsyncSteps& asi) { asi.sync(*object, [&](IAsyncSteps&) { ++passed; }); },
                       [&](IAsyncSteps& asi, ErrorCode) {
                         why = asi.state().error_info();
                         asi();
                       });
      flows.back().execute();
    }
    drain(at);
    CHECK(passed == 1);
    CHECK(why == "Throttle queue limit");
  }
}

TEST_CASE("a flow that finds the queue full learns whose limit it was") {
  ri::AsyncTool at{[]() {}};
  ri::Mutex mutex(1, 0);
  ri::Throttle throttle(at, 1, std::chrono::seconds(100), 0);
  ri::Limiter::Params params;
  params.rate = 10;
  ri::Limiter limiter(at, params);
  const auto rejected = [&at](futoin::ISync& object) {
    std::string why;
    std::deque<ri::AsyncSteps> flows;
    for (int i = 0; i < 2; ++i) {
      flows.emplace_back(at);
      flows.back().add([&](IAsyncSteps& asi) { asi.sync(object, [](IAsyncSteps& inside) { inside.waitExternal(); }); },
                       [&](IAsyncSteps& asi, ErrorCode) {
                         why = asi.state().error_info();
                         asi();
                       });
      flows.back().execute();
    }
    while (at.iterate().have_work && why.empty()) {
    }
    return why;
  };
  CHECK(rejected(mutex) == "Mutex queue limit");
  CHECK(rejected(throttle) == "Throttle queue limit");
  CHECK(rejected(limiter) == "Mutex queue limit");
}

TEST_CASE("a callback is copied, and memory pools are accepted") {
  ri::AsyncTool at{[]() {}};
  futoin::GlobalMemPool::set_thread_default(at.mem_pool());
  int calls = 0;
  const ri::AsyncTool::Callback callback = [&calls] { ++calls; };
  ri::AsyncTool::Callback copy = callback;
  at.immediate(callback);
  at.immediate(copy);
  at.deferred(std::chrono::milliseconds(0), callback);
  futoin::IMemPool& pool = at.mem_pool(sizeof(int), true);
  pool.release_memory();
  drain(at);
  CHECK(calls == 3);
  futoin::GlobalMemPool::reset_thread_default();
}

TEST_CASE("errors are thrown, compared and caught") {
  ri::AsyncTool at;
  const auto fail = [&](auto raise) {
    ri::AsyncSteps asi{at};
    asi.add(raise);
    std::future<void> result = asi.promise();
    try {
      result.get();
    } catch (const futoin::ExtError& e) {
      return std::string(e.what()) + ": " + e.error_info();
    } catch (const futoin::Error& e) {
      return std::string(e.what());
    } catch (const std::exception& e) {
      return std::string("std ") + e.what();
    }
    return std::string();
  };
  CHECK(fail([](IAsyncSteps&) { throw futoin::Error(futoin::errors::OwnError); }) == "OwnError");
  CHECK(fail([](IAsyncSteps&) { throw futoin::ExtError("OwnError", "why"); }) == "OwnError: why");
  CHECK(fail([](IAsyncSteps& asi) { asi.error(futoin::errors::SecurityError); }) == "SecurityError");
  CHECK(fail([](IAsyncSteps&) { throw std::runtime_error("other"); }) == "std other");

  const ErrorCode code = futoin::errors::OwnError;
  const futoin::RawErrorCode raw = code;
  CHECK(std::strcmp(raw, "OwnError") == 0);
  CHECK(code == futoin::errors::OwnError);
  CHECK(code != futoin::errors::Timeout);
}

TEST_CASE("external callbacks, cancellation and callbacks of the tool") {
  ri::AsyncTool at{[]() {}};
  ri::AsyncSteps asi{at};
  bool cancelled = false;
  ri::AsyncTool::Handle handle;
  std::vector<int> seen;
  asi.add(
      [&](IAsyncSteps& inner) {
        handle = inner.tool().deferred(std::chrono::milliseconds(1), [&]() {
          try {
            inner.error("ExternalError");
          } catch (...) {
            seen.push_back(1);
          }
        });
        inner.setCancel([&](IAsyncSteps&) { handle.cancel(); });
      },
      [&](IAsyncSteps& inner, ErrorCode code) {
        if (code == "ExternalError") inner(2);
      });
  asi.add([&](IAsyncSteps& inner, int result) {
    seen.push_back(result);
    inner.setCancel([&](IAsyncSteps&) { cancelled = true; });
    inner.waitExternal();
  });
  asi.execute();
  for (int i = 0; i < 2'000'000 && seen.size() < 2; ++i) at.iterate();
  CHECK(seen == std::vector<int>{1, 2});
  if (handle) seen.clear();
  futoin::IAsyncTool& tool = asi.tool();
  CHECK(tool.is_same_thread());
  asi.cancel();
  CHECK(cancelled);
  CHECK(futoin::any_cast<int>(asi.state()["new"] = futoin::any(5)) == 5);
  asi.state("text", "kept as a string");
  CHECK(asi.state<std::string>("text") == "kept as a string");
  CHECK(asi.state("text", futoin::string("not set again")) == "kept as a string");
  CHECK_THROWS_AS(asi.state<int>("text"), std::bad_cast);
}

TEST_CASE("strings are those of the standard library") {
  CHECK(futoin::to_std(futoin::to_futoin("text")) == "text");
  int one = 0;
  int two = 0;
  CHECK(futoin::key_from_pointer(&one).size() == sizeof(&one));
  CHECK(futoin::key_from_pointer(&one) != futoin::key_from_pointer(&two));
}
