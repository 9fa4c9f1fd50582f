// SPDX-License-Identifier: BSL-1.0
//
// A server that takes the next connection only when there is room for it: a permit of a Semaphore goes from the
// acceptor to the flow that serves the connection.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "async/async.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;

namespace {

constexpr std::size_t most = 64;
constexpr int clients = 10000;

struct counters {
  std::atomic<std::size_t> connected{0}, peak{0};
  std::atomic<int> served{0};
  async::event done;

  void enter() {
    const std::size_t now = ++connected;
    for (std::size_t seen = peak; seen < now && !peak.compare_exchange_weak(seen, now);) {
    }
  }
  void leave() {
    --connected;
    if (++served == clients) done.set();
  }
};

void serve(IAsyncSteps& asi, counters& all, int client) {
  all.enter();
  asi.add(
      [client](IAsyncSteps& step) {
        step.setTimeout(1ms * (client % 3));  // for the answer of a client
        step.waitExternal();
      },
      [](IAsyncSteps& step, ErrorCode code) {
        if (code == steps::errors::Timeout) step.success();
      });
  asi.add([&all](IAsyncSteps&) { all.leave(); });
}

}  // namespace

int main() {
  counters all;

  // [acceptor]
  async::queue<int> arrivals;     // stands for a socket that listens
  steps::Semaphore places(most);  // both outlive the pool's flows
  async::threadpool pool;

  steps::AsyncSteps acceptor(pool);
  acceptor.loop([&](IAsyncSteps& asi) {
    places.acquire(asi);  // waits while there are as many connections as places
    asi.add([&](IAsyncSteps& turn, steps::Semaphore::Permit place) {
      turn.await(arrivals, [](IAsyncSteps& end, ErrorCode code) {
        if (code == steps::errors::QueueClosed) end.breakLoop();
      });
      turn.add([&, place = std::move(place)](IAsyncSteps&, int client) mutable {
        steps::execute(pool, [&, client, place = std::move(place)](IAsyncSteps& connection) {
          serve(connection, all, client);
        });  // the flow's end destroys the permit, which gives the place back
      });
    });
  });
  // [/acceptor]

  async::future<void> end = acceptor.promise();
  for (int i = 0; i < clients; ++i) arrivals.enqueue(i);
  arrivals.close();
  end.get();
  all.done.wait();
  std::printf("%d clients served, at most %zu at a time\n", all.served.load(), all.peak.load());
  return all.peak <= most ? 0 : 1;
}
