// SPDX-License-Identifier: BSL-1.0
#include "steps/interop/coroutine.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <coroutine>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "async/threadpool.hpp"
#include "steps/asynctool.hpp"
#include "support/coroutines.hpp"
#include "support/ends_flow.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"
#include "support/room_for_one.hpp"

// The awaiters, in coroutines of any kind. Coroutines as steps: interop_coroutine_step.cpp.

using steps::IAsyncSteps;
using steps::interop::execute;
using steps::interop::post;
using steps::interop::schedule;
using steps::interop::sleep_for;
using steps::interop::start;
using steps::interop::task;
using testing::bench;
using testing::ends_flow;
using testing::other_coroutine;
using namespace std::chrono_literals;

namespace {

struct local : testing::live_count<local> {};

template <class T>
bool is_ready(const std::future<T>& f) {
  return f.wait_for(0s) == std::future_status::ready;
}

task<int> count_down(int from) {
  if (from == 0) co_return 0;
  co_return 1 + co_await count_down(from - 1);
}

}  // namespace

TEST_CASE("a type of the user with a member `is_task` is no coroutine") {
  struct entry {
    bool is_task;
    std::string title;
  };
  const auto load = [] { return entry{true, "title"}; };
  async::threadpool pool(1);
  CHECK(pool.post(load).get().title == "title");
  CHECK(pool.post([] {}).then([load](async::future<void>) { return load(); }).get().is_task);
  pool.execute(load);
}

TEST_CASE("a task begins when it is awaited, and passes its value on") {
  bool begun = false;
  const auto work = [&begun](std::unique_ptr<int> p) -> task<std::unique_ptr<int>> {
    begun = true;
    co_return p;
  };
  task<std::unique_ptr<int>> lazy = work(std::make_unique<int>(3));
  CHECK_FALSE(begun);
  CHECK(*start(std::move(lazy)).get() == 3);
  CHECK(begun);
}

TEST_CASE("a task that is never awaited, or moved, destroys its parameters once") {
  const auto work = [](local) -> task<> { co_return; };
  {
    task<> a = work(local());
    task<> b = std::move(a);
    a = work(local());
    CHECK(local::live() == 2);
    a = std::move(b);
    CHECK(local::live() == 1);
  }
  CHECK(local::live() == 0);
}

TEST_CASE("a task that is awaited twice, or has been moved from, is an InternalError where it is awaited") {
  const auto text = []() -> task<std::string> { co_return "text"; };
  const auto refused = [](task<std::string> t) -> task<std::string> {
    try {
      co_await std::move(t);
    } catch (const steps::Error& e) {
      co_return e.error_info();
    }
    co_return "";
  };
  const auto twice = [&]() -> task<std::string> {
    task<std::string> t = text();
    co_await std::move(t);
    co_return co_await refused(std::move(t));
  };
  const std::string why = "a task that has been moved from or awaited";
  CHECK(start(twice()).get() == why);
  task<std::string> from = text();
  const task<std::string> to = std::move(from);
  CHECK(start(refused(std::move(from))).get() == why);  // NOLINT(bugprone-use-after-move)
  CHECK_THROWS_WITH_AS(start(std::move(from)).get(), "InternalError", steps::Error);
}

TEST_CASE("a task that waits is not awaited by another coroutine") {
  bench b;
  const auto wait = [](async::event_loop& loop) -> task<int> {
    co_await sleep_for(loop, 1ms);
    co_return 3;
  };
  const auto await = [](task<int>& shared) -> task<int> { co_return co_await std::move(shared); };
  task<int> shared = wait(b.loop);
  std::future<int> first = start(await(shared));
  std::future<int> second = start(await(shared));
  CHECK_THROWS_WITH_AS(second.get(), "InternalError", steps::Error);
  b.pass(2ms);
  CHECK(first.get() == 3);
}

TEST_CASE("co_return takes braces, and what converts to the task's type") {
  struct point {
    int x;
    std::string name;
  };
  const auto aggregate = []() -> task<point> { co_return {1, "x"}; };
  const auto pair = []() -> task<std::pair<int, std::string>> { co_return {2, "y"}; };
  const auto empty = []() -> task<std::string> { co_return {}; };
  const auto constant = []() -> task<const int> { co_return 4; };
  const auto converted = []() -> task<std::optional<std::string>> { co_return "z"; };
  CHECK(start(aggregate()).get().name == "x");
  CHECK(start(pair()).get().second == "y");
  CHECK(start(empty()).get().empty());
  CHECK(start(converted()).get() == "z");
  const auto all = [&]() -> task<int> { co_return co_await constant(); };
  CHECK(start(all()).get() == 4);
}

