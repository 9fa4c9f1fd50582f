// SPDX-License-Identifier: BSL-1.0
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <utility>
#include <vector>

#include "async/event_loop.hpp"
#include "async/manual_clock.hpp"
#include "async/queue.hpp"
#include "async/select.hpp"
#include "async/threadpool.hpp"
#include "budget.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/sync.hpp"
#include "steps/interop/when_all.hpp"
#include "steps/interop/with_timeout.hpp"
#include "steps/spawn.hpp"
#include "steps/steps.hpp"

namespace {

using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;

using nitro = steps::NitroSteps<steps::nitro::MaxSteps<10>, steps::nitro::MaxTimeouts<1>, steps::nitro::MaxCancels<1>,
                                steps::nitro::MaxStackAllocs<0>, steps::nitro::MaxParallel<8>,
                                steps::nitro::BranchBytes<128>, steps::nitro::MaxErrorText<30>>;

void drain(async::event_loop& loop) {
  while (loop.iterate().have_work) {
  }
}

/// A flow that build() has filled, run to its end, `runs` times.
template <class Flow, class Build>
void again(std::size_t runs, Build build) {
  async::manual_clock clock;
  async::event_loop loop(clock);
  Flow flow{loop};
  std::size_t ended = 0;
  for (std::size_t i = 0; i < runs; ++i) {
    build(flow);
    flow.add([&ended](IAsyncSteps&) { ++ended; });
    flow.execute();
    drain(loop);
  }
  if (ended != runs) std::abort();
}

template <class Flow>
void create(std::size_t times) {
  async::manual_clock clock;
  async::event_loop loop(clock);
  std::size_t done = 0;
  for (std::size_t i = 0; i < times; ++i) {
    Flow flow{loop};
    flow.add([&done](IAsyncSteps&) { ++done; });
    flow.execute();
    drain(loop);
  }
  if (done != times) std::abort();
}

/// A flow's future, taken by the thread that runs the loop.
void promise(std::size_t times) {
  async::manual_clock clock;
  async::event_loop loop(clock);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < times; ++i) {
    steps::AsyncSteps flow{loop};
    flow.add([](IAsyncSteps& asi) { asi.success(std::size_t{1}); });
    auto result = flow.promise<std::size_t>();
    drain(loop);
    sum += result.get();
  }
  if (sum != times) std::abort();
}

/// Flows on the only worker of a pool, each of which posts the next one.
struct posted {
  async::threadpool& pool;
  std::size_t left;
  std::promise<void>& end;
  void operator()(IAsyncSteps& asi) const {
    if (left == 0) {
      end.set_value();
    } else {
      static_cast<void>(steps::post<std::size_t>(pool, posted{pool, left - 1, end}));
    }
    asi.success(left);
  }
};
void post(std::size_t times) {
  async::threadpool pool(1);
  std::promise<void> end;
  static_cast<void>(steps::post<std::size_t>(pool, posted{pool, times, end}));
  end.get_future().wait();
}

/// Nine steps to a flow.
template <class Flow>
void step(std::size_t times) {
  again<Flow>(times / 9, [](Flow& flow) {
    for (int i = 0; i < 8; ++i) flow.add([](IAsyncSteps&) {});
  });
}

template <class Flow>
void nested(std::size_t times) {
  again<Flow>(times, [](Flow& flow) {
    flow.add([](IAsyncSteps& one) {
      one.add([](IAsyncSteps& two) { two.add([](IAsyncSteps& three) { three.success(3); }); });
    });
    flow.add([](IAsyncSteps&, int three) {
      if (three != 3) std::abort();
    });
  });
}

template <class Flow>
void poll(std::size_t times) {
  again<Flow>(1, [times](Flow& flow) { flow.repeat(times, [](IAsyncSteps&, std::size_t) {}); });
}

template <class Flow>
void relinquish(std::size_t times) {
  again<Flow>(1, [times](Flow& flow) { flow.repeat(times, [](IAsyncSteps& asi, std::size_t) { asi.relinquish(); }); });
}

