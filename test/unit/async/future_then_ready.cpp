// SPDX-License-Identifier: BSL-1.0
//
// then() on futures that are ready, inside functions of then(): no stack grows, and a wait finds what was put off.
#include <doctest/doctest.h>

#include <chrono>   // for milliseconds
#include <future>   // for future, future_status, future_error
#include <memory>   // for make_shared
#include <utility>  // for move

#include "async/detail/base/platform.hpp"
#include "async/future.hpp"
#include "async/select.hpp"
#include "async/task_group.hpp"
#include "async/threadpool.hpp"
#include "support/gate.hpp"

using async::future;
using async::make_ready_future;
using async::threadpool;

namespace {

constexpr int many = 200'000;

/// A loop by unwrapping.
future<int> rounds(int left) {
  if (left == 0) return make_ready_future(many);
  return make_ready_future(left).then([](future<int> f) { return rounds(f.get() - 1); });
}

/// The same with calls that have ended.
future<int> rounds(threadpool& pool, int left) {
  if (left == 0) return make_ready_future(many);
  future<int> call = pool.post([left] { return left; });
  call.wait();
  return std::move(call).then([&pool](future<int> f) { return rounds(pool, f.get() - 1); });
}

/// The same without a result that anyone waits for.
void count_down(int left, int& last) {
  last = left;
  if (left != 0) make_ready_future().then([left, &last](future<void>) { count_down(left - 1, last); });
}

/// Calls f() where the stack is so short that then() on a ready future is put off.
template <class F>
void where_the_stack_is_short(const F& f) {
  volatile char room[4096];
  room[0] = 0;
  if (async::detail::has_stack_room()) {
    where_the_stack_is_short(f);
  } else {
    f();
  }
  room[1] = room[0];
}

/// Calls f() inside a thousand calls of then() on ready futures: one more is put off.
template <class F>
void where_calls_are_deep(const F& f, int calls = 1'000) {
  make_ready_future().then([&f, calls](future<void>) { calls == 1 ? f() : where_calls_are_deep(f, calls - 1); });
}

}  // namespace

