// SPDX-License-Identifier: BSL-1.0
//
// Requests that end when their clients go away: 1,000 clients, a third of which do not wait for the answer.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <string>

#include "async/future_group.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;

namespace {

/// What the thread that reads from sockets knows of a client.
struct client {
  std::size_t number = 0;
  async::event gone;  // it has closed its connection
  std::string answer;
};

/// A database. It answers from another thread, and for some questions only after an hour.
struct database {
  async::event_loop& clock;
  std::atomic<int> abandoned{0};

  void ask(IAsyncSteps& asi, std::size_t key) {
    asi.setCancel([this] { ++abandoned; });
    clock.deferred(key % 3 == 0 ? 3600s : 1ms,
                   [done = asi.completion<int>(), key] { done.success(static_cast<int>(2 * key)); });
  }
};

// [serve]
/// Serves a request, and gives it up when its client goes away: then all that the request waits for ends.
void serve(IAsyncSteps& asi, database& data, client& from) {
  auto& first = asi.race();  // one branch succeeds, the other is cancelled; the step ends when both have ended
  first.add(
      [&](IAsyncSteps& request) {
        request.add([&](IAsyncSteps& step) { data.ask(step, from.number); });
        request.add([&](IAsyncSteps&, int value) { from.answer = std::to_string(value); });
      },
      [&](IAsyncSteps& request, ErrorCode code) {
        from.answer = std::string("failed: ") + code.c_str();
        request.success();  // an answer, too: a branch that fails would leave the race to the other one
      });
  first.add([&](IAsyncSteps& watch) { watch.await(from.gone); });
}
// [/serve]

}  // namespace

int main() {
  std::deque<client> clients(1'000);
  steps::AsyncTool clock;
  database data{clock};
  async::threadpool pool;
  async::future_group requests;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    clients[i].number = i;
    requests.add(steps::post(pool, [&, i](IAsyncSteps& asi) { serve(asi, data, clients[i]); }));
  }
  for (std::size_t i = 0; i < clients.size(); i += 3) clients[i].gone.set();
  requests.when_empty().get();  // long before an hour has passed
  int answers = 0;
  for (const client& each : clients) answers += each.answer == std::to_string(each.number * 2) ? 1 : 0;
  std::printf("%d answers, %d questions given up\n", answers, data.abandoned.load());
  return answers == 666 && data.abandoned <= 334 ? 0 : 1;
}
