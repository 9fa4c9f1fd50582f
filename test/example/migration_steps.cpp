// SPDX-License-Identifier: BSL-1.0
//
// The right-hand side of the table "Coming from" in README.md: rows that end at steps/.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/futoin.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::IAsyncSteps;

namespace {

int twice(int x) { return 2 * x; }

/// boost::async(f).then(g), and when_all.
bool boost_async() {
  steps::AsyncTool tool;
  steps::AsyncSteps flow{tool};
  flow.await(async::async(twice, 4)).add([](IAsyncSteps& asi, int x) { asi.success(x + 1); });
  const int then = flow.promise<int>().get();

  std::vector<int> results(10);
  steps::AsyncSteps all{tool};
  auto& branches = all.parallel();
  for (std::size_t i = 0; i < results.size(); ++i) {
    branches.add([&, i](IAsyncSteps& asi) {
      asi.await(async::async(twice, static_cast<int>(i)));
      asi.add([&, i](IAsyncSteps&, int x) { results[i] = x; });
    });
  }
  all.promise().get();
  return then == 9 && std::accumulate(results.begin(), results.end(), 0) == 90;
}

/// create_task(f).then(g), with an error handler.
bool ppl_tasks() {
  async::threadpool pool(2);
  steps::AsyncSteps flow{pool};
  flow.await(pool, twice, 5).add([](IAsyncSteps& asi, int x) { asi.success(x + 1); });
  const int then = flow.promise<int>().get();

  steps::AsyncSteps failing{pool};
  failing.add([&](IAsyncSteps& asi) { asi.await(pool, [] { throw std::runtime_error("no luck"); }); },
              [](IAsyncSteps& asi, steps::ErrorCode code) { asi.success(std::string(code)); });
  const std::string why = failing.promise<std::string>().get();
  return then == 11 && why == "no luck";
}

bool cancellation_token() {
  steps::AsyncTool tool;
  std::promise<void> waits;
  std::atomic<bool> told{false};
  steps::AsyncSteps flow{tool};
  flow.add([&](IAsyncSteps& asi) {
    asi.setTimeout(1h);
    asi.setCancel([&] { told = true; });
    waits.set_value();
  });
  std::future<void> end = flow.promise();
  waits.get_future().wait();
  flow.cancel();
  try {
    end.get();
  } catch (const std::future_error&) {  // a broken promise
    return told;
  }
  return false;
}

/// spawn and goroutines, select, join! and errgroup, channels, spawn_blocking, Notify.
bool tokio_and_go() {
  async::threadpool pool(2);
  async::bounded_queue<int> channel(1);
  async::event ready;
  std::atomic<int> sum{0};
  async::future<void> consumer = steps::post(pool, [&](IAsyncSteps& root) {
    root.loop([&](IAsyncSteps& asi) {
      asi.select(async::on_pop(channel, [&sum](IAsyncSteps&, int x) { sum += x; }),
                 async::after(1h, [](IAsyncSteps& late) { late.breakLoop(); }));
    });
  });
  async::future<void> producer = steps::post(pool, [&](IAsyncSteps& asi) {
    asi.await(ready);
    auto& both = asi.parallel();
    for (const int x : {20, 3}) {
      both.add([&channel, x](IAsyncSteps& branch) {
        branch.await(async::blocking_pool::shared(), twice, x);
        branch.add([&channel](IAsyncSteps& last, int y) { last.enqueue(channel, y); });
      });
    }
  });
  ready.set();
  producer.get();
  while (sum != 46) std::this_thread::yield();
  consumer.cancel();
  channel.close();
  try {
    consumer.get();
  } catch (const std::exception&) {  // cancelled, or the channel was closed first
    const auto in_place = [](int x) {
      const async::blocking_section here;
      return twice(x);
    };
    return async::blocking_pool::shared().post(twice, 4).get() == 8 &&
           async::threadpool::shared().post(in_place, 4).get() == 8;
  }
  return false;
}

/// retry (tokio-retry, Polly, cockatiel), interval and Semaphore of tokio.
bool retry_interval_semaphore() {
  steps::AsyncTool tool;
  steps::Semaphore permits(1);
  std::size_t attempts = 0, rounds = 0;
  steps::AsyncSteps flow{tool};
  flow.retry(steps::Retry{.attempts = 3, .delay = 1ms}.on("Busy"), [&attempts](IAsyncSteps& asi) {
    if (++attempts < 3) asi.error("Busy");
  });
  flow.every({.period = 1ms, .missed = steps::MissedTicks::burst}, [&](IAsyncSteps& asi, const steps::Tick& tick) {
    if (tick.number == 4) asi.breakLoop();
    asi.sync(permits, steps::interop::co([&rounds](IAsyncSteps& step) -> steps::interop::task<> {
               co_await steps::interop::sleep_for(step.tool(), 1us);
               ++rounds;
             }));
  });
  flow.promise().get();
  return attempts == 3 && rounds == 4;
}

/// timeout and deadline of tokio and Go, in a step and in one that is a coroutine.
bool time_limits() {
  steps::AsyncTool tool;
  steps::AsyncSteps flow{tool};
  int late = 0;
  const auto note_timeout = [&late](IAsyncSteps& asi, steps::ErrorCode code) {
    if (code == steps::errors::Timeout) ++late;
    asi.success();
  };
  flow.add(
      [](IAsyncSteps& asi) {
        asi.setTimeout(1ms);
        asi.add([](IAsyncSteps& inner) { inner.waitExternal(); });
      },
      note_timeout);
  const auto deadline = std::chrono::steady_clock::now() + 1ms;
  flow.add([deadline](IAsyncSteps& asi) { asi.setDeadline(deadline); }, note_timeout);
  flow.add(steps::interop::co([](IAsyncSteps& asi) -> steps::interop::task<> {
             asi.setTimeout(1ms);
             co_await steps::interop::sleep_for(asi.tool(), 1h);
           }),
           note_timeout);
  flow.promise().get();
  return late == 3;
}

bool futoin_names() {
  futoin::ri::AsyncTool tool;
  futoin::ri::AsyncSteps flow{tool};
  flow.add([](futoin::IAsyncSteps& asi) { asi.success(1); }).add([](futoin::IAsyncSteps& asi, int x) {
    asi.success(x + 1);
  });
  return flow.promise<int>().get() == 2;
}

bool futoin_new_code() {
  async::event_loop loop;
  steps::NitroSteps<steps::nitro::MaxSteps<4>> flow{loop};
  int seen = 0;
  flow.add([](IAsyncSteps& asi) { asi.setTimeout(10s), asi.success(1); }).add([&](IAsyncSteps&, int x) { seen = x; });
  flow.execute();
  while (loop.iterate().have_work) {
  }
  return seen == 1;
}

}  // namespace

int main() {
  const struct {
    const char* from;
    bool (*works)();
  } rows[] = {{"boost::async", boost_async},
              {"PPL tasks", ppl_tasks},
              {"PPL cancellation_token", cancellation_token},
              {"tokio, Go", tokio_and_go},
              {"retry, interval, Semaphore", retry_interval_semaphore},
              {"timeout", time_limits},
              {"FutoIn C++", futoin_names},
              {"FutoIn C++, new code", futoin_new_code}};
  int wrong = 0;
  for (const auto& row : rows) {
    const bool works = row.works();
    if (!works) std::printf("wrong: %s\n", row.from), ++wrong;
  }
  const int all = static_cast<int>(std::size(rows));
  std::printf("%d of %d snippets do what they show\n", all - wrong, all);
  return wrong == 0 ? 0 : 1;
}
