// SPDX-License-Identifier: BSL-1.0
//
// Pools at the end of the program, and errors that end the program.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "async/async.hpp"
#include "steps/steps.hpp"
#include "support/child.hpp"
#include "support/scale.hpp"
#include "support/walker.hpp"

using async::threadpool;
using testing::ending;
using testing::in_child;
using testing::walker;

namespace {

bool says(const ending& e, const char* text) { return e.error.find(text) != std::string::npos; }

std::size_t count_of(const ending& e, char c) {
  std::size_t count = 0;
  for (const char each : e.error) count += each == c ? 1U : 0U;
  return count;
}

/// Posts when static objects are destroyed, after the end of the shared pool, which is made later.
struct late_poster {
  ~late_poster() {
    std::future<int> late = async::async([] { return 42; });
    std::fprintf(stderr, "late %d", late.get());
    threadpool::shared().execute([] { std::fputs(", executed", stderr); });
  }
};

walker serve(async::queue<async::promise<int>>& from) {
  while (auto asked = co_await from.pop()) asked->set_value(42);
}
/// The same in a coroutine that resumes inside an enqueue(); a coroutine answers the tasks.
struct late_coroutine {
  ~late_coroutine() {
    async::queue<async::promise<int>> server;
    const walker answers = serve(server);
    const auto ask = [&server](const char* name) {
      async::promise<int> p;
      async::future<int> answer = p.get_future();
      server.enqueue(std::move(p));
      const bool has_come = answer.wait_for(std::chrono::seconds(1)) == std::future_status::ready;
      std::fprintf(stderr, "%s %d; ", name, has_come ? answer.get() : 0);
    };
    async::queue<int> start;
    const walker posts = [](async::queue<int>& from, auto call) -> walker {
      co_await from.pop();
      threadpool::shared().execute([&] { call("pool"); });
      async::blocking_pool::shared().execute([&] { call("blocking"); });
      async::task_group group;
      group.run([&] { call("group"); });
      group.wait();
    }(start, ask);
    start.enqueue(1);
  }
};

/// Waits for flows of the shared pool in a worker's thread, as that ends.
struct late_flows {
  ~late_flows() {
    if (!is_used) return;
    const auto tell = [](const char* name, async::future<int> end) {
      try {
        end.get();
        std::fprintf(stderr, "%s ran; ", name);
      } catch (const std::future_error&) {
        std::fprintf(stderr, "%s broken; ", name);
      }
    };
    tell("post", steps::post<int>(threadpool::shared(), [](steps::IAsyncSteps& asi) { asi.success(1); }));
    steps::AsyncSteps owned{threadpool::shared()};
    owned.add([](steps::IAsyncSteps& asi) { asi.success(1); });
    tell("owned", owned.promise<int>());
  }
  bool is_used = false;
};
thread_local late_flows late_flows_of_thread;

}  // namespace

TEST_CASE("a pool that is destroyed inside one of its own tasks ends the program with a message") {
  const ending e = in_child([] {
    auto pool = std::make_unique<threadpool>(1);
    std::promise<void> never;
    pool->execute([&pool] { pool.reset(); });
    never.get_future().wait();
  });
  CHECK(e.aborted());
  CHECK(says(e, "destroyed inside one of its own tasks"));
}

TEST_CASE("an unhandled exception of a task ends the program, and its message is written") {
  const ending e = in_child([] {
    threadpool pool(1);
    pool.execute([] { throw std::runtime_error("the reason"); });
    pool.wait_idle();
  });
  CHECK(e.aborted());
  CHECK(says(e, "the reason"));
}

TEST_CASE("a program that exits runs the tasks that the shared pool has accepted, and does not hang") {
  const std::size_t exits = testing::rounds(250);
  for (std::size_t i = 0; i < exits; ++i) {
    const ending e = in_child([i] {
      for (int k = 0; k < 20; ++k) {
        threadpool::shared().execute([k] {
          if (k % 5 == 0) std::this_thread::yield();
          std::fputc('.', stderr);
        });
      }
      if (i % 2 == 0) threadpool::shared().configurepool(0);  // also paused
      std::exit(3);
    });
    REQUIRE(e.exit_code == 3);
    REQUIRE(count_of(e, '.') == 20);
  }
  std::printf("count: %zu exits\n", exits);
}

TEST_CASE("a task posted to the shared pool after its end runs on the posting thread") {
  const ending e = in_child([] {
    static const late_poster poster;
    CHECK(async::async([] { return 1; }).get() == 1);
    std::exit(0);
  });
  CHECK(e.exit_code == 0);
  CHECK(e.error == "late 42, executed");
}

TEST_CASE("a task that a resumed coroutine posts to a shared pool after its end is answered by a coroutine") {
  const ending e = in_child([] {
    static const late_coroutine poster;
    CHECK(async::async([] { return 1; }).get() == 1);
    async::blocking_pool::shared().post([] {}).get();
    std::exit(0);
  });
  CHECK(e.exit_code == 0);
  CHECK(e.error == "pool 42; blocking 42; group 42; ");
}

TEST_CASE("a task of the shared pool may call exit") {
  const ending e = in_child([] {
    threadpool::shared().execute([] { std::exit(5); });
    std::promise<void> never;
    never.get_future().wait();
  });
  CHECK(e.exit_code == 5);
}

TEST_CASE("a flow that a worker posts to the shared pool as its thread ends is cancelled, and nobody waits for ever") {
  const ending e = in_child([] {
    threadpool::shared().post([] { late_flows_of_thread.is_used = true; }).get();
    std::exit(0);
  });
  CHECK(e.exit_code == 0);
  CHECK(says(e, "post broken; owned broken; "));
}

TEST_CASE("a thread posts to the shared pool while the program exits after a stop(): refused, then run there") {
  const ending e = in_child([] {
    static struct joined {
      std::thread thread;
      ~joined() { thread.join(); }
    } poster;  // ends after the pool
    threadpool::shared().stop();
    std::promise<void> has_begun;
    poster.thread = std::thread([&has_begun] {
      bool has_run = false;
      for (bool is_first = true; !has_run; is_first = false) {
        try {
          threadpool::shared().execute([&has_run] { has_run = true; });
        } catch (const async::stopped&) {
          if (is_first) has_begun.set_value();
        }
      }
      std::fputs("executed", stderr);
    });
    has_begun.get_future().wait();
    std::exit(0);
  });
  CHECK(e.exit_code == 0);
  CHECK(e.error == "executed");
}
