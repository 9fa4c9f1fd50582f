// SPDX-License-Identifier: BSL-1.0
//
// fork() in a program with pools: a child makes the shared pools anew, the parent's pools refuse, and nothing hangs.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/fork_traffic.hpp"
#include "support/forked.hpp"
#include "support/live_count.hpp"
#include "support/occupied.hpp"

using async::blocking_pool;
using async::stopped_by_fork;
using async::task_group;
using async::threadpool;
using testing::can_fork_with_threads;
using testing::fork_traffic;
using testing::forked;
using testing::forked_ending;
using testing::in_forked_child;
using testing::require_in_child;
using testing::use_new_pools;
using namespace std::chrono_literals;

namespace {

/// Whether f() throws stopped_by_fork, and a handler of stopped gets it.
template <class F>
bool is_refused(F f) {
  try {
    f();
  } catch (const async::stopped& error) {
    return dynamic_cast<const stopped_by_fork*>(&error) != nullptr;
  }
  return false;
}

bool has_ended_with_message(const forked_ending& e) {
  return e.aborted() && e.error.find("step or hook that called fork() has returned in the child") != std::string::npos;
}

/// A function for a pool's thread: forks, and gives the parent the child's end. The child calls `ends`, and returns.
template <class Ends>
struct forks_inside {
  Ends ends;
  std::promise<forked_ending>* parent;
  template <class... A>
  void operator()(A&&...) const {
    const forked child;
    if (child.is_child()) return ends();
    parent->set_value(child.wait());
  }
};

/// How a child ends that start(f) has made, where f is called by a thread of a pool.
template <class Ends, class Start>
forked_ending ending_inside(Ends ends, Start start) {
  std::promise<forked_ending> parent;
  std::future<forked_ending> known = parent.get_future();
  start(forks_inside<Ends>{ends, &parent});
  return known.get();
}
constexpr auto returns = [] {};

}  // namespace

TEST_CASE("in a child, the destructor of a future_group of the parent returns") {
  if (!can_fork_with_threads()) return;
  async::promise<void> member;
  auto group = std::make_unique<async::future_group>();
  group->add(member.get_future());
  const forked_ending e = in_forked_child([&group] {
    group.release()->~future_group();
    async::promise<void> own;
    async::future_group anew;
    anew.add(own.get_future());
    own.set_value();
    anew.when_empty().get();
  });
  CHECK(e.exit_code == 0);
  member.set_value();
  group->when_empty().get();
}

TEST_CASE("a child makes the shared pools anew, while the parent's are busy") {
  if (!can_fork_with_threads()) return;
  const fork_traffic traffic(threadpool::shared());
  for (int i = 0; i < 5; ++i) {
    const forked_ending e = in_forked_child([] {
      use_new_pools();
      std::exit(3);
    });
    REQUIRE(e.exit_code == 3);
  }
}

TEST_CASE("a child posts to the shared pool, and a pool of the parent refuses") {
  if (!can_fork_with_threads()) return;
  threadpool pool(1);
  testing::is_forked_child = true;  // for the leak check of the child
  // [fork]
  const pid_t child = ::fork();
  if (child == 0) {
    const int answer = async::async([] { return 42; }).get();  // the child's shared pool begins here
    try {
      pool.execute([] {});  // the threads of this one are in the parent
    } catch (const async::stopped_by_fork&) {
      std::exit(answer);
    }
  }
  // [/fork]
  testing::is_forked_child = false;
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
}

TEST_CASE("tasks that the parent has queued run in the parent only") {
  if (!can_fork_with_threads()) return;
  threadpool pool(1);
  std::promise<void> go_on;
  std::atomic<int> ran{0};
  pool.execute([&] { go_on.get_future().wait(); });
  for (int i = 0; i < 10; ++i) pool.execute([&] { ++ran; });
  const forked_ending e = in_forked_child([&] {
    go_on.set_value();
    pool.wait_idle();
    pool.stop();
    require_in_child(ran == 0, "a task of the parent has run in the child");
  });
  CHECK(e.exit_code == 0);
  go_on.set_value();
  pool.wait_idle();
  CHECK(ran == 10);
}