TEST_CASE("exceptions pass from task to task") {
  const auto thrower = []() -> task<int> {
    throw std::runtime_error("text");
    co_return 1;
  };
  const auto catcher = [&]() -> task<std::string> {
    try {
      co_await thrower();
    } catch (const std::exception& e) {
      co_return e.what();
    }
    co_return "none";
  };
  CHECK(start(catcher()).get() == "text");
  CHECK_THROWS_AS(start(thrower()).get(), std::runtime_error);
}

TEST_CASE("a million tasks one after the other need no deeper stack, nested ones each a frame") {
  const auto many = []() -> task<int> {
    int sum = 0;
    for (int i = 0; i < 1'000'000; ++i) sum += co_await count_down(1);
    co_return sum;
  };
  CHECK(start(many()).get() == 1'000'000);
  CHECK(start(count_down(1'000)).get() == 1'000);
}

TEST_CASE("a coroutine resumes on a loop, after a time, and not before") {
  bench b;
  const auto work = [](async::event_loop& loop) -> task<int> {
    co_await schedule(loop);
    CHECK(async::event_loop::current() == &loop);
    co_await sleep_for(loop, 5ms);
    CHECK(async::event_loop::current() == &loop);
    co_return 1;
  };
  std::future<int> end = start(work(b.loop));
  b.pass(4ms);
  CHECK_FALSE(is_ready(end));
  b.pass(3ms);
  CHECK(end.get() == 1);
}

TEST_CASE("a coroutine resumes on a pool, and then on a loop") {
  async::threadpool pool(1);
  steps::AsyncTool tool;
  const auto work = [](async::threadpool& p, async::event_loop& loop) -> task<bool> {
    const auto here = std::this_thread::get_id();
    co_await schedule(p);
    bool right = async::threadpool::current() == &p && std::this_thread::get_id() != here;
    co_await schedule(loop);
    right = right && loop.is_same_thread() && async::threadpool::current() == nullptr;
    right =
        right &&
        5 == co_await post(p, [](int a, const std::unique_ptr<int>& c) { return a + *c; }, 2, std::make_unique<int>(3));
    co_return right&& async::threadpool::current() == &p;
  };
  CHECK(start(work(pool, tool)).get());
}

TEST_CASE("post() passes references, nothing, and exceptions") {
  async::threadpool pool(1);
  int value = 1;
  const auto work = [](async::threadpool& p, int& v) -> task<int*> {
    co_await post(p, [&v] { v = 2; });
    int& same = co_await post(p, [&v]() -> int& { return v; });
    co_return &same;
  };
  CHECK(start(work(pool, value)).get() == &value);
  CHECK(value == 2);
  const auto failing = [](async::threadpool& p) -> task<> {
    co_await post(p, [] { throw std::invalid_argument("bad"); });
  };
  CHECK_THROWS_AS(start(failing(pool)).get(), std::invalid_argument);
}

TEST_CASE("post() of a function that returns an rvalue reference gives a value") {
  async::threadpool pool(1);
  std::string kept(64, 'x');
  const auto work = [](async::threadpool& p, std::string& text) -> task<std::string> {
    const auto give = [&text]() -> std::string&& { return std::move(text); };
    static_assert(std::is_same_v<decltype(post(p, give).await_resume()), std::string>);
    co_return co_await post(p, give);
  };
  CHECK(start(work(pool, kept)).get() == std::string(64, 'x'));
}

TEST_CASE("function and arguments of post() have gone when the coroutine resumes") {
  async::threadpool pool(1);
  const auto work = [](async::threadpool& p) -> task<int> {
    co_await post(p, [](const std::shared_ptr<local>&) {}, std::make_shared<local>());
    co_return local::live();
  };
  CHECK(start(work(pool)).get() == 0);
}

TEST_CASE("the future of a coroutine notifies a flow that awaits it") {
  async::threadpool p(1);
  bench b;  // its time stands still: a polling flow would look once
  const auto work = [](async::threadpool& pool, async::event_loop& loop) -> task<int> {
    co_await schedule(loop);
    co_return co_await post(pool, [] { return 5; });
  };
  steps::AsyncSteps flow{b.loop};
  int got = 0;
  flow.await(start(work(p, b.loop)));
  flow.add([&got](IAsyncSteps&, int n) { got = n; });
  flow.execute();
  while (got == 0) {
    b.drain();
    std::this_thread::yield();
  }
  CHECK(got == 5);
}

TEST_CASE("a stopped pool is an exception where it was awaited") {
  async::threadpool pool(1);
  pool.stop();
  const auto work = [](async::threadpool& p) -> task<> { co_await schedule(p); };
  CHECK_THROWS_AS(start(work(pool)).get(), async::stopped);
  const auto call = [](async::threadpool& p) -> task<> { co_await post(p, [] {}); };
  CHECK_THROWS_AS(start(call(pool)).get(), async::stopped);
}

TEST_CASE("execute() awaits a flow: its value, its error, its cancel; the flow may go at once") {
  bench b;
  const auto work = [](async::event_loop& loop) -> task<int> {
    auto flow = std::make_unique<steps::AsyncSteps>(loop);
    flow->add([](IAsyncSteps& asi) { asi.success(8); });
    const int value = co_await execute<int>(*flow);
    flow.reset();
    co_return value;
  };
  std::future<int> end = start(work(b.loop));
  b.drain();
  CHECK(end.get() == 8);

  const auto failing = [](async::event_loop& loop) -> task<std::string> {
    steps::AsyncSteps flow{loop};
    flow.add([](IAsyncSteps& asi) { asi.error("Code", "info"); });
    try {
      co_await execute(flow);
    } catch (const steps::Error& e) {
      co_return std::string(e.what()) + " " + e.error_info();
    }
    co_return "";
  };
  std::future<std::string> text = start(failing(b.loop));
  b.drain();
  CHECK(text.get() == "Code info");

  steps::AsyncSteps flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.waitExternal(); });
  const auto cancelled = [](IAsyncSteps& root) -> task<> { co_await execute(root); };
  std::future<void> none = start(cancelled(flow));
  b.drain();
  flow.cancel();
  b.drain();
  CHECK_THROWS_AS(none.get(), std::future_error);

  steps::AsyncSteps wrong{b.loop};
  wrong.add([](IAsyncSteps& asi) { asi.success("text"); });
  const auto mistaken = [](IAsyncSteps& root) -> task<int> { co_return co_await execute<int>(root); };
  end = start(mistaken(wrong));
  b.drain();
  CHECK_THROWS_WITH_AS(end.get(), "InternalError", steps::Error);
}

