// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <any>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "support/flows.hpp"

// Limits of NitroSteps: an exceeded one is InternalError with its name, at the step that exceeded it, and memory that
// is given back can be taken again. Rule 35 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::NitroSteps;
using testing::bench;
using testing::counted;
using testing::lines;
using namespace std::chrono_literals;
namespace nitro = steps::nitro;

// Programs rely on the default limits, and steps/README.md names the size that they lead to.
static_assert(std::is_same_v<nitro::defaults,
                             std::tuple<nitro::MaxSteps<16>, nitro::MaxTimeouts<4>, nitro::MaxCancels<4>,
                                        nitro::MaxStackAllocs<8>, nitro::MaxParallel<4>, nitro::BranchBytes<256>,
                                        nitro::MaxResultBytes<128>, nitro::MaxStateBytes<512>, nitro::MaxErrorText<128>,
                                        nitro::BurstSize<100>, nitro::MayAllocate<0>>>);
#if defined(__linux__) && defined(__LP64__) && defined(__GLIBCXX__)
static_assert(sizeof(NitroSteps<>) == 8768);
#endif

namespace {

std::string join(const lines& all) {
  std::string text;
  for (const std::string& line : all) text += line + "\n";
  return text;
}

/// Runs a step with the function `f` twice, with a handler that records the error and recovers. Returns the records,
/// and "after" for the step behind it.
template <class Flow, class F>
std::string errors_of(F f) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  for (int i = 0; i < 2; ++i) {
    flow.add(f, [&](IAsyncSteps& asi, ErrorCode code) {
      seen.push_back(std::string(code) + ": " + std::string(asi.state().error_info()));
      asi.success();
    });
    flow.add([&](IAsyncSteps&) { seen.push_back("after"); });
    flow.execute();
    b.pass(5ms);
    CHECK(flow);
    flow.cancel();
  }
  CHECK(b.unhandled.empty());
  CHECK(counted::alive == 0);
  return join(seen);
}

/// The same mistake in two executions.
std::string twice(const std::string& info) {
  return join({"InternalError: " + info, "after", "InternalError: " + info, "after"});
}
const std::string no_error = join({"after", "after"});

}  // namespace

TEST_CASE("rule 35: MaxSteps counts the steps that have not ended") {
  using flow_type = NitroSteps<nitro::MaxSteps<4>>;
  bool ran = false;
  const std::string seen = errors_of<flow_type>([&](IAsyncSteps& asi) {
    // Two at the root level, two here; the fifth is too many.
    for (int i = 0; i < 3; ++i) asi.add([&ran, object = counted()](IAsyncSteps&) { ran = true; });
  });
  CHECK(seen == twice("the flow exceeds nitro::MaxSteps"));
  CHECK_FALSE(ran);

  bench b;
  int steps_run = 0;
  flow_type flow{b.loop};
  flow.repeat(100, [&](IAsyncSteps& asi, std::size_t) {
    for (int i = 0; i < 3; ++i) asi.add([&](IAsyncSteps&) { ++steps_run; });
  });
  flow.execute();
  b.drain();
  CHECK(steps_run == 300);
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 35: MaxSteps exceeded while the flow is built is an error of the execution") {
  bench b;
  NitroSteps<nitro::MaxSteps<2>> flow{b.loop};
  int ran = 0;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3; ++i) flow.add([&, object = counted()](IAsyncSteps&) { ++ran; });
    flow.execute();
    b.drain();
    CHECK(b.unhandled == lines(static_cast<std::size_t>(round) + 1, "InternalError"));
    CHECK(flow.state().error_info() == "the flow exceeds nitro::MaxSteps");
  }
  CHECK(ran == 0);
  for (int i = 0; i < 2; ++i) flow.add([&](IAsyncSteps&) { ++ran; });
  flow.execute();
  b.drain();
  CHECK(ran == 2);
  CHECK(counted::alive == 0);
}

TEST_CASE("rule 35: MaxTimeouts") {
  using flow_type = NitroSteps<nitro::MaxTimeouts<2>>;
  const auto nest = [](auto& self, IAsyncSteps& asi, int depth) -> void {
    asi.setTimeout(1h);
    asi.setTimeout(2h);  // replaces, and counts once
    asi.setDeadline(asi.tool().now() + 2h);
    if (depth > 1) {
      asi.add([&self, depth](IAsyncSteps& inner) { self(self, inner, depth - 1); });
    } else {
      asi.success();
    }
  };
  CHECK(errors_of<flow_type>([&](IAsyncSteps& asi) { nest(nest, asi, 3); }) ==
        twice("the flow exceeds nitro::MaxTimeouts"));
  CHECK(errors_of<flow_type>([&](IAsyncSteps& asi) { nest(nest, asi, 2); }) == no_error);
}

