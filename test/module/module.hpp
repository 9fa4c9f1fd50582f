// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "module/calls.hpp"

/// The module's side of calls: each module has its own, since all is in an unnamed namespace.
namespace {

using async::future;
using async::threadpool;
using module_test::calls;
using module_test::failure;
using steps::AsyncSteps;
using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

module_test::note noted;

/// Runs one check, which returns whether all is well. The name is known before, in case that it does not return.
template <class F>
void check(const char* name, F f) {
  noted(name, true);
  bool ok = false;
  try {
    ok = f();
  } catch (const std::exception& e) {
    std::printf("%s: %s\n", name, e.what());
  }
  if (!ok) noted(name, false);
}

void fail(failure how) {
  switch (how) {
    case failure::error:
      throw steps::Error("NoSuchThing", "for the test");
    case failure::stopped:
      throw async::stopped();
    case failure::queue_full:
      throw async::queue_full();
    case failure::dropped:
      throw async::dropped_call(async::dropped_call::reason::stopped);
    case failure::runtime:
      throw std::runtime_error("RuntimeError");
  }
}
/// Whether `f` throws what fail(how) does, by its type.
template <class F>
bool throws(failure how, F f) {
  try {
    f();
  } catch (const steps::Error& e) {
    return how == failure::error && e.code() == "NoSuchThing" && e.error_info() == "for the test";
  } catch (const async::stopped&) {
    return how == failure::stopped;
  } catch (const async::queue_full&) {
    return how == failure::queue_full;
  } catch (const async::dropped_call&) {
    return how == failure::dropped;
  } catch (const std::runtime_error&) {
    return how == failure::runtime;
  }
  return false;
}
constexpr failure all_failures[] = {failure::error, failure::stopped, failure::queue_full, failure::dropped,
                                    failure::runtime};
const char* code_of(failure how) {
  switch (how) {
    case failure::error:
      return "NoSuchThing";
    case failure::stopped:
      return "Stopped";
    case failure::queue_full:
      return "QueueFull";
    case failure::dropped:
      return "Stopped";
    default:
      return "RuntimeError";
  }
}

// --- what the other module calls -----------------------------------------------------------------------------------

threadpool* shared() { return &threadpool::shared(); }
async::blocking_pool* shared_blocking() { return &async::blocking_pool::shared(); }
threadpool* make_pool(std::size_t threads) { return new threadpool(threads); }
void free_pool(threadpool* pool) { delete pool; }
async::event_loop* make_loop() { return new async::event_loop; }
void free_loop(async::event_loop* loop) { delete loop; }

future<std::string> answer(threadpool& pool) {
  return pool.post([&pool] {
    future<std::string> word = pool.post([] { return std::string("forty-two"); });
    std::this_thread::sleep_for(2ms);
    return word.get();
  });
}
std::future<std::string> standard_answer(threadpool& pool) { return answer(pool); }
int take(async::queue<int>& queue) {
  int element = 0;
  return queue.blocking_dequeue(element) ? element : -1;
}
void put(async::queue<int>& queue, int element) { queue.enqueue(element); }

void add_results(IAsyncSteps& asi) {
  asi.add([](IAsyncSteps& inner) { inner.success(std::string("seven"), 7); });
}
void add_failure(IAsyncSteps& asi, failure how) {
  asi.add([how](IAsyncSteps& inner) {
    if (how == failure::error) inner.error("NoSuchThing", "for the test");
    fail(how);
  });
}
void add_state(IAsyncSteps& asi) {
  asi.add([](IAsyncSteps& inner) { inner.state()["name"] = std::string("value"); });
}
void add_timeout(IAsyncSteps& asi) {
  asi.add([](IAsyncSteps& inner) {
    inner.setTimeout(5ms);
    inner.add([](IAsyncSteps& waiting) { waiting.waitExternal(); });
  });
}
void add_wait(IAsyncSteps& asi, bool& cancelled) {
  asi.add([&cancelled](IAsyncSteps& inner) { inner.setCancel([&cancelled](IAsyncSteps&) { cancelled = true; }); });
}
void add_section(IAsyncSteps& asi, steps::Mutex& mutex, int& inside, int& most) {
  asi.sync(mutex, [&inside, &most](IAsyncSteps& inner) {
    most = std::max(most, ++inside);
    inner.add([](IAsyncSteps& waiting) {
      waiting.waitExternal();
      waiting.tool().deferred(1ms, [&waiting] { waiting.success(); });
    });
    inner.add([&inside](IAsyncSteps&) { --inside; });
  });
}
void cancel(AsyncSteps& flow) { flow.cancel(); }

// --- checks --------------------------------------------------------------------------------------------------------

/// Runs a flow that `build` adds steps to, on a pool or a loop, and returns the result of the last one.
template <class R, class On, class Build>
R result_of(On& on, Build build) {
  AsyncSteps flow{on};
  build(flow);
  future<R> result = flow.promise<R>();
  if constexpr (std::is_same_v<On, async::event_loop>) {
    while (!result.is_ready()) on.run_for(1ms);
  }
  return result.get();
}

template <class On>
void check_flows(const calls& other, On& on) {
  check("results of a flow", [&] {
    return result_of<int>(on, [&](AsyncSteps& flow) {
             other.add_results(flow);
             flow.add([](IAsyncSteps& asi, const std::string& name, int number) {
               asi.success(name == "seven" ? number + 1 : 0);
             });
           }) == 8;
  });
  check("results of a flow's last step",
        [&] { return result_of<std::string>(on, [&](AsyncSteps& flow) { other.add_results(flow); }) == "seven"; });
  check("results that the other module's step has passed on", [&] {
    return result_of<int>(on, [&](AsyncSteps& flow) {
             flow.add([&other](IAsyncSteps& asi) { other.add_results(asi); });
             flow.add([](IAsyncSteps& asi, std::string, int number) { asi.success(number); });
           }) == 7;
  });
  check("errors of a flow, by code", [&] {
    bool all = true;
    for (const failure how : all_failures) {
      all = all && result_of<bool>(on, [&](AsyncSteps& flow) {
              flow.add([&other, how](IAsyncSteps& asi) { other.add_failure(asi, how); },
                       [how](IAsyncSteps& asi, ErrorCode code) { asi.success(code == code_of(how)); });
            });
    }
    return all;
  });
  check("errors of a flow, by type", [&] {
    bool all = true;
    for (const failure how : all_failures) {
      all = all && throws(how, [&] { result_of<int>(on, [&](AsyncSteps& flow) { other.add_failure(flow, how); }); });
    }
    return all;
  });
  check("state of a flow", [&] {
    return result_of<bool>(on, [&](AsyncSteps& flow) {
      other.add_state(flow);
      flow.add([](IAsyncSteps& asi) { asi.success(asi.state<std::string>("name") == "value"); });
    });
  });
  check("a timeout", [&] {
    return result_of<bool>(on, [&](AsyncSteps& flow) {
      flow.add([&other](IAsyncSteps& asi) { other.add_timeout(asi); },
               [](IAsyncSteps& asi, ErrorCode code) { asi.success(code == "Timeout"); });
    });
  });
  check("retry below a timeout", [&] {
    return result_of<bool>(on, [&](AsyncSteps& flow) {
      flow.add(
          [&other](IAsyncSteps& asi) {
            asi.setTimeout(20ms);
            asi.retry({.attempts = 1000, .delay = 1ms}, [&other](IAsyncSteps& attempt) { other.add_timeout(attempt); });
          },
          [](IAsyncSteps& asi, ErrorCode code) { asi.success(code == "Timeout"); });
    });
  });
  check("await of the other module's future", [&] {
    threadpool* const pool = other.make_pool(1);
    const bool right = result_of<bool>(on, [&](AsyncSteps& flow) {
      flow.add([&other, pool](IAsyncSteps& asi) { asi.await(other.answer(*pool)); });
      flow.add([](IAsyncSteps& asi, const std::string& text) { asi.success(text == "forty-two"); });
    });
    other.free_pool(pool);
    return right;
  });
  check("await of the other module's std::future", [&] {
    threadpool* const pool = other.make_pool(1);
    const bool right = result_of<bool>(on, [&](AsyncSteps& flow) {
      flow.add([&other, pool](IAsyncSteps& asi) { asi.await(other.standard_answer(*pool)); });
      flow.add([](IAsyncSteps& asi, const std::string& text) { asi.success(text == "forty-two"); });
    });
    other.free_pool(pool);
    return right;
  });
  check("a mutex", [&] {
    steps::Mutex mutex;
    int inside = 0;
    int most = 0;
    return result_of<bool>(on,
                           [&](AsyncSteps& flow) {
                             IAsyncSteps& group = flow.parallel();
                             for (int i = 0; i != 3; ++i) {
                               group.add([&](IAsyncSteps& asi) { other.add_section(asi, mutex, inside, most); });
                               group.add([&](IAsyncSteps& asi) { add_section(asi, mutex, inside, most); });
                             }
                             flow.add([](IAsyncSteps& asi) { asi.success(true); });
                           }) &&
           most == 1;
  });
}

void check_cancel(const calls& other, threadpool& pool) {
  check("cancel", [&] {
    bool cancelled = false;
    std::promise<void> waits;
    AsyncSteps flow{pool};
    flow.add([&](IAsyncSteps& asi) {
      other.add_wait(asi, cancelled);
      waits.set_value();
    });
    future<void> end = flow.promise();
    waits.get_future().get();
    other.cancel(flow);
    try {
      end.get();
    } catch (const std::future_error&) {  // it has no result
      return cancelled;
    }
    return false;
  });
  check("destruction of a flow that waits", [&] {
    bool cancelled = false;
    std::promise<void> waits;
    {
      AsyncSteps flow{pool};
      flow.add([&](IAsyncSteps& asi) {
        other.add_wait(asi, cancelled);
        waits.set_value();
      });
      flow.execute();
      waits.get_future().get();
    }
    return cancelled;
  });
}

int sum_of(threadpool& pool, int first, int last) {
  if (last - first < 10) {
    int sum = 0;
    for (int i = first; i != last; ++i) sum += i;
    return sum;
  }
  const int middle = first + (last - first) / 2;
  future<int> left = pool.post(sum_of, std::ref(pool), first, middle);
  std::future<int> right = pool.post(sum_of, std::ref(pool), middle, last);
  return pool.wait(left) + pool.wait(right);
}

void check_pool(const calls& other, threadpool& pool) {
  check("wait() inside a task", [&] { return pool.post(sum_of, std::ref(pool), 0, 1000).get() == 499'500; });
  check("get() inside a task", [&] { return answer(pool).get() == "forty-two"; });
  check("get() of the other module's future inside a task",
        [&] { return pool.post([&] { return other.answer(pool).get(); }).get() == "forty-two"; });
  check("the current pool", [&] { return pool.post([] { return threadpool::current(); }).get() == &pool; });
  check("wait_idle() inside a task", [&] {
    return pool
        .post([&pool] {
          try {
            pool.wait_idle();
          } catch (const std::system_error& e) {
            return e.code() == std::errc::resource_deadlock_would_occur;
          }
          return false;
        })
        .get();
  });
  check("a group inside a task", [&] {
    return pool.post([&pool] {
                 std::atomic<int> runs{0};
                 async::task_group group(pool);
                 for (int i = 0; i != 20; ++i) {
                   group.run([&pool, &runs] {
                     async::task_group inner(pool);
                     for (int j = 0; j != 5; ++j) inner.run([&runs] { ++runs; });
                     inner.wait();
                   });
                 }
                 group.wait();
                 return runs.load();
               })
               .get() == 100;
  });
  check("a loop inside a task", [&] {
    return pool.post([&pool] {
                 return async::parallel_reduce(
                     pool, 0, 1000, 0L, [](int i, long sum) { return sum + i; }, std::plus<long>());
               })
               .get() == 499'500;
  });
  check("exceptions of tasks, by type", [&] {
    bool all = true;
    for (const failure how : all_failures) {
      all = all && throws(how, [&] { pool.post([&other, how] { other.fail(how); }).get(); });
    }
    return all;
  });
  check("continuations", [&] {
    return other.answer(pool).then(pool, [](future<std::string> ready) { return ready.get().size(); }).get() == 9;
  });
  check("a queue", [&] {
    async::queue<int> queue;
    future<int> sum = pool.post([&] { return other.take(queue) + other.take(queue); });
    std::this_thread::sleep_for(2ms);
    put(queue, 1);
    std::this_thread::sleep_for(2ms);
    put(queue, 2);
    return sum.get() == 3;
  });
  check("a post after stop()", [&] {
    threadpool* const ended = other.make_pool(1);
    ended->stop();
    const bool right = throws(failure::stopped, [&] { ended->post([] {}).get(); });
    other.free_pool(ended);
    return right;
  });
}

/// A pool of the other module has gone, and a thread outside waits for a call that it has made.
void check_wait_without_pool(const calls& other) {
  check("a wait for a call whose pool has gone", [&other] {
    async::promise<int> late;
    async::promise<void> start;
    threadpool* const ended = other.make_pool(1);
    future<int> result = start.get_future().then(*ended, [&late](future<void>) { return late.get_future(); });
    start.set_value();
    other.free_pool(ended);  // makes the call, which returns a future
    std::thread maker([&late] {
      std::this_thread::yield();
      late.set_value(7);
    });
    result.wait();
    maker.join();
    return result.get() == 7;
  });
}

void check_shared(const calls& other) {
  check("shared pools", [&] {
    return other.shared() == shared() && other.shared_blocking() == shared_blocking() &&
           async::async([&other] { return async::async([&other] { return other.shared(); }).get(); }).get() == shared();
  });
}

void check_all(const calls& other) {
  check("exceptions, by type", [&] {
    bool all = true;
    for (const failure how : all_failures) all = all && throws(how, [&] { other.fail(how); });
    return all;
  });
  for (const std::size_t threads : {std::size_t{1}, std::size_t{3}}) {
    threadpool* const pool = other.make_pool(threads);
    check_pool(other, *pool);
    check_flows(other, *pool);
    check_cancel(other, *pool);
    other.free_pool(pool);
  }
  check_wait_without_pool(other);
  async::event_loop* const loop = other.make_loop();
  check_flows(other, *loop);
  other.free_loop(loop);
}

void run_until_ready(async::event_loop& loop, future<int>& result) {
  while (!result.is_ready()) loop.run_for(1ms);
}

void heavy_fence() { async::detail::heavy_fence(); }

/// Whether `f` throws an exception that names the cause.
template <class F>
bool tells(F f) {
  try {
    f();
  } catch (const steps::Error& e) {
    return e.code() == "InternalError" && e.error_info().find("another module") != std::string::npos;
  } catch (const std::exception& e) {
    return std::string(e.what()).find("another module") != std::string::npos;
  }
  return false;
}

void check_separate(const calls& other) {
  check("separate: shared pools", [&] { return other.shared() != shared(); });
  threadpool* const pool = other.make_pool(1);
  if constexpr (async::detail::platform::wakes_only_own_module) {
    check("separate: post()", [&] { return tells([&] { pool->post([] { return 7; }); }); });
    check("separate: execute()", [&] { return tells([&] { pool->execute([] {}); }); });
    check("separate: steps::post()", [&] { return tells([&] { steps::post(*pool, [](IAsyncSteps&) {}); }); });
    other.free_pool(pool);
    return;
  }
  check_wait_without_pool(other);
  check("separate: a task and its result", [&] { return pool->post([] { return 7; }).get() == 7; });
  check("separate: wait() inside a task", [&] {
    return pool
        ->post([pool] {
          future<int> inner = pool->post([] { return 7; });
          return tells([&] { pool->wait(inner); });
        })
        .get();
  });
  check("separate: get() inside a task", [&] {
    return pool
        ->post([pool] {
          future<int> inner = pool->post([] { return 7; });
          const bool told = tells([&] { inner.get(); });
          inner.cancel();
          return told;
        })
        .get();
  });
  check("separate: wait() for a std::future inside a task", [&] {
    return pool
        ->post([pool] {
          std::future<int> inner = pool->post([] { return 7; });
          return tells([&] { pool->wait(inner); });
        })
        .get();
  });
  check("separate: wait_idle() inside a task",
        [&] { return pool->post([pool] { return tells([&] { pool->wait_idle(); }); }).get(); });
  check("separate: success() on a pool", [&] {
    return tells(
        [&] { result_of<int>(*pool, [](AsyncSteps& flow) { flow.add([](IAsyncSteps& asi) { asi.success(1); }); }); });
  });
  check("separate: error() on a pool", [&] {
    return tells([&] {
      result_of<int>(*pool, [](AsyncSteps& flow) { flow.add([](IAsyncSteps& asi) { asi.errorNoThrow("Mine"); }); });
    });
  });
  other.free_pool(pool);
  async::event_loop* const loop = other.make_loop();
  check("separate: success() on a loop", [&] {
    AsyncSteps flow{*loop};
    flow.add([](IAsyncSteps& asi) { asi.success(1); });
    future<int> result = flow.promise<int>();
    other.run_until_ready(*loop, result);
    return tells([&] { result.get(); });
  });
  other.free_loop(loop);
}

void use(threadpool& pool) {
  check("a task before the library is unloaded", [&] { return pool.post([] { return 7; }).get() == 7; });
  check("a flow before the library is unloaded", [&] {
    return result_of<int>(pool, [](AsyncSteps& flow) { flow.add([](IAsyncSteps& asi) { asi.success(1); }); }) == 1;
  });
  check("a loop before the library is unloaded", [&] {
    std::atomic<int> runs{0};
    async::parallel_for(pool, 0, 1000, [&runs](int) { ++runs; });
    return runs == 1000;
  });
}

constexpr calls own_calls{
    &shared,      &shared_blocking, &make_pool,   &free_pool, &make_loop,   &free_loop,    &fail,
    &answer,      &standard_answer, &take,        &put,       &add_results, &add_failure,  &add_state,
    &add_timeout, &add_wait,        &add_section, &cancel,    &check_all,   &check_shared, &check_separate,
    &use,         &run_until_ready, &heavy_fence};

}  // namespace
