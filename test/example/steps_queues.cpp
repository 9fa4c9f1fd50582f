// SPDX-License-Identifier: BSL-1.0
//
// Flows that work on a queue: a thread hands in lines, and flows of a pool count their letters. The queue's bound holds
// up the flows that are ahead, but no thread.
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"

namespace {

using steps::ErrorCode;
using steps::IAsyncSteps;

std::size_t letters_in(const std::string& line) {
  std::size_t count = 0;
  for (const char c : line) count += std::isalpha(static_cast<unsigned char>(c)) != 0 ? 1U : 0U;
  return count;
}

std::size_t count_letters(async::threadpool& pool, const std::vector<std::string>& text) {
  // [queues]
  async::queue<std::string> lines;                // they outlive the flows
  async::bounded_queue<std::size_t> results(16);  // a flow that is ahead waits, and takes no thread

  std::vector<std::future<void>> workers;
  for (int i = 0; i < 100; ++i) {
    workers.push_back(steps::post<void>(pool, [&](IAsyncSteps& asi) {
      asi.loop([&](IAsyncSteps& turn) {
        turn.await(lines, [](IAsyncSteps& end, ErrorCode code) {    // the next step gets the oldest line
          if (code == steps::errors::QueueClosed) end.breakLoop();  // and all lines are taken
        });
        turn.add([&](IAsyncSteps& got, const std::string& line) { got.enqueue(results, letters_in(line)); });
      });
    }));
  }
  for (const std::string& line : text) lines.enqueue(line);  // from any thread or flow
  lines.close();
  // [/queues]
  std::size_t sum = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t part = 0;
    results.blocking_dequeue(part);
    sum += part;
  }
  for (auto& worker : workers) worker.get();
  return sum;
}

}  // namespace

int main() {
  async::threadpool pool(2);
  const std::size_t letters = count_letters(pool, std::vector<std::string>(1'000, "so many letters, 13"));
  std::printf("%zu letters\n", letters);
  return letters == 13'000 ? 0 : 1;
}