TEST_CASE("rule 35: MaxCancels") {
  using flow_type = NitroSteps<nitro::MaxCancels<2>>;
  int cancelled = 0;
  const auto nest = [&](auto& self, IAsyncSteps& asi, int depth) -> void {
    asi.setCancel([&cancelled, object = counted()] { ++cancelled; });
    if (depth > 1) {
      asi.add([&self, depth](IAsyncSteps& inner) { self(self, inner, depth - 1); });
    } else {
      asi.success();
    }
  };
  CHECK(errors_of<flow_type>([&](IAsyncSteps& asi) { nest(nest, asi, 3); }) ==
        twice("the flow exceeds nitro::MaxCancels"));
  CHECK(cancelled == 4);
  CHECK(errors_of<flow_type>([&](IAsyncSteps& asi) { nest(nest, asi, 2); }) == no_error);
  CHECK(cancelled == 4);
}

TEST_CASE("rule 35: MaxStackAllocs, also when the exception is swallowed") {
  using flow_type = NitroSteps<nitro::MaxStackAllocs<2>>;
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          asi.stack<counted>();
          asi.stack(16);
          asi.stack<counted>();
        }) == twice("the flow exceeds nitro::MaxStackAllocs"));
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          try {
            for (int i = 0; i < 3; ++i) asi.stack(16);
          } catch (const steps::Error&) {
            asi.success();
          }
        }) == twice("the flow exceeds nitro::MaxStackAllocs"));
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          for (int i = 0; i < 4; ++i) {
            asi.add([](IAsyncSteps& inner) {
              inner.stack<counted>();
              inner.stack<int>(1);
            });
          }
        }) == no_error);
}

TEST_CASE("rule 35: an object or a step whose constructor has thrown does not count") {
  struct refusing {
    refusing() = default;
    refusing(const refusing&) { throw steps::Error("Refused", ""); }
    void operator()(IAsyncSteps&) const {}
  };
  const refusing pattern;
  const std::string expected = join({"Refused: ", "after", "Refused: ", "after"});
  CHECK(errors_of<NitroSteps<nitro::MaxStackAllocs<1>>>([&](IAsyncSteps& asi) { asi.stack<refusing>(pattern); }) ==
        expected);
  CHECK(errors_of<NitroSteps<nitro::MaxCancels<1>>>([&](IAsyncSteps& asi) { asi.setCancel(pattern); }) == expected);
  CHECK(errors_of<NitroSteps<nitro::MaxSteps<3>>>([&](IAsyncSteps& asi) {
          CHECK_THROWS_AS(asi.add(pattern), steps::Error);
          asi.add(pattern);
        }) == expected);
}

TEST_CASE("rule 35: a step that is not added, as the copy of its function has ended the step around, does not count") {
  struct ending {
    explicit ending(IAsyncSteps& step) : asi(&step) {}
    ending(const ending& other) : asi(other.asi) { asi->success(); }
    void operator()(IAsyncSteps&) const {}
    IAsyncSteps* asi;
  };
  CHECK(errors_of<NitroSteps<nitro::MaxSteps<3>>>([](IAsyncSteps& asi) {
          const ending function(asi);
          asi.add(function);
        }) == twice("add() after success()"));
}

TEST_CASE("rule 35: MaxParallel counts the branches that have not ended") {
  using flow_type = NitroSteps<nitro::MaxParallel<2>>;
  bool ran = false;
  CHECK(errors_of<flow_type>([&](IAsyncSteps& asi) {
          auto& p = asi.parallel();
          for (int i = 0; i < 3; ++i) p.add([&ran, object = counted()](IAsyncSteps&) { ran = true; });
        }) == twice("the flow exceeds nitro::MaxParallel"));
  CHECK_FALSE(ran);
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          for (int i = 0; i < 2; ++i) {
            asi.add([](IAsyncSteps& inner) {
              auto& p = inner.parallel();
              p.add([](IAsyncSteps&) {});
              p.add([](IAsyncSteps&) {});
            });
          }
        }) == no_error);
  CHECK(errors_of<NitroSteps<nitro::MaxParallel<0>>>([](IAsyncSteps& asi) {
          asi.parallel().add([](IAsyncSteps&) {});
        }) == twice("the flow exceeds nitro::MaxParallel"));
}