TEST_CASE("a pool of the parent refuses posts in the child with stopped_by_fork; the parent's goes on") {
  if (!can_fork_with_threads()) return;
  auto pool = std::make_unique<threadpool>(2);
  auto disk = std::make_unique<blocking_pool>();
  disk->post([] {}).get();
  task_group group(*pool);
  auto traffic = std::make_unique<fork_traffic>(*pool);
  const forked_ending e = in_forked_child([&] {
    const auto nothing = [] {};
    const auto refuses = [](bool is, const char* what) { require_in_child(is, what); };
    refuses(is_refused([&] { pool->post(nothing); }), "post()");
    refuses(is_refused([&] { pool->execute(nothing); }), "execute()");
    refuses(is_refused([&] { pool->configurepool(3); }), "configurepool()");
    refuses(is_refused([&] { pool->loop(0); }), "loop()");
    refuses(is_refused([&] { group.run(nothing); }), "task_group::run()");
    refuses(is_refused([&] { task_group(*pool).run_and_wait(nothing); }), "task_group::run_and_wait()");
    refuses(is_refused([&] { async::parallel_for(*pool, 0, 10, [](int) {}); }), "parallel_for()");
    refuses(is_refused([&] { async::parallel_invoke(*pool, nothing, nothing); }), "parallel_invoke()");
    refuses(is_refused([&] { steps::post(*pool, [](steps::IAsyncSteps&) {}); }), "steps::post()");
    steps::AsyncSteps flow{*pool};
    flow.add([](steps::IAsyncSteps&) {});
    refuses(is_refused([&] { flow.execute(); }), "AsyncSteps::execute()");
    refuses(is_refused([&] { disk->post(nothing); }), "blocking_pool::post()");
    refuses(is_refused([&] { disk->execute(nothing); }), "blocking_pool::execute()");
    static_cast<void>(threadpool::trim());
    static_cast<void>(pool->stats());
    pool->wait_idle();
    disk->wait_idle();
    require_in_child(pool->wait_idle_for(0s) && disk->wait_idle_for(0s), "wait_idle_for()");
    require_in_child(pool->idlesize() == 0 && disk->size() + disk->idlesize() + disk->queued() == 0, "sizes");
    require_in_child(pool->stop(async::discard) == 0 && disk->stop(async::discard) == 0, "stop(discard)");
    pool->stop();
    disk->stop();
    disk.reset();
    pool.reset();
    use_new_pools();
    std::exit(4);
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 4);
  CHECK(pool->post([] { return 1; }).get() == 1);
  CHECK(disk->post([] { return 2; }).get() == 2);
  group.run([] {});
  CHECK(group.wait());
  traffic.reset();
}

TEST_CASE("loops of a pool or an AsyncTool of the parent refuse callbacks in the child; the parent's go on") {
  if (!can_fork_with_threads()) return;
  threadpool pool(1);
  steps::AsyncTool tool;
  async::event_loop& of_pool = pool.loop(0);
  async::event_loop own;
  const forked_ending e = in_forked_child([&] {
    for (async::event_loop* const loop : {&of_pool, &tool.loop()}) {
      const auto token = std::make_shared<int>(0);
      require_in_child(is_refused([&] { loop->post([token] {}); }), "post()");
      require_in_child(is_refused([&] { loop->immediate([token] {}); }), "immediate()");
      require_in_child(is_refused([&] { loop->deferred(1ms, [token] {}); }), "deferred()");
      require_in_child(token.use_count() == 1, "a refused callback is destroyed");
    }
    own.post([] { std::exit(5); });  // this thread's, in the child as well
    own.iterate();
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 5);
  std::promise<void> of_both[2];
  of_pool.post([&] { of_both[0].set_value(); });
  tool.loop().post([&] { of_both[1].set_value(); });
  for (auto& each : of_both) each.get_future().wait();
}

TEST_CASE("a group with tasks in a pool of the parent: wait() throws in the child, the destructor returns") {
  if (!can_fork_with_threads()) return;
  std::promise<void> go_on;
  threadpool pool(1);  // ends first: its worker may take the task only when the group is done
  pool.execute([&] { go_on.get_future().wait(); });
  task_group group(pool);
  group.run([] {});
  const forked_ending e = in_forked_child([&] {
    require_in_child(is_refused([&] { group.wait(); }), "wait()");
    group.~task_group();
    std::exit(0);
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 0);
  go_on.set_value();
  CHECK(group.wait());
}

TEST_CASE("flows and an AsyncTool of the parent: their destructors return in the child") {
  if (!can_fork_with_threads()) return;
  threadpool pool(2);
  const fork_traffic traffic(pool);
  auto tool = std::make_unique<steps::AsyncTool>();
  const auto loops = [](steps::IAsyncSteps& asi) { asi.every(50us, [](steps::IAsyncSteps&, const steps::Tick&) {}); };
  std::vector<std::unique_ptr<steps::AsyncSteps>> flows;
  std::vector<std::unique_ptr<steps::NitroSteps<>>> fixed;
  for (int i = 0; i < 4; ++i) {
    flows.push_back(std::make_unique<steps::AsyncSteps>(pool));
    flows.push_back(std::make_unique<steps::AsyncSteps>(pool.loop(0)));
    flows.push_back(std::make_unique<steps::AsyncSteps>(*tool));
    fixed.push_back(std::make_unique<steps::NitroSteps<>>(pool));
    fixed.push_back(std::make_unique<steps::NitroSteps<>>(*tool));
  }
  for (auto& flow : flows) flow->add(loops), flow->execute();
  for (auto& flow : fixed) flow->add(loops), flow->execute();
  auto idle = std::make_unique<steps::AsyncSteps>(*tool);
  for (int i = 0; i < 10; ++i) {
    const forked_ending e = in_forked_child([&] {
      idle->add([](steps::IAsyncSteps&) {});
      require_in_child(is_refused([&] { idle->execute(); }), "execute()");
      require_in_child(is_refused([&] { tool->post([] {}); }), "post()");
      for (auto& flow : flows) flow->cancel();
      idle.reset();
      flows.clear();
      fixed.clear();
      tool.reset();
      steps::AsyncTool again;
      steps::AsyncSteps flow{again};
      flow.add([](steps::IAsyncSteps& asi) { asi.success(3); });
      require_in_child(flow.promise<int>().get() == 3, "a new AsyncTool");
    });
    CHECK(e.error == "");
    REQUIRE(e.exit_code == 0);
  }
  for (auto& flow : flows) flow->cancel();
  for (auto& flow : fixed) flow->cancel();
  CHECK(has_ended_with_message(ending_inside(returns, [&](auto f) { tool->post(f); })));
  CHECK(ending_inside(
            [] {
              use_new_pools();
              std::exit(3);
            },
            [&](auto f) { tool->post(f); })
            .exit_code == 3);
}

TEST_CASE("a future of a call in the parent's pool that is not ready throws in the child") {
  if (!can_fork_with_threads()) return;
  threadpool pool(1);
  std::promise<void> go_on;
  const auto number = [](std::shared_ptr<int> of) { return *of; };
  std::future<void> running = async::async([&] { go_on.get_future().wait(); });
  std::future<void> also_running = pool.post([ended = running.wait_for(0s)] { static_cast<void>(ended); });
  also_running.wait();
  std::promise<void> held;
  pool.execute([&] { held.get_future().wait(); });
  async::future<int> queued = pool.post(number, std::make_shared<int>(4));
  std::future<int> standard = async::detail::call_in_pool<int>(pool.core(), number, std::make_shared<int>(5));
  async::future<int> done = async::promise<int>().get_future();
  {
    async::promise<int> kept;
    done = kept.get_future();
    kept.set_value(6);
  }
  const forked_ending e = in_forked_child([&] {
    require_in_child(running.wait_for(1ms) != std::future_status::ready, "wait_for()");
    if constexpr (ASYNCSTEPS_CALL_STATE != 2) {  // libc++ does not tell
      require_in_child(is_refused([&] { running.get(); }), "a call that ran");
    }
    require_in_child(is_refused([&] { queued.get(); }), "a queued call");
    require_in_child(standard.wait_for(1ms) != std::future_status::ready, "wait_for() of a queued call");
    require_in_child(is_refused([&] { standard.get(); }), "a queued call of async::async");
    require_in_child(done.get() == 6, "a result that was there");
    std::exit(0);
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 0);
  const forked_ending joined = in_forked_child([&] {
    static_cast<void>(std::future<void>(std::move(running)));  // their destructors wait for calls
    static_cast<void>(std::future<int>(std::move(standard)));
    std::exit(7);
  });
  CHECK(joined.exit_code == 7);
  go_on.set_value();
  held.set_value();
  running.get();
  CHECK(queued.get() == 4);
  CHECK(standard.get() == 5);
}

TEST_CASE("a child does not destroy what the parent's calls have captured") {
  if (!can_fork_with_threads()) return;
  struct item : testing::live_count<item> {};
  threadpool pool(1);
  auto held = std::make_unique<testing::occupied>(pool, 1);
  std::future<void> call = async::detail::call_in_pool<void>(pool.core(), [mine = item()] {});
  const forked_ending e = in_forked_child([&call] {
    require_in_child(is_refused([&call] { call.get(); }), "a queued call of async::async");
    require_in_child(item::live() == 1, "its captures");
    std::exit(0);
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 0);
  held.reset();
  call.get();
  CHECK(item::live() == 0);
}

TEST_CASE("a child that is made in a blocking_section leaves the section, and may begin others") {
  if (!can_fork_with_threads()) return;
  threadpool pool(1);
  async::future<int> code = pool.post([] {
    auto begun = std::make_unique<async::blocking_section>();
    const forked_ending e = in_forked_child([&begun] {
      {
        const async::blocking_section inner;
      }
      begun.reset();
      {
        const async::blocking_section later;
      }
      ::_exit(9);
    });
    return e.exit_code;
  });
  CHECK(code.get() == 9);
}

TEST_CASE("a child that a task makes may use new pools, and exit, inside the task") {
  if (!can_fork_with_threads()) return;
  threadpool pool(2);
  const fork_traffic traffic(pool);
  const auto uses = [&pool] {
    require_in_child(threadpool::current() == nullptr, "current()");
    require_in_child(is_refused([&pool] { pool.post([] {}); }), "post()");
    use_new_pools();
    std::exit(5);
  };
  const auto execute = [&pool](auto f) { pool.execute(f); };
  CHECK(ending_inside(uses, execute).exit_code == 5);
  CHECK(ending_inside(uses, [](auto f) { threadpool::shared().execute(f); }).exit_code == 5);
  CHECK(ending_inside(uses, [](auto f) { blocking_pool::shared().execute(f); }).exit_code == 5);
  CHECK(ending_inside(uses, [&pool](auto f) { pool.loop(0).post(f); }).exit_code == 5);
  CHECK(ending_inside(uses, [&pool](auto f) { steps::post(pool, f).wait(); }).exit_code == 5);
  CHECK(ending_inside([] { ::_exit(6); }, execute).exit_code == 6);
  CHECK(ending_inside([] { ::execl("/bin/sh", "sh", "-c", "exit 7", nullptr); }, execute).exit_code == 7);
}

TEST_CASE("a child that a call makes finds the blocking_pool of the parent idle, and stops it, inside the call") {
  if (!can_fork_with_threads()) return;
  blocking_pool pool;
  const auto ends = [&pool] {
    pool.wait_idle();
    pool.stop();
    ::_exit(6);
  };
  CHECK(ending_inside(ends, [&pool](auto f) { pool.execute(f); }).exit_code == 6);
}

TEST_CASE("a child that returns from a task, callback, step, call or hook to its pool ends with a message") {
  if (!can_fork_with_threads()) return;
  threadpool pool(2);
  const fork_traffic traffic(pool);
  CHECK(has_ended_with_message(ending_inside(returns, [&pool](auto f) { pool.execute(f); })));
  CHECK(has_ended_with_message(ending_inside(returns, [&pool](auto f) { pool.post(f).wait(); })));
  CHECK(has_ended_with_message(ending_inside(returns, [](auto f) { async::async(f).wait(); })));
  CHECK(has_ended_with_message(ending_inside(returns, [](auto f) { blocking_pool::shared().execute(f); })));
  CHECK(has_ended_with_message(ending_inside(returns, [&pool](auto f) { pool.loop(0).post(f); })));
  CHECK(has_ended_with_message(ending_inside(returns, [&pool](auto f) { pool.loop(1).deferred(1ms, f); })));
  CHECK(has_ended_with_message(ending_inside(returns, [&pool](auto f) { steps::post(pool, f).wait(); })));
  CHECK(has_ended_with_message(ending_inside(returns, [&pool](auto f) {
    task_group group(pool);
    group.run(f);
    group.wait();
  })));
  CHECK(has_ended_with_message(ending_inside(returns, [&pool](auto f) { async::parallel_invoke(pool, f, [] {}); })));
  CHECK(has_ended_with_message(ending_inside(returns, [&pool, parent = ::getpid()](auto f) {
    const auto in_parent = [parent] {
      if (::getpid() != parent) ::_exit(7);
    };
    const auto nested = [&] {
      async::parallel_invoke(pool, f, in_parent);
      in_parent();
    };
    async::parallel_invoke(pool, nested, in_parent);
  })));
  CHECK(has_ended_with_message(ending_inside(returns, [parent = ::getpid()](auto f) {
    threadpool one(1);
    steps::post(one, [&](steps::IAsyncSteps& asi) {
      auto& branches = asi.parallel();
      branches.add(f);
      for (int i = 0; i < 3; ++i) {
        branches.add([parent](steps::IAsyncSteps&) {
          if (::getpid() != parent) ::_exit(7);
        });
      }
    }).get();
  })));
  CHECK(has_ended_with_message(ending_inside(returns, [&pool](auto f) {
    async::parallel_for(pool, 0, 100, [&f](int i) {
      if (i == 50) f();
    });
  })));
  CHECK(has_ended_with_message(ending_inside(
      returns, [](auto f) { threadpool with_hook({.threads = 1, .on_thread_start = [f](std::size_t) { f(); }}); })));
  CHECK(has_ended_with_message(ending_inside(
      returns, [](auto f) { threadpool with_hook({.threads = 1, .on_thread_stop = [f](std::size_t) { f(); }}); })));
}

TEST_CASE("a callback that forks is the last of its turn in the child") {
  if (!can_fork_with_threads()) return;
  std::promise<void> go_on;
  std::promise<void> done;
  threadpool pool(1);                                // ends first
  pool.execute([&] { go_on.get_future().wait(); });  // so that the callbacks come in one turn
  const forked_ending e = ending_inside(returns, [&](auto f) {
    async::event_loop& loop = pool.loop(0);
    const auto later = [] { require_in_child(!testing::is_forked_child, "a later callback has run"); };
    loop.post(f);
    loop.post(later);
    loop.immediate(later);
    loop.deferred(1ns, later);
    loop.post([&] { done.set_value(); });
    go_on.set_value();
  });
  CHECK(has_ended_with_message(e));
  done.get_future().wait();
}

TEST_CASE("any thread may fork; its child may end by the return from the thread's function") {
  if (!can_fork_with_threads()) return;
  const fork_traffic traffic(threadpool::shared());
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&good, uses_pools = i % 2 == 0] {
      const forked child;
      if (!child.is_child()) {
        if (child.wait().exit_code == 0) ++good;
      } else if (uses_pools) {
        use_new_pools();
        std::exit(0);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(good == 4);
}

TEST_CASE("a child may fork") {
  if (!can_fork_with_threads()) return;
  const fork_traffic traffic(threadpool::shared());
  const forked_ending e = in_forked_child([] {
    threadpool own(2);
    own.post([] {}).get();
    auto more = std::make_unique<fork_traffic>(threadpool::shared());
    const forked_ending grandchild = in_forked_child([&own] {
      require_in_child(is_refused([&own] { own.post([] {}); }), "post()");
      use_new_pools();
      std::exit(8);
    });
    require_in_child(grandchild.exit_code == 8, "the grandchild");
    more.reset();
    std::exit(9);
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 9);
}

TEST_CASE("a task of the child that waits for a continuation of the parent's call gets stopped_by_fork each time") {
  if (!can_fork_with_threads()) return;
  threadpool of_parent(1);
  auto held = std::make_unique<testing::occupied>(of_parent, 1);
  const async::shared_future<std::string> result =
      of_parent.post([] { return std::string("a call of the parent"); })
          .then([](async::future<std::string> f) { return f.get() + ", and what continues it"; })
          .share();
  const forked_ending e = in_forked_child([&result] {
    threadpool pool(1);
    const auto waits = [&result] {
      for (int i = 0; i < 2; ++i) require_in_child(is_refused([&result] { result.get(); }), "get()");
    };
    pool.post(waits).get();
    std::_Exit(0);
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 0);
  held.reset();
  CHECK(result.get() == "a call of the parent, and what continues it");
}

TEST_CASE("a pool of the child ends while other threads destroy flows on it, and wait for its calls") {
  if (!can_fork_with_threads()) return;
  threadpool of_parent(1);
  const forked_ending e = in_forked_child([] {
    for (std::size_t i = 0; i < testing::rounds(300); ++i) {
      auto pool = std::make_unique<threadpool>(1);
      async::future<int> call = pool->post([] { return 1; });
      auto flow = std::make_unique<steps::AsyncSteps>(*pool);
      flow->add([](steps::IAsyncSteps& asi) { asi.waitExternal(); });
      flow->execute();
      std::thread first([&flow] { flow.reset(); });
      std::thread second([&call] { call.wait(); });
      pool.reset();
      first.join();
      second.join();
    }
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 0);
}

TEST_CASE("a child of a busy program exits") {
  if (!can_fork_with_threads()) return;
  const fork_traffic traffic(threadpool::shared());
  threadpool own(2);
  const fork_traffic more(own);
  const std::size_t count = testing::rounds(100);
  for (std::size_t i = 0; i < count; ++i) {
    const forked_ending e = in_forked_child([&own, i] {
      if (i % 4 == 0) use_new_pools();
      if (i % 4 == 1) require_in_child(is_refused([&own] { own.post([] {}); }), "post()");
      if (i % 4 == 2) require_in_child(async::async([] { return 1; }).get() == 1, "async::async");
      std::exit(3);
    });
    REQUIRE(e.error == "");
    REQUIRE(e.exit_code == 3);
  }
  std::printf("count: %zu forks\n", count);
}
