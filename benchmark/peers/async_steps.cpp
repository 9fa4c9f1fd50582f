// SPDX-License-Identifier: BSL-1.0
//
// This project's flows: AsyncSteps and NitroSteps.
#include <async/event_loop.hpp>    // for event_loop
#include <async/manual_clock.hpp>  // for manual_clock
#include <steps/steps.hpp>         // for AsyncSteps, NitroSteps, Mutex

#include <algorithm>  // for min, max
#include <chrono>     // for seconds
#include <cstddef>    // for size_t
#include <cstdint>    // for uint32_t
#include <cstdlib>    // for abort
#include <deque>      // for deque
#include <optional>   // for optional
#include <string>     // for string
#include <vector>     // for vector

#include "../support/curves.hpp"           // for rounds_of
#include "../support/harness.hpp"          // for enroll, plan
#include "../support/machine.hpp"          // for wall_clock, resident_bytes
#include "../support/steps_workloads.hpp"  // for finished, flows_alive

namespace {

using steps::ErrorCode;
using steps::IAsyncSteps;

void drain(async::event_loop& loop) {
  while (loop.iterate().have_work) {
  }
}

template <class Flow>
bench::sample create(std::size_t flows) {
  async::event_loop loop;
  std::size_t done = 0;
  const auto begin = bench::wall_clock::now();
  for (std::size_t i = 0; i < flows; ++i) {
    Flow flow{loop};
    flow.add([&done](IAsyncSteps&) { ++done; });
    flow.execute();
    drain(loop);
  }
  return bench::finished(begin, done, flows);
}

/// `flows` flows, `together` of them alive at a time. `warm_up` more come first and do not count.
template <class Flow>
bench::sample alive(std::size_t flows, std::size_t together = bench::flows_alive, std::size_t warm_up = 0) {
  async::event_loop loop;
  std::vector<std::optional<Flow>> batch((std::min)(flows, together));
  std::size_t done = 0;
  std::size_t resident = 0;
  auto begin = bench::wall_clock::now();
  for (std::size_t left = flows + warm_up; left != 0;) {
    if (left == flows) begin = bench::wall_clock::now();
    const std::size_t size = (std::min)(left, together);
    for (std::size_t i = 0; i < size; ++i) {
      Flow& flow = batch[i].emplace(loop);
      flow.add([&done](IAsyncSteps& asi) {
        asi.relinquish();
        asi.add([&done](IAsyncSteps&) { ++done; });
      });
      flow.execute();
    }
    if (resident == 0) resident = bench::resident_bytes();
    drain(loop);
    for (std::optional<Flow>& flow : batch) flow.reset();
    left -= size;
  }
  bench::sample result = bench::finished(begin, done, flows + warm_up);
  result.figures["resident MB"] = static_cast<double>(resident) / 1e6;
  return result;
}

/// Flows that wait for an event from outside.
template <class Flow>
bench::sample waiting(std::size_t flows) {
  async::event_loop loop;
  std::size_t started = 0;
  const std::size_t before = bench::resident_bytes();
  std::deque<Flow> all;
  for (std::size_t i = 0; i < flows; ++i) {
    Flow& flow = all.emplace_back(loop);
    flow.add([&started](IAsyncSteps& asi) {
      ++started;
      asi.waitExternal();
    });
    flow.execute();
  }
  drain(loop);
  bench::sample result;
  result.figures["value"] = static_cast<double>(bench::resident_bytes() - before) / static_cast<double>(flows);
  if (started != flows) result.defect = "not all flows were started";
  return result;
}

template <class Flow>
bench::sample switches(std::size_t count) {
  async::event_loop loop;
  std::deque<Flow> batch;
  const std::size_t each = count / bench::flows_alive;
  std::size_t done = 0;
  const auto begin = bench::wall_clock::now();
  for (std::size_t i = 0; i < bench::flows_alive; ++i) {
    Flow& flow = batch.emplace_back(loop);
    flow.repeat(each, [&done](IAsyncSteps& asi, std::size_t) {
      ++done;
      asi.relinquish();
    });
    flow.execute();
  }
  const std::size_t resident = bench::resident_bytes();
  drain(loop);
  bench::sample result = bench::finished(begin, done, each * bench::flows_alive);
  result.figures["resident MB"] = static_cast<double>(resident) / 1e6;
  return result;
}

/// Runs one flow `runs` times; `build` adds its steps.
template <class Flow, class Build>
bench::sample again(std::size_t runs, const std::size_t& done, std::size_t expected, Build build) {
  async::event_loop loop;
  Flow flow{loop};
  const auto begin = bench::wall_clock::now();
  for (std::size_t i = 0; i < runs; ++i) {
    build(flow);
    flow.execute();
    drain(loop);
  }
  return bench::finished(begin, done, expected);
}

template <class Flow>
bench::sample chain(std::size_t count) {
  constexpr std::size_t length = 10;
  std::size_t done = 0;
  return again<Flow>(count / length, done, count / length * length, [&done](Flow& flow) {
    for (std::size_t i = 0; i < length; ++i) flow.add([&done](IAsyncSteps&) { ++done; });
  });
}

template <class Flow>
bench::sample poll(std::size_t count) {
  std::size_t done = 0;
  return again<Flow>(1, done, count, [&done, count](Flow& flow) {
    flow.loop([&done, count](IAsyncSteps& asi) {
      if (++done == count) asi.breakLoopNoThrow();
    });
  });
}

enum class bottom { success, error, thrown };

template <bottom End>
void nested(IAsyncSteps& asi, int depth, int value) {
  if (depth == 0) {
    if constexpr (End == bottom::error) {
      asi.errorNoThrow("Bottom");
    } else if constexpr (End == bottom::thrown) {
      asi.error("Bottom");
    } else {
      asi.success(value);
    }
    return;
  }
  asi.add([depth, value](IAsyncSteps& inner) { nested<End>(inner, depth - 1, value + 1); });
}

template <class Flow, bottom End>
bench::sample five_nested(std::size_t count) {
  std::size_t done = 0;
  return again<Flow>(count, done, count, [&done](Flow& flow) {
    if constexpr (End == bottom::success) {
      flow.add([](IAsyncSteps& asi) { nested<End>(asi, 4, 1); });
      flow.add([&done](IAsyncSteps&, int result) { done += result == 5 ? 1 : 0; });
    } else {
      flow.add([](IAsyncSteps& asi) { nested<End>(asi, 4, 1); },
               [&done](IAsyncSteps& asi, ErrorCode) {
                 ++done;
                 asi.success();
               });
    }
  });
}

void deeper(IAsyncSteps& asi, std::size_t left, std::size_t& done) {
  ++done;
  if (left != 1) asi.add([left, &done](IAsyncSteps& inner) { deeper(inner, left - 1, done); });
}

template <class Flow>
bench::sample depth(std::size_t levels) {
  std::size_t done = 0;
  return again<Flow>(1, done, levels, [&done, levels](Flow& flow) {
    flow.add([levels, &done](IAsyncSteps& asi) { deeper(asi, levels, done); });
  });
}

/// Timers due within a minute that are all armed at a time and then cancelled, as most timeouts are. The warm-up rounds
/// come first and do not count.
bench::sample timers(std::size_t count, std::size_t rounds, std::size_t warm_up) {
  async::event_loop loop;
  std::vector<async::event_loop::handle> armed;
  armed.reserve(count);
  std::size_t done = 0;
  auto begin = bench::wall_clock::now();
  for (std::size_t r = 0; r < rounds + warm_up; ++r) {
    if (r == warm_up) begin = bench::wall_clock::now();
    armed.clear();
    for (std::size_t i = 0; i < count; ++i) {
      armed.push_back(loop.deferred(bench::timer_delay(i), [] { std::abort(); }));
    }
    static_cast<void>(loop.iterate());
    for (async::event_loop::handle& handle : armed) done += handle.cancel() ? 1 : 0;
  }
  return bench::finished(begin, done, count * (rounds + warm_up));
}

/// The same, but a minute passes and all come due.
bench::sample timers_due(std::size_t count, std::size_t rounds, std::size_t warm_up) {
  async::manual_clock clock;
  async::event_loop loop{clock};
  std::size_t done = 0;
  auto begin = bench::wall_clock::now();
  for (std::size_t r = 0; r < rounds + warm_up; ++r) {
    if (r == warm_up) begin = bench::wall_clock::now();
    for (std::size_t i = 0; i < count; ++i) loop.deferred(bench::timer_delay(i), [&done] { ++done; });
    static_cast<void>(loop.iterate());
    clock.advance(std::chrono::minutes(1));
    while (done != (r + 1) * count && loop.iterate().have_work) {
    }
  }
  return bench::finished(begin, done, count * (rounds + warm_up));
}

template <class Flow>
bench::sample timeout(std::size_t count) {
  std::size_t done = 0;
  return again<Flow>(1, done, count, [&done, count](Flow& flow) {
    flow.repeat(count, [&done](IAsyncSteps& asi, std::size_t) {
      asi.setTimeout(std::chrono::seconds(10));
      ++done;
      asi.success();
    });
  });
}

template <class Flow>
bench::sample sync(std::size_t count) {
  std::size_t done = 0;
  steps::Mutex mutex;
  return again<Flow>(1, done, count, [&](Flow& flow) {
    flow.repeat(count, [&](IAsyncSteps& asi, std::size_t) { asi.sync(mutex, [&done](IAsyncSteps&) { ++done; }); });
  });
}

template <class Flow>
bench::sample parallel(std::size_t groups) {
  std::size_t done = 0;
  bench::sample result = again<Flow>(groups, done, 8 * groups, [&done](Flow& flow) {
    auto& branches = flow.parallel();
    for (int i = 0; i < 8; ++i) branches.add([&done](IAsyncSteps&) { ++done; });
  });
  return result;
}

template <class Flow>
bench::sample mutex(std::size_t sections) {
  async::event_loop loop;
  steps::Mutex one;
  std::deque<Flow> batch;
  const std::size_t each = sections / bench::flows_alive;
  std::size_t done = 0;
  const auto begin = bench::wall_clock::now();
  for (std::size_t i = 0; i < bench::flows_alive; ++i) {
    Flow& flow = batch.emplace_back(loop);
    flow.repeat(each, [&](IAsyncSteps& asi, std::size_t) {
      asi.sync(one, [&done](IAsyncSteps& inside) {
        inside.relinquish();
        ++done;
      });
    });
    flow.execute();
  }
  drain(loop);
  return bench::finished(begin, done, each * bench::flows_alive);
}

template <class Flow, class Forking = Flow>
void enroll_flow(bench::plan& plan, const std::string& name, int rank) {
  plan.add("steps/create", {name, rank, plan.size(1'000'000, 200'000), create<Flow>});
  plan.add("steps/alive",
           {name, rank, plan.size(990'000, 300'000), [](std::size_t flows) { return alive<Flow>(flows); }});
  plan.add("steps/switch", {name, rank, plan.size(9'990'000, 1'980'000), switches<Flow>});
  plan.add("steps/chain", {name, rank, plan.size(1'000'000, 200'000), chain<Flow>});
  plan.add("steps/poll", {name, rank, plan.size(1'000'000, 500'000), poll<Flow>});
  plan.add("steps/nested", {name, rank, plan.size(500'000, 100'000), five_nested<Flow, bottom::success>});
  plan.add("steps/error thrown", {name, rank, plan.size(100'000, 20'000), five_nested<Flow, bottom::thrown>});
  plan.add("steps/error", {name, rank, plan.size(500'000, 100'000), five_nested<Flow, bottom::error>});
  plan.add("steps/timeout", {name, rank, plan.size(1'000'000, 200'000), timeout<Flow>});
  plan.add("steps/sync", {name, rank, plan.size(1'000'000, 200'000), sync<Flow>});
  plan.add("steps/parallel-8", {name, rank, plan.size(200'000, 50'000), parallel<Forking>});
  plan.add("steps/mutex", {name, rank, plan.size(300'000, 150'000), mutex<Flow>});
  plan.add("steps/waiting", {name, rank, 100'000, waiting<Flow>});
  plan.add_to_curve("growth/flows", [&](std::size_t together) {
    const std::size_t flows = bench::rounds_of(together, plan.size(1'000'000, 100'000)) * together;
    return bench::entry{name, rank, flows,
                        [together](std::size_t all) { return alive<Flow>(all, together, together); }};
  });
}

/// Typical limits for these flows.
template <std::uint32_t Branches>
using nitro = steps::NitroSteps<steps::nitro::MaxSteps<10>, steps::nitro::MaxTimeouts<1>, steps::nitro::MaxCancels<1>,
                                steps::nitro::MaxStackAllocs<0>, steps::nitro::MaxParallel<Branches>,
                                steps::nitro::BranchBytes<128>, steps::nitro::MaxResultBytes<0>,
                                steps::nitro::MaxStateBytes<0>, steps::nitro::MaxErrorText<30>>;

const bench::enroll contestants([](bench::plan& plan) {
  enroll_flow<steps::AsyncSteps>(plan, "steps::AsyncSteps", 0);
  plan.add("steps/depth", {"steps::AsyncSteps", 0, plan.size(100'000, 100'000), depth<steps::AsyncSteps>});
  plan.add("steps/timers", {"async::event_loop", 0, plan.size(1'000'000, 200'000),
                            [](std::size_t count) { return timers(count, 1, 0); }});
  const auto add_timers = [&](const char* curve, bench::sample (*run)(std::size_t, std::size_t, std::size_t)) {
    plan.add_to_curve(curve, [&](std::size_t armed) {
      const std::size_t rounds = bench::rounds_of(armed, plan.size(1'000'000, 100'000));
      return bench::entry{"async::event_loop", 0, rounds * armed, [=](std::size_t) { return run(armed, rounds, 1); }};
    });
  };
  add_timers("growth/timers cancelled", timers);
  add_timers("growth/timers due", timers_due);
  enroll_flow<nitro<0>, nitro<8>>(plan, "steps::NitroSteps", 1);
});

}  // namespace
