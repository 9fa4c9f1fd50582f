// SPDX-License-Identifier: BSL-1.0
//
// Copies and moves that each entry point makes of callables, arguments and elements.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <iterator>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>
#include <version>
#if defined(__cpp_lib_jthread)
#include <stop_token>
#endif

#include "async/async.hpp"
#include "support/copies.hpp"

using namespace std::chrono_literals;
using testing::check_both_sizes;
using testing::check_copies;
using testing::counting_sum;

namespace {

constexpr auto call = [](auto&& argument) { argument(); };

/// Calls work() in a task, and returns when nothing is left to do.
template <class Work>
void inside(async::threadpool& pool, Work&& work) {
  pool.post([&] { work(); }).get();
  pool.wait_idle();
}

}  // namespace

TEST_CASE("a task moves what it is made of once, or makes it in its place") {
  check_both_sizes("task", 1, [](auto&& f) { async::task(FORWARD(f))(); });
  check_both_sizes("task in place", 1,
                   [](auto&& f) { async::task(std::in_place_type<std::remove_cvref_t<decltype(f)>>, FORWARD(f))(); });
  check_copies("unique_function", 1, [](auto&& f) { async::unique_function<void()>(FORWARD(f))(); });
}

TEST_CASE("a pool moves a call with a future once, and one without a future with its place in a queue") {
  async::threadpool pool(1);
  // From outside, a small one is moved into a slot of the queue and out of it.
  check_both_sizes("execute", 3, [&](auto&& f) {
    pool.execute(FORWARD(f));
    pool.wait_idle();
  });
  check_both_sizes("execute with arguments", 3, [&](auto&& f) {
    pool.execute(FORWARD(f), 1);
    pool.wait_idle();
  });
  check_both_sizes("execute, an argument", 3, [&](auto&& f) {
    pool.execute(call, FORWARD(f));
    pool.wait_idle();
  });
  check_both_sizes("bulk_execute", 3, [&](auto&& f) {
    if constexpr (std::is_lvalue_reference_v<decltype(f)>) {
      pool.bulk_execute(&f, 1);
    } else {
      pool.bulk_execute(std::make_move_iterator(&f), 1);
    }
    pool.wait_idle();
  });
  check_both_sizes("execute inside", 1, [&](auto&& f) { inside(pool, [&] { pool.execute(FORWARD(f)); }); });
  check_both_sizes("execute with arguments inside", 1,
                   [&](auto&& f) { inside(pool, [&] { pool.execute(FORWARD(f), 1); }); });
  check_both_sizes("execute, an argument, inside", 1,
                   [&](auto&& f) { inside(pool, [&] { pool.execute(call, FORWARD(f)); }); });
  check_both_sizes("post", 1, [&](auto&& f) { pool.post(FORWARD(f)).get(); });
  check_both_sizes("post, an argument", 1, [&](auto&& f) { pool.post(call, FORWARD(f)).get(); });
  check_both_sizes("post inside", 1, [&](auto&& f) { inside(pool, [&] { pool.post(FORWARD(f)); }); });
#if defined(__cpp_lib_jthread)
  check_copies("post with a stop_token, an argument", 1,
               [&](auto&& f) { pool.post([](std::stop_token, auto&& argument) { argument(); }, FORWARD(f)).get(); });
#endif
}

TEST_CASE("so does a blocking pool") {
  async::blocking_pool pool;
  check_both_sizes("execute", 3, [&](auto&& f) {
    pool.execute(FORWARD(f));
    pool.wait_idle();
  });
  check_both_sizes("execute with arguments", 3, [&](auto&& f) {
    pool.execute(FORWARD(f), 1);
    pool.wait_idle();
  });
  check_both_sizes("execute, an argument", 3, [&](auto&& f) {
    pool.execute(call, FORWARD(f));
    pool.wait_idle();
  });
  check_both_sizes("post", 1, [&](auto&& f) { pool.post(FORWARD(f)).get(); });
  check_both_sizes("post, an argument", 1, [&](auto&& f) { pool.post(call, FORWARD(f)).get(); });
}

TEST_CASE("async::async moves once, as std::async does") {
  check_both_sizes("async", 1, [](auto&& f) { async::async(FORWARD(f)).get(); });
  check_both_sizes("async, an argument", 1, [](auto&& f) { async::async(call, FORWARD(f)).get(); });
  check_both_sizes("async with a policy", 1, [](auto&& f) { async::async(std::launch::async, FORWARD(f)).get(); });
}

TEST_CASE("a task of a group is moved once; calls on the calling thread are used where they are") {
  async::threadpool pool(1);
  const auto run = [&](auto&& f) {
    async::task_group group(pool);
    group.run(FORWARD(f));
    group.wait();
  };
  check_both_sizes("run outside", 1, run);
  check_both_sizes("run inside", 1, [&](auto&& f) { inside(pool, [&] { run(FORWARD(f)); }); });
  check_copies("run_and_wait", 0, [&](auto&& f) { async::task_group(pool).run_and_wait(FORWARD(f)); });
  check_copies("parallel_invoke", 0, [&](auto&& f) { async::parallel_invoke(pool, [] {}, FORWARD(f)); });
}

