// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string>

#include "support/alloc_counter.hpp"
#include "support/flows.hpp"

// NitroSteps with nitro::MayAllocate<1>: what does not fit into the object is in recycled blocks. Rule 35 of
// steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::NitroSteps;
using testing::alloc_counter;
using testing::bench;
namespace nitro = steps::nitro;

namespace {

using small =
    NitroSteps<nitro::MaxSteps<300>, nitro::MaxTimeouts<10>, nitro::MaxCancels<10>, nitro::MaxStackAllocs<100>,
               nitro::MaxParallel<50>, nitro::ArenaBytes<128>, nitro::MayAllocate<1>>;
static_assert(sizeof(small) <= 640);
static_assert(sizeof(NitroSteps<nitro::MayAllocate<1>>) < sizeof(NitroSteps<>) / 3);

}  // namespace

TEST_CASE("steps, results, branches, values and texts that do not fit into the object have blocks") {
  bench b;
  small flow{b.loop};
  int sum = 0;
  std::string seen;
  const std::string text(1'000, 't');
  for (int round = 0; round != 2; ++round) {
    flow.add([](IAsyncSteps& asi) {
      for (int i = 0; i != 90; ++i) asi.add([](IAsyncSteps& inner) { inner.success(std::array<int, 100>{1, 2}, 3); });
    });
    flow.add([&sum](IAsyncSteps& asi, const std::array<int, 100>& many, int three) {
      sum += many[1] + three;
      asi.stack<std::array<int, 200>>()[199] = 1;
      IAsyncSteps& branches = asi.parallel();
      for (int i = 0; i != 50; ++i) {
        branches.add([&sum](IAsyncSteps& branch) {
          for (int j = 0; j != 2; ++j) {
            branch.add([&sum](IAsyncSteps& inner) {
              inner.relinquish();
              inner.stack<std::array<int, 100>>();
              ++sum;
            });
          }
        });
        if (i == 20) branches.add([](IAsyncSteps& branch) { branch.state()["key of a branch"] = 1; });
        if (i == 20) ++i;
      }
      asi.state()["a key that takes a block of its own"] = std::string(100, 'v');
    });
    flow.add([&](IAsyncSteps& asi) { asi.error(text, text); },
             [&](IAsyncSteps& asi, ErrorCode code) {
               seen = code.c_str();
               seen += asi.state().error_info().str();
               asi.success();
             });
    flow.execute();
    b.drain();
    CHECK(flow);
    CHECK(seen == text + text);
    CHECK(sum == (round + 1) * (5 + 98));
  }
  CHECK(b.unhandled.empty());
}

TEST_CASE("the blocks go back with the flow, and steps that fit take none") {
  bench b;
  const alloc_counter counter;
  {
    small flow{b.loop};
    flow.add([](IAsyncSteps& asi) { asi.success(1); });
    flow.add([](IAsyncSteps&, int) {});
    flow.execute();
    b.drain();
  }
  CHECK(counter.live() == 0);
  static_cast<void>(async::detail::trim_blocks());
  const alloc_counter second;
  {
    small flow{b.loop};
    flow.add([](IAsyncSteps& asi) {
      asi.stack<std::array<int, 400>>();
      asi.state()["key"] = 1;
      asi.parallel().add([](IAsyncSteps& inner) { inner.waitExternal(); });
    });
    flow.execute();
    b.drain();
    CHECK(second.live() > 0);
  }
  static_cast<void>(async::detail::trim_blocks());
  CHECK(second.live() == 0);
}

TEST_CASE("limits of numbers hold in a flow that may allocate") {
  const auto error_of = [](auto step) {
    bench b;
    std::string seen;
    NitroSteps<nitro::MaxSteps<6>, nitro::MaxTimeouts<0>, nitro::MaxCancels<0>, nitro::MaxStackAllocs<1>,
               nitro::MaxParallel<2>, nitro::MayAllocate<1>>
        flow{b.loop};
    flow.add(step, [&seen](IAsyncSteps& asi, ErrorCode) {
      seen = asi.state().error_info().str();
      asi.success();
    });
    flow.execute();
    b.drain();
    return seen;
  };
  CHECK(error_of([](IAsyncSteps& asi) {
          for (int i = 0; i != 7; ++i) asi.add([](IAsyncSteps&) {});
        }) == "the flow exceeds nitro::MaxSteps");
  CHECK(error_of([](IAsyncSteps& asi) { asi.setTimeout(std::chrono::hours(1)); }) ==
        "the flow exceeds nitro::MaxTimeouts");
  CHECK(error_of([](IAsyncSteps& asi) { asi.setCancel([] {}); }) == "the flow exceeds nitro::MaxCancels");
  CHECK(error_of([](IAsyncSteps& asi) {
          asi.stack<int>();
          asi.stack<int>();
        }) == "the flow exceeds nitro::MaxStackAllocs");
  CHECK(error_of([](IAsyncSteps& asi) {
          IAsyncSteps& branches = asi.parallel();
          for (int i = 0; i != 3; ++i) branches.add([](IAsyncSteps&) {});
        }) == "the flow exceeds nitro::MaxParallel");
  CHECK(error_of([](IAsyncSteps& asi) {
          for (int i = 0; i != 2; ++i) {
            IAsyncSteps& branches = asi.parallel();
            branches.add([](IAsyncSteps&) {});
          }
        }).empty());
}