TEST_CASE("rule 35: ArenaBytes: steps, objects, handlers and timers share them") {
  using flow_type = NitroSteps<nitro::MaxSteps<100>, nitro::MaxTimeouts<100>, nitro::MaxCancels<100>,
                               nitro::MaxStackAllocs<100>, nitro::ArenaBytes<512>>;
  const std::string expected = twice("the flow exceeds nitro::ArenaBytes");
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          for (int i = 0; i < 20; ++i) asi.add([object = counted()](IAsyncSteps&) {});
        }) == expected);
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          asi.add([big = std::array<char, 600>()](IAsyncSteps&) { CHECK(big[0] == 1); });
        }) == expected);
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) { asi.stack(600); }) == expected);
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          for (int i = 0; i < 20; ++i) asi.stack<counted>();
        }) == expected);
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          asi.setCancel([big = std::array<char, 600>()](IAsyncSteps&) { CHECK(big[0] == 1); });
        }) == expected);
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          asi.stack(320);
          asi.setTimeout(1h);
          asi.add([](IAsyncSteps& inner) { inner.setTimeout(1h); });
        }) == expected);
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          asi.stack(200);
          asi.completion();
          asi.add([](IAsyncSteps& inner) {
            inner.stack(sizeof(void*) == 8 ? 100 : 200);
            inner.completion();
          });
        }) == expected);
}

TEST_CASE("rule 35: BranchBytes limits the steps of a branch, and the parallel's handler sees the error") {
  using flow_type = NitroSteps<nitro::MaxSteps<100>, nitro::BranchBytes<128>>;
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          asi.parallel().add([](IAsyncSteps& branch) {
            for (int i = 0; i < 8; ++i) branch.add([](IAsyncSteps&) {});
          });
        }) == twice("the branch exceeds nitro::BranchBytes"));
}

TEST_CASE("rule 35: MaxResultBytes") {
  using flow_type = NitroSteps<nitro::MaxResultBytes<64>>;
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) { asi.success(std::array<char, 65>()); }) ==
        twice("the results exceed nitro::MaxResultBytes"));
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) { asi.success(std::array<char, 64>()); }) == no_error);
}

TEST_CASE("rule 35: results of any alignment fit where there is room to align them") {
  struct alignas(64) aligned {
    int value = 5;
  };
  const auto pass = [](IAsyncSteps& asi) {
    asi.successStep(aligned());
    asi.add([](IAsyncSteps& inner, const aligned& a) {
      if (reinterpret_cast<std::uintptr_t>(&a) % 64 != 0 || a.value != 5) inner.error("Misplaced");
    });
  };
  CHECK(errors_of<NitroSteps<>>(pass) == no_error);
  CHECK(errors_of<NitroSteps<nitro::BranchBytes<1024>>>([pass](IAsyncSteps& asi) { asi.parallel().add(pass); }) ==
        no_error);
  CHECK(errors_of<NitroSteps<nitro::MaxResultBytes<32>>>(pass) == twice("the results exceed nitro::MaxResultBytes"));
}

TEST_CASE("rule 35: MaxStateBytes") {
  using flow_type = NitroSteps<nitro::MaxStateBytes<256>>;
  bench b;
  lines seen;
  flow_type flow{b.loop};
  flow.add(
      [](IAsyncSteps& asi) {
        for (int i = 0; i < 10; ++i) asi.state()["key " + std::to_string(i)] = i;
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.push_back(std::string(code) + ": " + std::string(asi.state().error_info()));
        CHECK(asi.state<int>("key 0") == 0);
        asi.success();
      });
  flow.execute();
  b.drain();
  CHECK(join(seen) == "InternalError: the state exceeds nitro::MaxStateBytes\n");
  CHECK(b.unhandled.empty());
}

TEST_CASE("rule 35: MaxErrorText cuts codes and infos, it loses none") {
  using flow_type = NitroSteps<nitro::MaxErrorText<8>>;
  CHECK(errors_of<flow_type>([](IAsyncSteps& asi) {
          asi.errorNoThrow(std::string("a code that is long"), "an info that is long");
        }) == join({"a code t: an info ", "after", "a code t: an info ", "after"}));
}