TEST_CASE("a loop moves its functions once, in all its forms") {
  async::threadpool pool(1);
  std::vector<int> numbers(10);
  check_copies("numbers", 1, [&](auto&& f) { async::parallel_for(pool, 0, 10, FORWARD(f)); });
  check_copies("two types", 1, [&](auto&& f) { async::parallel_for(pool, 0, 10U, FORWARD(f)); });
  check_copies("step", 1, [&](auto&& f) { async::parallel_for(pool, 0, 10, 2, FORWARD(f)); });
  check_copies("range", 1, [&](auto&& f) { async::parallel_for(pool, numbers, FORWARD(f)); });
  check_copies("group", 1, [&](auto&& f) {
    async::task_group group(pool);
    async::parallel_for(group, 0, 10, FORWARD(f));
  });
  check_copies("shared pool", 1, [&](auto&& f) { async::parallel_for(0, 10, FORWARD(f)); });
  check_copies("shared pool, two types", 1, [&](auto&& f) { async::parallel_for(0, 10U, FORWARD(f)); });
  check_copies("shared pool, step", 1, [&](auto&& f) { async::parallel_for(0, 10, 2, FORWARD(f)); });
  check_copies("shared pool, range", 1, [&](auto&& f) { async::parallel_for(numbers, FORWARD(f)); });

  const std::plus<> sum;
  check_copies<counting_sum>("reduce", 1, [&](auto&& f) { async::parallel_reduce(pool, 0, 10, 0, FORWARD(f), sum); });
  check_copies<counting_sum>("reduce a range", 1,
                             [&](auto&& f) { async::parallel_reduce(pool, numbers, 0, FORWARD(f), sum); });
  check_copies<counting_sum>("reduce on the shared pool", 1,
                             [&](auto&& f) { async::parallel_reduce(0, 10, 0, FORWARD(f), sum); });
  check_copies<counting_sum>("reduce a range on the shared pool", 1,
                             [&](auto&& f) { async::parallel_reduce(numbers, 0, FORWARD(f), sum); });
}

TEST_CASE("a continuation is moved once; so is a value on each side of a future") {
  async::threadpool pool(1);
  async::blocking_pool disk;
  const auto ready = [] { return async::make_ready_future(); };
  check_copies("then", 1, [&](auto&& f) { ready().then(FORWARD(f)).get(); });
  check_copies("then, on the pool", 1, [&](auto&& f) { ready().then(pool, FORWARD(f)).get(); });
  check_copies("then, on the blocking pool", 1, [&](auto&& f) { ready().then(disk, FORWARD(f)).get(); });
  check_copies("then of a shared future", 1, [&](auto&& f) { ready().share().then(FORWARD(f)).get(); });
  check_copies("then, before it is ready", 1, [&](auto&& f) {
    async::promise<void> promise;
    async::future<void> continued = promise.get_future().then(FORWARD(f));
    promise.set_value();
    continued.get();
  });
  check_copies("a value", 2, [&](auto&& f) { async::make_ready_future(FORWARD(f)).get()(); });
}

TEST_CASE("a loop moves a small callback into its place, and a large one not at all") {
  async::event_loop loop;
  check_both_sizes("immediate", 2, [&](auto&& f) {
    loop.immediate(FORWARD(f));
    loop.iterate();
  });
  check_both_sizes("deferred", 2, [&](auto&& f) {
    loop.deferred(0s, FORWARD(f));
    loop.iterate();
  });
  check_both_sizes("post", 2, [&](auto&& f) {
    loop.post(FORWARD(f));
    loop.iterate();
  });
  check_both_sizes("immediate of another thread", 2, [&](auto&& f) {
    std::thread([&] { loop.immediate(FORWARD(f)); }).join();
    loop.iterate();
  });
  check_copies("on_unhandled", 1, [](auto&& f) {
    async::event_loop failing;
    failing.on_unhandled(FORWARD(f));
    failing.post([] { throw 1; });
    failing.iterate();
  });
}

TEST_CASE("a case of select() moves its handler once") {
  async::queue<int> queue;
  async::bounded_queue<int> bounded(1);
  async::event event(true);
  async::future<int> future = async::make_ready_future(1);
  check_copies("on_pop", 1, [&](auto&& f) {
    queue.enqueue(1);
    async::select(async::on_pop(queue, FORWARD(f)));
  });
  check_copies("on_push", 1, [&](auto&& f) {
    async::select(async::on_push(bounded, 1, FORWARD(f)));
    bounded.dequeue();
  });
  check_copies("on_ready", 1, [&](auto&& f) { async::select(async::on_ready(future, FORWARD(f))); });
  check_copies("on_set", 1, [&](auto&& f) { async::select(async::on_set(event, FORWARD(f))); });
  check_copies("after", 1, [&](auto&& f) { async::select(async::after(0s, FORWARD(f))); });
  check_copies("otherwise", 1, [&](auto&& f) { async::select(async::otherwise(FORWARD(f))); });
}

TEST_CASE("an element is moved into its queue and out of it") {
  async::queue<testing::small> queue;
  async::bounded_queue<testing::small> bounded(1);
  check_copies("enqueue", 2, [&](auto&& f) {
    queue.enqueue(FORWARD(f));
    (*queue.dequeue())();
  });
  check_copies("enqueue, bounded", 2, [&](auto&& f) {
    bounded.enqueue(FORWARD(f));
    (*bounded.dequeue())();
  });
  check_copies("blocking_enqueue", 2, [&](auto&& f) {
    bounded.blocking_enqueue(FORWARD(f));
    (*bounded.dequeue())();
  });
  check_copies("on_push", 2, [&](auto&& f) {
    async::select(async::on_push(bounded, FORWARD(f)));
    (*bounded.dequeue())();
  });
}