TEST_CASE("execute() of a flow that executes is an InternalError where it is awaited, and leaves the flow alone") {
  bench b;
  steps::AsyncSteps flow{b.loop};
  bool cancelled = false;
  flow.add([&cancelled](IAsyncSteps& asi) { asi.setCancel([&cancelled] { cancelled = true; }); });
  flow.execute();
  b.drain();
  const auto work = [](IAsyncSteps& root) -> task<> { co_await execute(root); };
  CHECK_THROWS_AS(start(work(flow)).get(), steps::Error);
  b.drain();
  CHECK_FALSE(cancelled);
  flow.cancel();
  b.drain();
  CHECK(cancelled);
}

TEST_CASE("execute() of a flow that a full pool refuses leaves no promise to the next execution") {
  async::threadpool pool(testing::with_room_for_one());
  testing::lines unhandled;
  steps::AsyncSteps flow{pool};
  flow.add([](IAsyncSteps& asi) { asi.error("Lost"); });
  {
    const testing::occupied busy(pool, 1);
    pool.execute([] {});
    const auto work = [](IAsyncSteps& root) -> task<> { co_await execute(root); };
    CHECK_THROWS_AS(start(work(flow)).get(), async::queue_full);
  }
  pool.wait_idle();
  flow.state().set_unhandled_error([&](steps::ErrorCode code) { unhandled.emplace_back(code); });
  flow.execute();
  pool.wait_idle();
  CHECK(unhandled == testing::lines{"Lost"});
}

TEST_CASE("execute() of a flow whose last execution is being destroyed is an InternalError where it is awaited") {
  struct executing {
    explicit executing(IAsyncSteps& f, std::string& t) : flow(f), to(t) {}
    executing(const executing&) = delete;
    executing& operator=(const executing&) = delete;
    ~executing() {
      start([](IAsyncSteps& its, std::string& seen) -> task<> {
        try {
          co_await execute(its);
        } catch (const steps::Error& e) {
          seen = e.what();
        }
      }(flow, to));
    }
    IAsyncSteps& flow;
    std::string& to;
  };
  std::string seen;
  {
    async::event_loop loop;
    steps::AsyncSteps flow{loop};
    flow.stack<executing>(flow, seen);
    flow.add([](IAsyncSteps&) {});
    flow.execute();
    while (loop.iterate().have_work) {
    }
    CHECK(seen.empty());
  }
  CHECK(seen == "InternalError");
}

