// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "async/threadpool.hpp"
#include "support/flows.hpp"

// Rule 51 of steps/RULES.md. The queue and its hand-over are those of Mutex: steps_sync.cpp, steps_sync_ends.cpp.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using testing::noting;
using namespace std::chrono_literals;

TEST_CASE_TEMPLATE("rule 51: as many flows as there are permits are inside, first come, first served", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  steps::Semaphore semaphore(2);
  std::deque<Flow> flows;
  for (int i = 0; i < 5; ++i) {
    flows.emplace_back(b.loop).sync(semaphore, [&, i](IAsyncSteps& asi) {
      seen.push_back(std::to_string(i));
      b.loop.deferred(10ms, [done = asi.completion<>()] { done.success(); });
    });
    flows.back().execute();
  }
  b.pass(5ms);
  CHECK(seen == lines{"0", "1"});
  flows[2].cancel();  // leaves the queue
  b.pass(8ms);
  CHECK(seen == lines{"0", "1", "3", "4"});
  b.pass(10ms);
  flows[2].sync(semaphore, [](IAsyncSteps& asi) { asi.error("Given back"); }, noting(seen));
  flows[2].sync(semaphore, [&](IAsyncSteps&) { seen.emplace_back("2"); });
  flows[2].execute();
  b.drain();
  CHECK(seen == lines{"0", "1", "3", "4", "Given back: ", "2"});
}

TEST_CASE_TEMPLATE("rule 51: each entry takes a permit, also of a flow that is inside", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  steps::Semaphore semaphore(2);
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setTimeout(10ms);
        asi.sync(semaphore, [&](IAsyncSteps& outer) {
          outer.sync(semaphore, [&](IAsyncSteps& inner) {
            seen.emplace_back("twice");
            inner.sync(semaphore, [&](IAsyncSteps&) { seen.emplace_back("never"); });
          });
        });
      },
      noting(seen));
  flow.sync(semaphore, [&](IAsyncSteps& outer) {  // all permits have come back
    outer.sync(semaphore, [&](IAsyncSteps&) { seen.emplace_back("again"); });
  });
  flow.execute();
  b.pass(20ms);
  CHECK(seen == lines{"twice", "Timeout: ", "again"});
}

TEST_CASE_TEMPLATE("rule 51: a full queue rejects, and the info says so", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  steps::Semaphore semaphore(0, 1);
  std::deque<Flow> flows;
  for (int i = 0; i < 2; ++i) {
    flows.emplace_back(b.loop).add([&](IAsyncSteps& asi) { asi.sync(semaphore, [](IAsyncSteps&) {}); }, noting(seen));
    flows.back().execute();
  }
  b.drain();
  CHECK(seen == lines{"DefenseRejected: Semaphore: all permits are taken, and `max_queue` flows wait"});
}

TEST_CASE("rule 51: flows of all threads of a pool share the permits") {
  std::atomic<int> inside{0}, most{0}, entries{0};
  steps::Semaphore semaphore(3);
  async::threadpool pool(4);
  std::vector<async::future<void>> flows;
  for (int i = 0; i < 200; ++i) {
    flows.push_back(steps::post(pool, [&](IAsyncSteps& asi) {
      asi.repeat(10, [&](IAsyncSteps& round) {
        round.sync(semaphore, [&](IAsyncSteps& asi2) {
          const int now = ++inside;
          for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
          }
          ++entries;
          asi2.relinquish();
          asi2.add([&](IAsyncSteps&) { --inside; });
        });
      });
    }));
  }
  for (auto& flow : flows) flow.get();
  CHECK(entries == 2'000);
  CHECK(most <= 3);
}