TEST_CASE("a loop over ready futures takes no stack") {
  CHECK(rounds(many).get() == many);
  threadpool pool(1);
  CHECK(pool.post([] { return rounds(many).get(); }).get() == many);
  CHECK(rounds(pool, 50'000).get() == many);
  int last = -1;
  count_down(many, last);
  CHECK(last == 0);
}

TEST_CASE("where the stack is short, then() on a ready future is put off to the outermost call, or to a wait") {
  bool has_run = false;
  future<int> later;
  const auto after = [&has_run](future<int> f) {
    has_run = true;
    return f.get() + 1;
  };
  make_ready_future().then([&](future<void>) {
    where_the_stack_is_short([&] {
      later = make_ready_future(1).then(after);
      CHECK(!has_run);
    });
    SUBCASE("the end of the outermost call") {}
    SUBCASE("get()") { CHECK(later.get() == 2); }
    SUBCASE("wait_for()") { CHECK(later.wait_for(std::chrono::milliseconds(0)) == std::future_status::ready); }
  });
  CHECK(has_run);
  if (later.valid()) CHECK(later.get() == 2);
}

TEST_CASE("what a task inside a wait puts off does not wait for the calls around that wait") {
  threadpool pool(1);
  const int result = pool.post([&pool] {
                           return make_ready_future()
                               .then([&pool](future<void>) {
                                 future<int> loop = pool.post([] { return rounds(many).get(); });
                                 return loop.get();
                               })
                               .get();
                         })
                         .get();
  CHECK(result == many);
  async::task_group group(pool);
  bool has_run = false;
  make_ready_future().then([&](future<void>) {
    where_the_stack_is_short([&] {
      future<void> later = make_ready_future().then([&has_run](future<void>) { has_run = true; });
      group.run([&later] { later.get(); });
      CHECK(group.wait());
    });
  });
  CHECK(has_run);
}

TEST_CASE("what was put off runs before its thread waits for a group, whose tasks may need it") {
  testing::gate held;
  threadpool pool(1);
  make_ready_future().then([&](future<void>) {
    where_the_stack_is_short([&] {
      make_ready_future().then([&held](future<void>) { held.open(); });
      async::task_group group(pool);
      group.run([&held] { held.pass(); });
      held.wait_for_one();  // the worker has taken the task
      CHECK(group.wait());
    });
  });
}

TEST_CASE("then() in a task inside a wait is not put off for the calls around that wait") {
  testing::gate held;
  threadpool pool(1);
  bool has_run = false, has_run_in_time = false;
  where_calls_are_deep([&] {
    async::task_group group(pool);
    pool.execute([&] {
      group.run([&] {
        make_ready_future().then([&has_run](future<void>) { has_run = true; });
        has_run_in_time = has_run;
      });
      held.pass();
    });
    held.wait_for_one();
    CHECK(group.wait());  // takes the task from the worker
    held.open();
  });
  CHECK(has_run_in_time);
}

TEST_CASE("then() in a task that its own thread runs where it waits is not put off for the calls around that wait") {
  threadpool pool(1);
  bool has_run = false, has_run_in_time = false;
  const auto work = [&] {
    make_ready_future().then([&has_run](future<void>) { has_run = true; });
    has_run_in_time = has_run;
  };
  const auto check = [&](const auto& wait) {
    pool.execute([&] { where_calls_are_deep(wait); });
    pool.wait_idle();
    CHECK(has_run_in_time);
  };
  SUBCASE("a group") {
    check([&] {
      async::task_group group(pool);
      group.run(work);
      CHECK(group.wait());
    });
  }
  SUBCASE("a future") {
    check([&] { pool.post(work).get(); });
  }
  SUBCASE("a std::future") {
    check([&] {
      std::future<void> call = pool.post(work);
      pool.wait(call);
    });
  }
}

TEST_CASE("what was put off runs before a group's wait runs a task on the same thread") {
  threadpool pool(1);
  bool has_run = false, has_run_in_time = false;
  pool.execute([&] {
    where_calls_are_deep([&] {
      make_ready_future().then([&has_run](future<void>) { has_run = true; });
      async::task_group group(pool);
      group.run([&] { has_run_in_time = has_run; });
      CHECK(group.wait());
    });
  });
  pool.wait_idle();
  CHECK(has_run_in_time);
}

TEST_CASE("what was put off runs before its thread waits by select()") {
  threadpool pool(1);
  for (const bool in_task : {false, true}) {
    const auto waits = [] {
      where_calls_are_deep([] {
        future<int> put_off = make_ready_future(1).then([](future<int> f) { return f.get() + 1; });
        CHECK(async::select(async::on_ready(put_off)) == 0);
        CHECK(put_off.get() == 2);
      });
    };
    in_task ? pool.post(waits).get() : waits();
  }
}

#if ASYNCSTEPS_CALL_STATE == 1
TEST_CASE("what was put off runs before its thread waits for a std::future that was made of an own one") {
  threadpool pool(1);
  enum class wait { by_get, for_a_copy, by_pool };
  for (const bool in_task : {false, true}) {
    for (const wait how : {wait::by_get, wait::for_a_copy, wait::by_pool}) {
      int got = 0;
      const auto waits = [&] {
        where_calls_are_deep([&] {
          future<int> put_off = make_ready_future(1).then([](future<int> f) { return f.get() + 1; });
          CHECK_FALSE(put_off.is_ready());
          if (how == wait::for_a_copy) {
            const std::shared_future<int> copy = make_ready_future(2).share();
            got = copy.get();
          } else {
            std::future<int> converted = std::move(put_off);
            got = how == wait::by_get ? converted.get() : pool.wait(converted);
          }
        });
      };
      in_task ? pool.post(waits).get() : waits();
      CHECK(got == 2);
    }
  }
}
#endif

TEST_CASE("what was put off can be cancelled") {
  const auto token = std::make_shared<int>(0);
  future<void> later;
  make_ready_future().then([&](future<void>) {
    where_the_stack_is_short([&] { later = make_ready_future().then([token](future<void>) {}); });
    CHECK(token.use_count() == 2);
    CHECK(later.cancel());
    CHECK(token.use_count() == 1);
  });
  CHECK_THROWS_AS(later.get(), std::future_error);
}