TEST_CASE("execute() from another thread resumes the coroutine on the flow's loop") {
  steps::AsyncTool tool;
  const auto work = [](async::event_loop& loop) -> task<int> {
    int sum = 0;
    for (int i = 0; i < 100; ++i) {
      steps::AsyncSteps flow{loop};
      flow.add([i](IAsyncSteps& asi) { asi.success(i); });
      sum += co_await execute<int>(flow);
      if (!loop.is_same_thread()) co_return -1;
    }
    co_return sum;
  };
  CHECK(start(work(tool)).get() == 4950);
}

TEST_CASE("awaiters work in coroutines of other libraries, which may be destroyed while they wait") {
  bench b;
  int reached = 0;
  const auto work = [](async::event_loop& loop, int& at) -> other_coroutine {
    const local mine;
    at = 1;
    co_await sleep_for(loop, 1ms);
    at = 2;
    steps::AsyncSteps flow{loop};
    flow.add([](IAsyncSteps& asi) { asi.success(1); });
    at += co_await execute<int>(flow);
    co_await sleep_for(loop, (std::chrono::hours::max)());
    at = 4;
  };
  const other_coroutine c = work(b.loop, reached);
  CHECK(reached == 1);
  b.pass(3ms);
  CHECK(reached == 3);
  c.handle.destroy();
  CHECK(local::live() == 0);
  b.pass(10ms);
  CHECK(reached == 3);
}

TEST_CASE("a coroutine that is destroyed while it sleeps leaves nothing in the loop") {
  bench b;
  const auto work = [](async::event_loop& loop) -> other_coroutine { co_await sleep_for(loop, 1h); };
  const other_coroutine c = work(b.loop);
  CHECK(b.loop.iterate().have_work);
  c.handle.destroy();
  CHECK_FALSE(b.loop.iterate().have_work);
}

TEST_CASE("a coroutine that is destroyed while it awaits a flow cancels it, also when the flow has just ended") {
  for (const bool ended : {false, true}) {
    bench b;
    steps::AsyncSteps flow{b.loop};
    bool cancelled = false;
    bool resumed = false;
    flow.add([&](IAsyncSteps& asi) {
      asi.setCancel([&] { cancelled = true; });
      if (ended) asi.success();
    });
    const auto work = [](IAsyncSteps& root, bool& after) -> other_coroutine {
      co_await execute(root);
      after = true;
    };
    const other_coroutine c = work(flow, resumed);
    b.loop.iterate();
    CHECK_FALSE(resumed);
    c.handle.destroy();
    b.drain();
    CHECK_FALSE(resumed);
    CHECK(cancelled == !ended);
  }
}

TEST_CASE("a pool that runs tasks on its caller: the coroutine goes on there, on the same stack") {
  async::threadpool_options options;
  options.threads = 0;
  options.max_queue = 1;
  options.when_full = async::threadpool_options::overflow::caller_runs;
  async::threadpool pool(std::move(options));
  for (int i = 0; i < 100; ++i) pool.execute([] {});  // the queue is full from here on
  const auto work = [](async::threadpool& p) -> task<int> {
    int sum = 0;
    for (int i = 0; i < 100'000; ++i) sum += co_await post(p, [] { return 1; });
    co_return sum;
  };
  std::future<int> end = start(work(pool));
  CHECK(is_ready(end));
  CHECK(end.get() == 100'000);
}

TEST_CASE("a destroyed loop ends the waits for it with a broken promise") {
  auto loop = std::make_unique<async::event_loop>();
  const auto sleeper = [](async::event_loop& on) -> task<> {
    const local mine;
    co_await sleep_for(on, 1h);
  };
  const auto posted = [](async::event_loop& on) -> task<> { co_await schedule(on); };
  std::future<void> a = start(sleeper(*loop));
  std::future<void> c = start(posted(*loop));
  loop.reset();
  CHECK_THROWS_AS(a.get(), std::future_error);
  CHECK_THROWS_AS(c.get(), std::future_error);
  CHECK(local::live() == 0);
}

TEST_CASE("execute() of a flow whose result cannot be copied, and cancels the flow at its end") {
  bench b;
  steps::AsyncSteps flow{b.loop};
  std::function<void()> end;
  flow.add([&](IAsyncSteps& asi) {
    asi.success(ends_flow(end));
    end = [&flow] { flow.cancel(); };
  });
  const auto wait = [](steps::AsyncSteps& root) -> task<bool> {
    const ends_flow result = co_await execute<ends_flow>(root);
    co_return result.acts != nullptr;
  };
  auto ended = start(wait(flow));
  b.drain();
  CHECK_THROWS_AS(ended.get(), async::dropped_call);
  CHECK(b.unhandled.empty());
}