TEST_CASE("rule 35: BurstSize is how many steps run before others have their turn") {
  bench b;
  lines seen;
  NitroSteps<nitro::BurstSize<2>> one{b.loop};
  NitroSteps<nitro::BurstSize<3>> two{b.loop};
  for (int i = 0; i < 4; ++i) {
    one.add([&](IAsyncSteps&) { seen.push_back("1"); });
    two.add([&](IAsyncSteps&) { seen.push_back("2"); });
  }
  one.execute();
  two.execute();
  b.drain();
  CHECK(seen == lines{"1", "1", "2", "2", "2", "1", "1", "2"});
}

TEST_CASE("limits may be given in any order; those not given have their default") {
  bench b;
  NitroSteps<nitro::MaxTimeouts<0>, nitro::MaxSteps<1>> flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.stack<counted>(); });
  flow.execute();
  b.drain();
  CHECK(b.unhandled.empty());
  static_assert(sizeof(NitroSteps<nitro::MaxSteps<4>, nitro::MaxParallel<0>>) <
                sizeof(NitroSteps<nitro::MaxSteps<8>, nitro::MaxParallel<2>>));
}

TEST_CASE("rule 35: a limit that is exceeded after an error changes nothing about that error") {
  bench b;
  lines seen;
  NitroSteps<nitro::MaxStackAllocs<0>> flow{b.loop};
  flow.add(
      [](IAsyncSteps& asi) {
        asi.errorNoThrow("E");
        asi.stack<int>(1);
      },
      testing::noting(seen));
  flow.execute();
  b.drain();
  CHECK(seen == lines{"E: "});
}

TEST_CASE("rule 35: a cancel handler takes the place of the one that it replaces") {
  struct not_copied {
    not_copied() = default;
    not_copied(const not_copied&) { throw 1; }
    void operator()() const {}
  };
  bench b;
  lines seen;
  NitroSteps<nitro::MaxCancels<1>> flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        for (const char* name : {"one", "two", "three"}) {
          for (int i = 0; i < 1000; ++i) {
            asi.setCancel([text = std::string(100, 'x')] {});
            asi.setCancel([&seen, name] { seen.push_back(name); });
          }
        }
        const not_copied refused;
        CHECK_THROWS_AS(asi.setCancel(refused), int);
        asi.add([](IAsyncSteps& inner) { inner.setCancel([] {}); }, testing::noting(seen));
        asi.add([](IAsyncSteps& inner) { inner.error("E"); });
      },
      testing::noting(seen));
  flow.add([&](IAsyncSteps& asi) {
    asi.setCancel([&] { seen.push_back("free again"); });
    asi.error("F");
  });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"InternalError: the flow exceeds nitro::MaxCancels", "three", "E: ", "free again"});
  CHECK(b.unhandled == lines{"F"});
}

TEST_CASE_TEMPLATE("rule 35: a burst that is longer than any is one", Flow, NitroSteps<nitro::BurstSize<0xFFFF>>,
                   NitroSteps<nitro::BurstSize<0x10000>>, NitroSteps<nitro::BurstSize<0xFFFFFFFF>>) {
  bench b;
  std::size_t rounds = 0;
  Flow flow{b.loop};
  flow.repeat(1000, [&](IAsyncSteps&, std::size_t) { ++rounds; });
  flow.execute();
  b.loop.iterate();
  CHECK(rounds == 1000);
}

TEST_CASE("rule 35: the label of a loop takes memory of the flow") {
  bench b;
  lines seen;
  NitroSteps<nitro::ArenaBytes<512>> flow{b.loop};
  const std::string label(400, 'x');
  const auto once = [&](IAsyncSteps& asi) {
    seen.push_back("body");
    asi.breakLoop(label);
  };
  flow.loop(once, label);
  flow.execute();
  b.drain();
  CHECK(seen == lines{"body"});

  seen.clear();
  flow.add([&](IAsyncSteps& asi) { asi.loop(once, label + label); }, testing::noting(seen));
  flow.execute();
  b.drain();
  CHECK(seen == lines{"InternalError: the flow exceeds nitro::ArenaBytes"});

  flow.loop(once, label + label);
  flow.execute();
  b.drain();
  CHECK(b.unhandled == lines{"InternalError"});
}
