// SPDX-License-Identifier: BSL-1.0
//
// Results in the order of their calls, and a limited number of calls under way: a queue of futures. First with a
// thread and tasks of a pool, then with flows only, where each call is a flow itself.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;

namespace {

/// How many calls are under way, and the most that ever were.
struct meter {
  void enter() {
    const int now = ++inside;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
  }
  void leave() { --inside; }
  std::atomic<int> inside{0}, most{0};
};

std::string parse(const std::string& line) { return line + "!"; }

/// Passes all results on in the order of the lines.
std::vector<std::string> parse_all(async::threadpool& pool, const std::vector<std::string>& lines) {
  std::vector<std::string> results;
  // [tasks]
  async::bounded_queue<async::future<std::string>> under_way(16);  // calls that run, wait or have a result
  std::thread source([&] {
    for (const std::string& line : lines) {
      if (!under_way.blocking_enqueue(pool.post(parse, line))) break;  // waits for room; false: closed
    }
    under_way.close();
  });
  for (async::future<std::string> next; under_way.blocking_dequeue(next);) results.push_back(next.get());  // in order
  // [/tasks]
  source.join();
  return results;
}

/// A request that takes some time, the first of each ten longest.
void fetch(IAsyncSteps& asi, int page, const std::shared_ptr<meter>& requests) {
  requests->enter();
  asi.onEnd([requests] { requests->leave(); });
  asi.select(async::after(std::chrono::microseconds(100 * (10 - page % 10))));
  asi.add([page](IAsyncSteps& got) { got.success(3 * page); });
}

struct fetcher {
  explicit fetcher(async::threadpool& p) : pool(p) {}
  async::threadpool& pool;
  async::bounded_queue<async::future<int>> under_way{16};
  std::shared_ptr<meter> requests = std::make_shared<meter>();  // calls under way outlive an error: they own it, too
  std::vector<int> results;
};

// [flows]
void fetch_all(IAsyncSteps& asi, fetcher& f, int pages) {
  auto& both = asi.parallel();  // an error of one branch, or of a page, cancels both
  both.add([&f, pages](IAsyncSteps& source) {
    source.repeat(static_cast<std::size_t>(pages), [&f](IAsyncSteps& round, std::size_t page) {
      round.enqueue(f.under_way, steps::post<int>(f.pool, [page, requests = f.requests](IAsyncSteps& call) {
                      fetch(call, static_cast<int>(page), requests);
                    }));
    });
    source.add([&f](IAsyncSteps&) { f.under_way.close(); });
  });
  both.add([&f](IAsyncSteps& sink) {
    sink.loop([&f](IAsyncSteps& round) {
      round.await(f.under_way, [](IAsyncSteps& end, ErrorCode code) {
        if (code == steps::errors::QueueClosed) end.breakLoop();
      });
      round.add([&f](IAsyncSteps& got, async::future<int> next) {
        got.await(std::move(next));
        got.add([&f](IAsyncSteps&, int result) { f.results.push_back(result); });
      });
    });
  });
}
// [/flows]

}  // namespace

int main() {
  async::threadpool pool;

  std::vector<std::string> lines;
  for (int i = 0; i != 10'000; ++i) lines.push_back("line " + std::to_string(i));
  const std::vector<std::string> parsed = parse_all(pool, lines);
  bool is_right = parsed.size() == lines.size();
  for (std::size_t i = 0; is_right && i != lines.size(); ++i) is_right = parsed[i] == lines[i] + "!";

  constexpr int pages = 10'000;
  fetcher f(pool);
  steps::post(pool, [&f](IAsyncSteps& asi) { fetch_all(asi, f, pages); }).get();
  is_right = is_right && f.results.size() == pages;
  for (std::size_t i = 0; is_right && i != pages; ++i) is_right = f.results[i] == 3 * static_cast<int>(i);

  const int most = f.requests->most;
  std::printf("%zu lines, %zu pages, at most %d under way\n", parsed.size(), f.results.size(), most);
  return is_right && most > 2 && most <= 18 ? 0 : 1;  // those in the queue, and one that each end holds
}
