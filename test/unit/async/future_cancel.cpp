// SPDX-License-Identifier: BSL-1.0
//
// What a future tells of a call or flow that was cancelled, and of one that its pool has ended.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/task.hpp"
#include "steps/steps.hpp"
#include "support/occupied.hpp"
#include "support/scale.hpp"

using async::dropped_call;
using async::threadpool;
using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;
using reason = async::dropped_call::reason;

namespace {

/// The reason that get() throws; none: it throws another exception, or nothing. A handler of std::future_error sees a
/// broken promise, as before.
template <class Future>
std::optional<reason> why(Future&& future) {
  try {
    static_cast<void>(future.get());
  } catch (const std::future_error& error) {
    CHECK(error.code() == std::future_errc::broken_promise);
    const auto* const known = dynamic_cast<const dropped_call*>(&error);
    return known != nullptr ? std::optional(known->why()) : std::nullopt;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

/// Waits until it is cancelled.
struct sleeper {
  std::atomic<int>& waiting;
  void operator()(IAsyncSteps& asi) const {
    asi.waitExternal();
    ++waiting;
    waiting.notify_all();
  }
};
void wait_for(const std::atomic<int>& count, int wanted) {
  for (int seen = count; seen != wanted; seen = count) count.wait(seen);
}

}  // namespace

TEST_CASE("a call that cancel() has dropped throws dropped_call, with the reason `cancelled`") {
  async::threadpool paused(0);
  auto call = paused.post([] { return 1; });
  CHECK(call.cancel());
  CHECK(why(call) == reason::cancelled);

  auto shared = paused.post([] {}).share();
  CHECK(shared.cancel());
  CHECK(why(shared) == reason::cancelled);
  CHECK_THROWS_WITH_AS(shared.get(), "async: the call or flow has been cancelled", dropped_call);

  auto last = paused.post([] {}).then([](async::future<void>) {});
  CHECK(last.cancel());
  CHECK(why(last) == reason::cancelled);

  async::blocking_pool disk({.max_threads = 1});
  std::promise<void> go;
  auto busy = disk.post([end = go.get_future().share()] { end.wait(); });
  auto queued = disk.post([] {});
  CHECK(queued.cancel());
  CHECK(why(queued) == reason::cancelled);
  go.set_value();
  busy.get();
}

TEST_CASE("a flow that was cancelled by its future throws `cancelled`, whether it has started or not") {
  async::threadpool pool(1);
  async::event_loop loop;
  std::atomic<int> waiting{0};
  {
    const testing::occupied busy(pool, 1);
    auto early = steps::post(pool, sleeper{waiting});
    CHECK(early.cancel());
    CHECK(why(early) == reason::cancelled);
  }
  auto late = steps::post(pool, sleeper{waiting});
  wait_for(waiting, 1);
  CHECK(!late.cancel());
  CHECK(why(late) == reason::cancelled);

  auto early = steps::post(loop, sleeper{waiting});
  CHECK(early.cancel());
  CHECK(why(early) == reason::cancelled);
  auto on_loop = steps::post(loop, sleeper{waiting});
  loop.iterate();
  CHECK(!on_loop.cancel());
  loop.iterate();
  CHECK(why(on_loop) == reason::cancelled);
}

TEST_CASE("a flow that its future cancels while the pool makes it throws `cancelled`") {
  async::threadpool pool(1);
  std::optional<async::future<void>> own;
  std::promise<void> is_known;
  struct body {
    body(std::optional<async::future<void>>& f, std::future<void> k) : future(&f), known(std::move(k)) {}
    body(body&& other) noexcept : future(other.future), known(std::move(other.known)) {  // into the flow, by the worker
      if (!known.valid() || known.wait_for(0s) != std::future_status::ready) return;
      known.get();
      CHECK(!(*future)->cancel());
    }
    void operator()(IAsyncSteps&) { FAIL("called"); }
    std::optional<async::future<void>>* future;
    std::future<void> known;
  };
  {
    const testing::occupied busy(pool, 1);
    own = steps::post(pool, body(own, is_known.get_future()));
    is_known.set_value();
  }
  CHECK(why(*own) == reason::cancelled);
}

TEST_CASE("the future of promise() throws `cancelled` after cancel() and after the destruction of the flow") {
  async::event_loop loop;
  async::threadpool pool(1);
  const auto ends = [](auto& place, bool destroys) {
    auto flow = std::make_unique<steps::AsyncSteps>(place);
    std::atomic<int> waiting{0};
    flow->add(sleeper{waiting});
    auto end = flow->promise();
    if constexpr (std::is_same_v<decltype(place), async::event_loop&>) {
      place.iterate();
    } else {
      wait_for(waiting, 1);
    }
    destroys ? flow.reset() : flow->cancel();
    return why(end);
  };
  for (const bool destroys : {false, true}) {
    CHECK(ends(loop, destroys) == reason::cancelled);
    CHECK(ends(pool, destroys) == reason::cancelled);
  }
  const testing::occupied busy(pool, 1);
  for (const bool destroys : {false, true}) {  // before a worker has taken it
    auto flow = std::make_unique<steps::AsyncSteps>(pool);
    flow->add([](IAsyncSteps&) {});
    auto end = flow->promise();
    destroys ? flow.reset() : flow->cancel();
    CHECK(why(end) == reason::cancelled);
  }
  for (const bool destroys : {false, true}) {  // before its loop has taken it
    auto flow = std::make_unique<steps::AsyncSteps>(loop);
    flow->add([](IAsyncSteps&) {});
    auto end = flow->promise();
    destroys ? flow.reset() : flow->cancel();
    loop.iterate();
    CHECK(why(end) == reason::cancelled);
  }
}

TEST_CASE("a flow that a pool's end cancels throws `stopped`; one that another loop's end cancels, a plain error") {
  std::atomic<int> waiting{0};
  const auto relinquishes = [&waiting](IAsyncSteps& asi) {
    asi.loop([&waiting](IAsyncSteps& turn) {
      if (++waiting == 4) waiting.notify_all();
      turn.relinquish();
    });
  };
  for (const bool discards : {false, true}) {
    waiting = 0;
    async::threadpool pool(1);
    steps::AsyncSteps owned{pool};
    owned.add(sleeper{waiting});
    auto promised = owned.promise();
    auto posted = steps::post(pool, sleeper{waiting});
    auto bound = steps::post(pool.loop(0), sleeper{waiting});
    wait_for(waiting, 3);
    auto ready = steps::post(pool, relinquishes);
    waiting.wait(3);
    discards ? static_cast<void>(pool.stop(async::discard)) : pool.stop();
    for (async::future<void>* each : {&promised, &posted, &bound, &ready}) CHECK(why(*each) == reason::stopped);
  }

  async::threadpool paused(0);
  steps::AsyncSteps unstarted{paused};
  unstarted.add([](IAsyncSteps&) {});
  auto promised = unstarted.promise();
  auto posted = steps::post(paused, [](IAsyncSteps&) {});
  CHECK(paused.stop(async::discard) == 2);
  CHECK(why(promised) == reason::stopped);
  CHECK(why(posted) == reason::stopped);

  auto loop = std::make_unique<async::event_loop>();
  auto waits = steps::post(*loop, sleeper{waiting});
  auto turns = steps::post(*loop, relinquishes);
  loop->iterate();
  auto never = steps::post(*loop, [](IAsyncSteps&) {});
  loop.reset();
  for (async::future<void>* each : {&waits, &turns, &never}) CHECK(why(*each) == std::nullopt);
}

TEST_CASE("a flow that awaits what was cancelled fails with BrokenPromise, and keeps the exception") {
  async::event_loop loop;
  async::threadpool paused(0);
  std::string code;
  std::optional<reason> seen;
  steps::AsyncSteps flow{loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        auto call = paused.post([] {});
        call.cancel();
        asi.await(std::move(call));
      },
      [&](IAsyncSteps& asi, ErrorCode error) {
        code = std::string(error);
        try {
          std::rethrow_exception(asi.state().last_exception());
        } catch (const dropped_call& cause) {
          seen = cause.why();
        }
        asi.success();
      });
  flow.execute();
  for (int i = 0; i < 5; ++i) loop.iterate();
  CHECK(code == "BrokenPromise");
  CHECK(seen == reason::cancelled);
}

TEST_CASE("a coroutine that awaits a cancelled flow or future gets `cancelled`") {
  async::event_loop loop;
  async::threadpool paused(0);
  steps::AsyncSteps flow{loop};
  flow.add([](IAsyncSteps& asi) { asi.waitExternal(); });
  std::optional<reason> of_flow;
  std::optional<reason> of_call;
  auto call = paused.post([] {});
  call.cancel();
  auto reads = [](IAsyncSteps& root, async::future<void> dropped, std::optional<reason>& first,
                  std::optional<reason>& second) -> steps::interop::task<> {
    try {
      co_await std::move(dropped);
    } catch (const dropped_call& error) {
      first = error.why();
    }
    try {
      co_await steps::interop::execute(root);
    } catch (const dropped_call& error) {
      second = error.why();
    }
  };
  steps::AsyncSteps host{loop};
  host.add(steps::interop::co([&](IAsyncSteps&) { return reads(flow, std::move(call), of_call, of_flow); }));
  host.execute();
  for (int i = 0; i < 5; ++i) loop.iterate();
  CHECK(of_call == reason::cancelled);
  CHECK(of_flow == std::nullopt);
  flow.cancel();
  for (int i = 0; i < 5; ++i) loop.iterate();
  CHECK(of_flow == reason::cancelled);
}

TEST_CASE("in a chain of then(), cancel() drops the last function; the call or flow before it goes on") {
  async::threadpool pool(1);
  std::atomic<int> waiting{0};
  std::promise<void> go;
  std::atomic<bool> has_ended{false};
  std::atomic<bool> was_called{false};
  auto of_call = pool.post([&] {
    ++waiting;
    waiting.notify_all();
    go.get_future().wait();
    has_ended = true;
  });
  wait_for(waiting, 1);
  auto then_call = std::move(of_call).then([&was_called](async::future<void>) { was_called = true; });
  CHECK(then_call.cancel());
  CHECK(why(then_call) == reason::cancelled);
  CHECK(!has_ended);
  go.set_value();
  pool.wait_idle();
  CHECK(has_ended);

  async::event_loop loop;
  steps::completion<> end;
  has_ended = false;
  auto then_flow = steps::post(loop, [&](IAsyncSteps& asi) {
                     asi.add([&end](IAsyncSteps& step) { end = step.completion<>(); });
                     asi.add([&has_ended](IAsyncSteps&) { has_ended = true; });
                   }).then([&was_called](async::future<void>) { was_called = true; });
  loop.iterate();
  async::future_group group;
  group.add(std::move(then_flow));
  CHECK(group.cancel() == 1);
  CHECK(group.size() == 0);
  CHECK(end.success());
  loop.iterate();
  CHECK(has_ended);
  CHECK(!was_called);
}

TEST_CASE("cancel() drops a continuation for which tasks wait, while its source is not ready") {
  threadpool pool(2);
  for (const bool in_pool : {false, true}) {
    for (const int more : {0, 3}) {  // continuations behind it
      async::promise<int> source;
      std::atomic<int> calls{0};
      const auto call = [&calls](async::future<int> f) {
        ++calls;
        return f.get();
      };
      async::future<int> first = source.get_future();
      async::shared_future<int> last =
          (in_pool ? std::move(first).then(pool, call) : std::move(first).then(call)).share();
      std::vector<async::shared_future<int>> all{last};
      for (int i = 0; i < more; ++i) {
        all.push_back(all.back().then([](const async::shared_future<int>& f) { return f.get(); }).share());
      }
      std::atomic<int> waiting{0};
      std::vector<async::future<int>> tasks;
      for (int i = 0; i < 2; ++i) {
        tasks.push_back(pool.post([&waiting, last = all.back()] {
          ++waiting;
          return last.get();
        }));
      }
      while (waiting != 2) std::this_thread::yield();
      std::this_thread::sleep_for(2ms);  // so that they are more likely to wait
      CHECK(all.front().cancel());
      for (auto& task : tasks) CHECK_THROWS_AS(task.get(), dropped_call);
      source.set_value(1);
      CHECK(calls == 0);
    }
  }
}

TEST_CASE("a continuation is called or dropped, whoever waits, cancels and makes its source ready at the same time") {
  threadpool pool(2);
  for (std::size_t i = testing::rounds(2'000); i != 0; --i) {
    async::promise<int> source;
    std::atomic<int> calls{0};
    const async::shared_future<int> result = source.get_future()
                                                 .then([&calls](async::future<int> f) {
                                                   ++calls;
                                                   return f.get();
                                                 })
                                                 .share();
    std::atomic<int> ready{0};
    const auto meet = [&ready] {
      ++ready;
      while (ready < 3) std::this_thread::yield();
    };
    auto waits = pool.post([&meet, result] {
      meet();
      try {
        return result.get();
      } catch (const dropped_call&) {
        return 0;
      }
    });
    auto cancels = pool.post([&meet, result] {
      meet();
      return async::shared_future<int>(result).cancel();
    });
    meet();
    source.set_value(7);
    const bool is_dropped = cancels.get();
    const int got = waits.get();
    REQUIRE(got == (is_dropped ? 0 : 7));
    REQUIRE(calls == (is_dropped ? 0 : 1));
  }
}
