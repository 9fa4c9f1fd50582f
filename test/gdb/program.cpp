// SPDX-License-Identifier: BSL-1.0
//
// A program that stops in a known state: what check.py looks at with the debugger.
#include <chrono>
#include <cstdio>
#include <future>
#include <latch>
#include <memory>
#include <string>

#include "async/async.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;

[[gnu::noinline]] void stop_here() { std::puts("here"); }
[[gnu::noinline]] void stop_in_a_step() { std::puts("in a step"); }

namespace {

/// Waits for an answer that does not come.
void ask(steps::IAsyncSteps& asi) {
  asi.setTimeout(1h);
  asi.waitExternal();
}

}  // namespace

int main() {
  async::queue<int> numbers;
  for (int i = 0; i < 5'000; ++i) numbers.enqueue(i);
  for (int n = 0; n != 4'990;) static_cast<void>(numbers.dequeue(n)), ++n;

  async::queue<int> ended;
  ended.enqueue(1);
  ended.close();

  async::bounded_queue<std::string> texts(8);
  texts.enqueue("one");
  texts.enqueue("two");
  async::bounded_queue<std::unique_ptr<int>> closed(4);
  closed.close();

  int calls = 0;
  async::task empty;
  async::task small([&calls] { ++calls; });
  async::task large([text = std::string("in a block of its own"), more = std::string("and more")] {
    static_cast<void>(text.size() + more.size());
  });

  async::event_loop loop;
  loop.deferred(1h, [] {});
  loop.deferred(2h, [] {});

  steps::AsyncSteps idle(loop);
  idle.add([](steps::IAsyncSteps&) {});

  steps::AsyncSteps waiting(loop);
  waiting.add([](steps::IAsyncSteps& outer) {
    outer.setTimeout(3h);
    outer.loop(
        [](steps::IAsyncSteps& round) {
          round.add([](steps::IAsyncSteps& asi) { asi.success(1, std::string("first")); });
          round.add(ask);
          round.add([](steps::IAsyncSteps&) {});
        },
        "rounds");
  });
  waiting.add([](steps::IAsyncSteps&) {});
  waiting.execute();

  steps::AsyncSteps branches(loop);
  steps::IAsyncSteps& group = branches.parallel();
  group.add([](steps::IAsyncSteps& left) { ask(left); });
  group.add([](steps::IAsyncSteps& right) { right.waitExternal(); });
  branches.execute();

  steps::NitroSteps<steps::nitro::MaxSteps<4>> fixed(loop);
  fixed.add(ask);
  fixed.execute();

  loop.run_for(1ms);

  steps::AsyncSteps ready(loop);
  ready.add([](steps::IAsyncSteps& asi) { asi.success(7, std::string("seven")); });
  ready.execute();

  async::threadpool pool(2);
  std::latch both(2);  // both threads are there
  for (int i = 0; i < 2; ++i) pool.execute([&both] { both.arrive_and_wait(); });
  both.wait();
  std::promise<void> pooled;
  steps::AsyncSteps on_pool(pool);
  on_pool.add([&pooled](steps::IAsyncSteps& asi) {
    ask(asi);
    async::event_loop& home = asi.tool();
    home.post([&pooled, &home] { home.post([&pooled] { pooled.set_value(); }); });
  });
  on_pool.execute();
  pooled.get_future().get();
  steps::AsyncTool tool;  // its thread sleeps in the loop
  steps::AsyncSteps elsewhere(tool);
  elsewhere.add(ask);
  elsewhere.execute();
  std::promise<void> waits;  // set in a later turn than the one that the flow's step is called in
  tool.loop().post([&] { tool.loop().post([&] { waits.set_value(); }); });
  waits.get_future().get();

  loop.immediate([] { stop_here(); });
  loop.run_for(0ns);

  steps::AsyncSteps running(loop);
  running.add([](steps::IAsyncSteps&) { stop_in_a_step(); });
  running.execute();
  loop.run_for(0ns);
  return 0;
}
