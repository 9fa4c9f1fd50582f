// SPDX-License-Identifier: BSL-1.0
//
// A pipeline whose stages are a thread, flows of a pool and coroutines, with bounded queues between them. A stage that
// is ahead waits in its own way: the thread sleeps, flows and coroutines take no thread. Each stage closes the queue
// behind it when the one in front is closed and empty.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::start;
using steps::interop::task;

namespace {

constexpr std::size_t items = 100'000, computing = 8, formatting = 3;

struct line {
  std::string name;
  unsigned long value = 0;
};

struct pipeline {
  async::bounded_queue<std::string> texts{64};
  async::bounded_queue<unsigned long> numbers{32};
  async::bounded_queue<line> lines{16};
  std::atomic<std::size_t> entered{0}, computers{computing}, formatters{formatting};

  /// True if the comparison holds for each queue.
  template <class Compare>
  bool sizes(Compare is) const {
    return is(texts.approx_size(), texts.capacity()) && is(numbers.approx_size(), numbers.capacity()) &&
           is(lines.approx_size(), lines.capacity());
  }
  /// Each queue is full, and the parser and each flow and coroutine hold one.
  std::size_t room() const {
    return texts.capacity() + numbers.capacity() + lines.capacity() + 1 + computing + formatting;
  }
};

void parse(pipeline& p) {  // a thread: it sleeps while there is no room
  while (p.entered < items && p.texts.blocking_enqueue(std::to_string(++p.entered))) {
  }
  p.texts.close();
}

// [flow]
void compute(IAsyncSteps& asi, pipeline& p) {  // one of several flows
  asi.add(
      [&p](IAsyncSteps& all) {
        all.loop([&p](IAsyncSteps& turn) {
          turn.await(p.texts);
          turn.add([&p](IAsyncSteps& got, const std::string& text) { got.enqueue(p.numbers, 3 * std::stoul(text)); });
        });
      },
      [&p](IAsyncSteps& end, ErrorCode code) {
        if (code != steps::errors::QueueClosed) return;
        if (--p.computers == 0) p.numbers.close();  // the last one
        end.success();
      });
}
// [/flow]

// [coroutine]
task<> format(pipeline& p) {  // one of several coroutines
  while (std::optional<unsigned long> number = co_await p.numbers.pop()) {
    line next{"item " + std::to_string(*number / 3), *number};
    co_await p.lines.push(std::move(next));
  }
  if (--p.formatters == 0) p.lines.close();
}
// [/coroutine]

}  // namespace

int main() {
  pipeline p;  // outlives the flows
  async::threadpool pool(2);
  std::vector<async::future<void>> stages;
  for (std::size_t i = 0; i < formatting; ++i) stages.push_back(start(format(p)));
  for (std::size_t i = 0; i < computing; ++i) {
    stages.push_back(steps::post(pool, [&p](IAsyncSteps& asi) { compute(asi, p); }));
  }
  std::thread parser(parse, std::ref(p));
  while (!p.sizes(std::equal_to<>())) std::this_thread::yield();  // nobody collects: all stages come to wait

  std::size_t collected = 0, beyond = 0;
  unsigned long long sum = 0;
  bool is_late = false;
  // [collect]
  const auto collect = [&](line got) {
    ++collected;
    sum += got.value;
    if (p.entered - collected > p.room() || !p.sizes(std::less_equal<>())) ++beyond;
  };
  while (!is_late && async::select(async::on_pop(p.lines, collect), async::after(20s, [&] { is_late = true; })) !=
                         async::nothing_left) {
  }
  // [/collect]
  if (is_late) p.texts.close(), p.numbers.close(), p.lines.close();  // ends the stages
  parser.join();
  for (async::future<void>& stage : stages) stage.get();

  const unsigned long long expected = 3ULL * items / 2 * (items + 1);
  std::printf("%zu items, sum %llu; %zu looks at too many items\n", collected, sum, beyond);
  return collected == items && sum == expected && beyond == 0 && !is_late ? 0 : 1;
}