template <class Flow>
void completion(std::size_t times) {
  again<Flow>(1, [times](Flow& flow) {
    flow.repeat(times, [](IAsyncSteps& asi, std::size_t) {
      auto done = asi.completion<>();
      done.success();
    });
  });
}

template <class Flow>
void timeout(std::size_t times) {
  again<Flow>(1, [times](Flow& flow) {
    flow.repeat(times, [](IAsyncSteps& asi, std::size_t) {
      asi.setTimeout(10s);
      asi.success();
    });
  });
}

template <class Flow>
void error(std::size_t times) {
  again<Flow>(1, [times](Flow& flow) {
    flow.repeat(times, [](IAsyncSteps& asi, std::size_t) {
      asi.add([](IAsyncSteps& inner) { inner.errorNoThrow("Refused"); },
              [](IAsyncSteps& failed, ErrorCode) { failed.success(); });
    });
  });
}

template <class Flow>
void sync(std::size_t times) {
  steps::Mutex mutex;
  again<Flow>(1, [times, &mutex](Flow& flow) {
    flow.repeat(times, [&mutex](IAsyncSteps& asi, std::size_t) { asi.sync(mutex, [](IAsyncSteps&) {}); });
  });
}

/// The element is in the second queue.
template <class Flow>
void select(std::size_t times) {
  async::queue<std::size_t> first, second;
  again<Flow>(1, [times, &first, &second](Flow& flow) {
    flow.repeat(times, [&first, &second](IAsyncSteps& asi, std::size_t i) {
      second.enqueue(i);
      asi.select(async::on_pop(first, [](IAsyncSteps&, std::size_t) {}),
                 async::on_pop(second, [](IAsyncSteps&, std::size_t) {}));
    });
  });
}

/// The element comes from another flow when the first one waits, which goes on in the next turn.
void select_waits(std::size_t times) {
  async::manual_clock clock;
  async::event_loop loop(clock);
  async::queue<std::size_t> first, second;
  std::size_t sum = 0;
  const auto take = [&sum](IAsyncSteps&, std::size_t one) { sum += one; };
  steps::AsyncSteps consumer{loop}, producer{loop};
  consumer.repeat(times, [&](IAsyncSteps& asi, std::size_t) {
    asi.select(async::on_pop(first, take), async::on_pop(second, take));
  });
  producer.repeat(times, [&](IAsyncSteps& asi, std::size_t) {
    second.enqueue(std::size_t{1});
    asi.relinquish();
  });
  consumer.execute();
  producer.execute();
  drain(loop);
  if (sum != times) std::abort();
}

/// Two flows that send each other messages by two queues.
void answers(std::size_t times) {
  async::event_loop loop;
  async::queue<int> there;
  async::queue<int> back;
  steps::AsyncSteps asks{loop};
  steps::AsyncSteps answers{loop};
  asks.repeat(times / 2, [&](IAsyncSteps& asi, std::size_t) { asi.enqueue(there, 1).await(back); });
  answers.repeat(times / 2, [&](IAsyncSteps& asi, std::size_t) { asi.await(there).enqueue(back, 2); });
  int ended = 0;
  for (auto* const flow : {&asks, &answers}) {
    flow->add([&ended](IAsyncSteps&) { ++ended; });
    flow->execute();
  }
  drain(loop);
  if (ended != 2) std::abort();
}

constexpr auto add_eight_branches = [](IAsyncSteps& asi) {
  auto& branches = asi.parallel();
  for (int i = 0; i < 8; ++i) branches.add([](IAsyncSteps&) {});
};
template <class Flow>
void parallel(std::size_t times) {
  again<Flow>(times, add_eight_branches);
}

void parallel_on_pool(std::size_t times) {
  async::threadpool pool(1);
  steps::post(pool, [times](IAsyncSteps& asi) { asi.repeat(times, add_eight_branches); }).get();
}

steps::interop::task<int> number(int i) { co_return i; }

