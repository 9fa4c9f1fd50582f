// SPDX-License-Identifier: BSL-1.0
//
// Flows and synchronisation objects of this library and of others.
#include "steps/interop/binary.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "unit/interop/interop_binary.h"
#include "unit/interop/interop_binary.hpp"

using namespace std::chrono_literals;
using steps::AsyncSteps;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::binary;
using steps::interop::binary_sync;
using steps::interop::wrap;
using testing::args_of;
using testing::entries;
using testing::run_elsewhere;
using testing::run_on_pool;

TEST_CASE("wrap() puts steps in C++ into a step of any runtime") {
  const auto calls = [](FutoInAsyncSteps* b, void* data, const FutoInArgs* args) {
    auto* const pool = static_cast<async::threadpool*>(data);
    wrap(*b, args, [pool](IAsyncSteps& asi) {
      asi.add([pool](IAsyncSteps& inner, std::string text) {
        inner.setTimeout(10s);
        inner.await(pool->post([text] { return text + "!"; }));
      });
      auto& n = asi.stack<std::atomic<int>>(0);
      IAsyncSteps& branches = asi.parallel();
      for (int i = 0; i != 3; ++i) branches.add([&n](IAsyncSteps&) { ++n; });
      asi.add([&n](IAsyncSteps& inner) { inner.success(n.load(), std::string("done")); });
    });
  };
  async::threadpool pool(1);
  std::pair<int, std::string> seen;
  struct places {
    async::threadpool& pool;
    std::pair<int, std::string>& seen;
  } at{pool, seen};
  const auto build = [&](FutoInAsyncSteps& bsi) {
    bsi.api->add(&bsi, nullptr, pass_texts, nullptr);
    bsi.api->add(&bsi, &pool, calls, nullptr);
    bsi.api->add(
        &bsi, &at,
        [](FutoInAsyncSteps*, void* data, const FutoInArgs* args) {
          static_cast<places*>(data)->seen = {args->arg0.i32, args->arg1.cstr};
        },
        nullptr);
  };
  SUBCASE("this library") {
    run_on_pool([&](IAsyncSteps& root) { build(binary(root)); });
    CHECK(seen == std::pair<int, std::string>(3, "done"));
  }
  SUBCASE("another runtime") {
    run_elsewhere(build);
    CHECK(seen == std::pair<int, std::string>(3, "done"));
  }
  SUBCASE("another runtime, a thousand at once") {
    std::atomic<int> ended{0};
    run_elsewhere([&](FutoInAsyncSteps& bsi) {
      FutoInAsyncSteps* const branches = bsi.api->parallel(&bsi, nullptr, nullptr);
      for (int i = 0; i != 1'000; ++i) {
        branches->api->add(
            branches, &ended,
            [](FutoInAsyncSteps* b, void* data, const FutoInArgs*) {
              wrap(*b, [data](IAsyncSteps& asi) {
                asi.add([data](IAsyncSteps& inner) {
                  auto done = inner.completion<>();
                  async::threadpool::shared().execute([done] { done.success(); });
                  static_cast<void>(data);
                });
                asi.add([data](IAsyncSteps&) { ++*static_cast<std::atomic<int>*>(data); });
              });
            },
            nullptr);
      }
    });
    CHECK(ended.load() == 1'000);
  }
}

TEST_CASE("the end of a step of another runtime ends what wrap() has put there") {
  struct flags {
    std::atomic<int> cancelled{0};
  } seen;
  const auto waits = [](FutoInAsyncSteps* b, void* data, const FutoInArgs*) {
    wrap(*b, [data](IAsyncSteps& asi) {
      asi.add([data](IAsyncSteps& inner) { inner.setCancel([data] { ++static_cast<flags*>(data)->cancelled; }); });
    });
  };
  SUBCASE("its timeout") {
    CHECK_THROWS_WITH_AS(run_elsewhere([&](FutoInAsyncSteps& bsi) {
                           bsi.api->setTimeout(&bsi, 2);
                           bsi.api->add(&bsi, &seen, waits, nullptr);
                         }),
                         "Timeout", steps::Error);
    CHECK(seen.cancelled.load() == 1);
  }
  SUBCASE("a timeout inside") {
    CHECK_THROWS_WITH_AS(run_elsewhere([&](FutoInAsyncSteps& bsi) {
                           bsi.api->add(
                               &bsi, &seen,
                               [](FutoInAsyncSteps* b, void* data, const FutoInArgs*) {
                                 wrap(*b, [data](IAsyncSteps& asi) {
                                   asi.add([data](IAsyncSteps& inner) {
                                     inner.setTimeout(2ms);
                                     inner.setCancel([data] { ++static_cast<flags*>(data)->cancelled; });
                                   });
                                 });
                               },
                               nullptr);
                         }),
                         "Timeout", steps::Error);
    CHECK(seen.cancelled.load() == 1);
  }
  SUBCASE("an error inside, and one of the function itself") {
    CHECK_THROWS_WITH_AS(run_elsewhere([&](FutoInAsyncSteps& bsi) {
                           bsi.api->add(
                               &bsi, nullptr,
                               [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
                                 wrap(*b, [](IAsyncSteps& asi) {
                                   asi.add([](IAsyncSteps& inner) { inner.error("Inside", "an info"); });
                                 });
                               },
                               nullptr);
                         }),
                         "Inside", steps::Error);
    CHECK_THROWS_WITH_AS(run_elsewhere([&](FutoInAsyncSteps& bsi) {
                           bsi.api->add(
                               &bsi, nullptr,
                               [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
                                 wrap(*b, [](IAsyncSteps&) { throw std::runtime_error("thrown"); });
                               },
                               nullptr);
                         }),
                         "thrown", steps::Error);
  }
  SUBCASE("a result that C has no type for") {
    CHECK_THROWS_WITH_AS(run_elsewhere([&](FutoInAsyncSteps& bsi) {
                           bsi.api->add(
                               &bsi, nullptr,
                               [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
                                 wrap(*b, [](IAsyncSteps& asi) { asi.successStep(std::make_shared<int>(1)); });
                               },
                               nullptr);
                         }),
                         "InternalError", steps::Error);
  }
}

namespace {

/// Flows that enter a section 50 times each; counts how many are inside.
struct section {
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<int> entries{0};

  void come() {
    const int now = ++inside;
    int old = most.load();
    while (old < now && !most.compare_exchange_weak(old, now)) {
    }
    ++entries;
  }
  void go() { --inside; }
};
struct entrant {
  FutoInSync* sync;
  section* in;

  static void hold(FutoInAsyncSteps* b, void* data, const FutoInArgs*) {
    auto& self = *static_cast<entrant*>(data);
    self.in->come();
    FutoInArgs args = args_of(1);
    b->api->waitExternal(b);
    struct waiting {
      FutoInAsyncSteps* steps;
      section* in;
    };
    void* const memory = b->api->stack(b, sizeof(waiting), nullptr);
    auto* const w = ::new (memory) waiting{b, self.in};
    b->api->sched_immediate(b, w, [](void* at) {
      static_cast<waiting*>(at)->in->go();
      FutoInAsyncSteps* const steps = static_cast<waiting*>(at)->steps;
      steps->api->success(steps, nullptr);
    });
    static_cast<void>(args);
  }
  static void repeat(FutoInAsyncSteps* b, void* data) {
    b->api->addSync(b, static_cast<entrant*>(data)->sync, data, &hold, nullptr);
  }
  void add(FutoInAsyncSteps& bsi) {
    bsi.api->repeat(&bsi, this, 50, [](FutoInAsyncSteps* b, void* data, std::size_t) { repeat(b, data); }, nullptr);
  }
};

}  // namespace

TEST_CASE("flows of C, of C++ and of another runtime exclude each other by a Mutex") {
  async::threadpool pool(2);
  steps::Mutex mutex;
  binary_sync in_c(mutex);
  section in;
  entrant e{&in_c.get(), &in};
  std::vector<AsyncSteps> flows;
  std::vector<async::future<void>> ends;
  for (int i = 0; i != 30; ++i) {
    AsyncSteps& flow = flows.emplace_back(pool);
    if (i % 3 == 0) {
      e.add(binary(flow));
    } else if (i % 3 == 1) {
      flow.add([&e](IAsyncSteps& asi) {
        FutoInAsyncSteps* const other = other_runtime(&binary(asi));
        asi.onEnd([other] { other->api->free(other); });
        e.add(*other);
      });
    } else {
      flow.repeat(50, [&](IAsyncSteps& asi) {
        asi.sync(mutex, [&in](IAsyncSteps& inner) {
          in.come();
          inner.add([](IAsyncSteps& last) { last.relinquish(); });
          inner.add([&in](IAsyncSteps&) { in.go(); });
        });
      });
    }
  }
  for (AsyncSteps& flow : flows) ends.push_back(flow.promise());
  for (async::future<void>& end : ends) end.get();
  CHECK(in.most.load() == 1);
  CHECK(in.entries.load() == 30 * 50);
}

TEST_CASE("a place in a Mutex is given back after an error, a timeout and a cancel, of whatever runtime") {
  steps::Mutex mutex(1, 1);
  binary_sync in_c(mutex);
  async::event_loop loop;
  const auto run = [&loop](AsyncSteps& flow) { return testing::end_of(flow, loop); };
  const auto elsewhere = [&](AsyncSteps& flow, std::uint32_t timeout, FutoInAsyncSteps_execute_callback f) {
    flow.add([&, timeout, f](IAsyncSteps& asi) {
      FutoInAsyncSteps* const other = other_runtime(&binary(asi));
      asi.onEnd([other] { other->api->free(other); });
      if (timeout != 0) other->api->setTimeout(other, timeout);
      other->api->addSync(other, &in_c.get(), nullptr, f, nullptr);
    });
  };
  const auto waits = [](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->waitExternal(b); };
  const auto ends = [](FutoInAsyncSteps*, void*, const FutoInArgs*) {};
  const auto free_again = [&] {
    AsyncSteps flow{loop};
    flow.add([&](IAsyncSteps& asi) {
      asi.setTimeout(1s);
      asi.sync(mutex, [](IAsyncSteps&) {});
    });
    return run(flow).empty();
  };
  AsyncSteps failing{loop};
  elsewhere(failing, 0, [](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->handle_error(b, "Bad", nullptr); });
  CHECK(run(failing) == "Bad");
  CHECK(free_again());
  AsyncSteps late{loop};
  elsewhere(late, 2, waits);
  CHECK(run(late) == "Timeout");
  CHECK(free_again());
  {
    AsyncSteps holder{loop};
    elsewhere(holder, 0, waits);
    async::future<void> end = holder.promise();
    loop.run_for(1ms);
    AsyncSteps queued{loop};  // waits in the queue until its timeout
    elsewhere(queued, 2, ends);
    CHECK(run(queued) == "Timeout");
    AsyncSteps next{loop};
    elsewhere(next, 0, ends);
    async::future<void> next_end = next.promise();
    loop.run_for(1ms);
    AsyncSteps refused{loop};  // the queue has room for one
    elsewhere(refused, 0, ends);
    CHECK(run(refused) == "DefenseRejected");
    CHECK(!next_end.is_ready());
    holder.cancel();
    while (!next_end.is_ready()) loop.run_for(1ms);
    CHECK_NOTHROW(next_end.get());
  }
  CHECK(free_again());
}

TEST_CASE("a mutex in C excludes flows of this library, passes results, and is given back") {
  async::event_loop loop;
  c_mutex* const mutex = make_mutex();
  section in;
  std::vector<AsyncSteps> flows;
  std::vector<async::future<int>> ends;
  for (int i = 0; i != 20; ++i) {
    AsyncSteps& flow = flows.emplace_back(loop);
    flow.repeat(20, [&](IAsyncSteps& asi) {
      asi.add([](IAsyncSteps& inner) { inner.success(20, std::string("a text that does not fit into the slot")); });
      asi.add([&](IAsyncSteps& outer, int n, std::string text) {
        outer.add([n, text](IAsyncSteps& inner) { inner.success(n, text); });
        steps::interop::sync(outer, mutex->sync, [&](IAsyncSteps& inner, int m, std::string t) {
          in.come();
          CHECK(t.size() == 38);
          steps::interop::sync(inner, mutex->sync, [](IAsyncSteps& again) { again.relinquish(); });  // has it already
          inner.add([&in, m](IAsyncSteps& last) {
            in.go();
            last.success(m + 1);
          });
        });
      });
    });
    flow.add([](IAsyncSteps& asi) { asi.success(1); });
  }
  for (AsyncSteps& flow : flows) ends.push_back(flow.promise<int>());
  for (async::future<int>& end : ends) {
    while (!end.is_ready()) loop.run_for(1ms);
    CHECK(end.get() == 1);
  }
  CHECK(in.most.load() == 1);
  CHECK(in.entries.load() == 400);
  CHECK(mutex->most_holders == 1);
  CHECK(mutex->holders == 0);

  AsyncSteps failing{loop};
  std::string seen;
  failing.add(
      [&](IAsyncSteps& asi) {
        steps::interop::sync(
            asi, mutex->sync, [](IAsyncSteps& inner) { inner.error("Bad"); },
            [&](IAsyncSteps&, ErrorCode code) { seen = std::string(code) + std::to_string(mutex->holders); });
      },
      [&](IAsyncSteps& asi, ErrorCode) {
        seen += std::to_string(mutex->holders);
        asi.success();
      });
  async::future<void> end = failing.promise();
  while (!end.is_ready()) loop.run_for(1ms);
  CHECK(seen == "Bad10");
  {
    AsyncSteps holder{loop};
    AsyncSteps queued{loop};
    for (AsyncSteps* flow : {&holder, &queued}) {
      flow->add([&](IAsyncSteps& asi) {
        steps::interop::sync(asi, mutex->sync, [](IAsyncSteps& inner) { inner.waitExternal(); });
      });
      flow->execute();
      loop.run_for(1ms);
    }
    CHECK(mutex->holders == 1);
    CHECK(mutex->first != nullptr);
    queued.cancel();
    CHECK(mutex->first == nullptr);
    holder.cancel();
    CHECK(mutex->holders == 0);
  }
  CHECK(mutex->holders == 0);
  free_mutex(mutex);
}