/// One coroutine that waits `times` times for all of `count` tasks, or for the first of them.
template <int count, bool is_race>
void tasks(std::size_t times) {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add(steps::interop::co([times](IAsyncSteps&) -> steps::interop::task<> {
    for (std::size_t i = 0; i < times; ++i) {
      std::vector<steps::interop::task<int>> all;
      all.reserve(count);
      for (int n = 0; n < count; ++n) all.push_back(number(n));
      if constexpr (is_race) {
        static_cast<void>(co_await steps::interop::when_any(std::move(all)));
      } else {
        static_cast<void>(co_await steps::interop::when_all(std::move(all)));
      }
    }
  }));
  flow.execute();
  drain(loop);
}
/// A coroutine that awaits what make(number) returns.
template <class Make>
void each_awaits(std::size_t times, Make make) {
  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  flow.add(steps::interop::co([times, make](IAsyncSteps&) -> steps::interop::task<> {
    for (std::size_t i = 0; i < times; ++i) static_cast<void>(co_await make(static_cast<int>(i)));
  }));
  flow.execute();
  drain(loop);
}
void two_tasks(std::size_t times) {
  each_awaits(times, [](int i) { return steps::interop::when_all(number(i), number(i)); });
}
void one_task(std::size_t times) { each_awaits(times, number); }
void limited_task(std::size_t times) {
  each_awaits(times, [](int i) { return steps::interop::with_timeout(1h, number(i)); });
}
void synced_task(std::size_t times) {
  steps::Mutex mutex;
  each_awaits(times, [&mutex](int i) { return steps::interop::sync(mutex, number(i)); });
}
void popped(std::size_t times) {
  async::queue<int> queue;
  for (std::size_t i = 0; i < times; ++i) queue.enqueue(0);
  each_awaits(times, [&queue](int) { return queue.pop(); });
}

}  // namespace

int main() {
  return budget::measure({
      {"AsyncSteps: create a flow, run its step, destroy it", 300, create<steps::AsyncSteps>},
      {"AsyncSteps: a flow of one step with promise(), and get()", 300, promise},
      {"AsyncSteps: a step of nine", 900, step<steps::AsyncSteps>},
      {"AsyncSteps: a flow of three nested steps with a result", 300, nested<steps::AsyncSteps>},
      {"AsyncSteps: an iteration", 1000, poll<steps::AsyncSteps>},
      {"AsyncSteps: an iteration with relinquish", 1000, relinquish<steps::AsyncSteps>},
      {"AsyncSteps: an iteration with a completion", 1000, completion<steps::AsyncSteps>},
      {"AsyncSteps: an iteration with setTimeout", 1000, timeout<steps::AsyncSteps>},
      {"AsyncSteps: a step's errorNoThrow and its handler", 1000, error<steps::AsyncSteps>},
      {"AsyncSteps: sync with a free Mutex", 1000, sync<steps::AsyncSteps>},
      {"AsyncSteps: select of two queues with an element", 1000, select<steps::AsyncSteps>},
      {"AsyncSteps: select of two queues that waits, and a flow that enqueues", 1000, select_waits},
      {"AsyncSteps: a message by a queue to a flow that waits", 1000, answers},
      {"AsyncSteps: a parallel of eight", 300, parallel<steps::AsyncSteps>},
      {"NitroSteps: create a flow, run its step, destroy it", 300, create<nitro>},
      {"NitroSteps: a step of nine", 900, step<nitro>},
      {"NitroSteps: an iteration with setTimeout", 1000, timeout<nitro>},
      {"NitroSteps: a step's errorNoThrow and its handler", 1000, error<nitro>},
      {"NitroSteps: a parallel of eight", 300, parallel<nitro>},
      {"steps::post: a flow of one step with its future", 300, post},
      {"steps::post: a parallel of eight, again and again", 300, parallel_on_pool},
      {"coroutine: a task that does not wait", 1000, one_task},
      {"coroutine: an element of a queue that does not wait", 1000, popped},
      {"coroutine: with_timeout() of a task", 300, limited_task},
      {"coroutine: sync() with a free Mutex", 300, synced_task},
      {"coroutine: when_all(a, b)", 300, two_tasks},
      {"coroutine: when_all of a vector of eight", 300, tasks<8, false>},
      {"coroutine: when_any of a vector of eight", 300, tasks<8, true>},
  });
}
