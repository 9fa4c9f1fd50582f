// SPDX-License-Identifier: BSL-1.0
//
// The inside of a small server: each client is a flow on a pool, and its requests are steps. A request computes, asks
// three back ends at the same time, with a timeout and through a limiter, and replies.
//
//   server [CLIENTS [REQUESTS_OF_EACH [THREADS]]]
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;

namespace {

/// Remote services: they answer from another thread, mostly soon, once in 400 times too late. They take 300 requests at
/// a time.
struct services {
  void ask(steps::completion<int> answer) {
    const bool late = ++asked % 400 == 0;
    if (++inside > 300) overloaded = true;
    network.deferred(late ? 500ms : 1ms, [this, late, answer] {
      if (!late) --inside;
      answer.success(1);  // without effect after the timeout
    });
    if (late) --inside;
  }

  std::atomic<int> asked{0}, inside{0};
  std::atomic<bool> overloaded{false};
  steps::AsyncTool network;
};

struct server {
  explicit server(int threads) : pool(static_cast<std::size_t>(threads)) {}
  services back_ends;
  steps::Limiter limiter{{.concurrent = 100, .max_queue = 2'000}};
  std::atomic<int> full{0}, partial{0}, refused{0};
  async::threadpool pool;
};

int checksum(int request) {  // stands for the computation of a request
  unsigned sum = static_cast<unsigned>(request);
  for (int i = 0; i < 5'000; ++i) sum = sum * 1664525U + 1013904223U;
  return sum == 0 ? 1 : 0;
}

// [request]
/// Passes on how many of the back ends have answered in time.
void handle_request(IAsyncSteps& asi, server& s, int request) {
  asi.await(s.pool, checksum, request);  // any worker computes; the flow's loop runs others meanwhile
  asi.add([&s](IAsyncSteps& step, int sum) {
    auto& answers = step.stack<std::array<int, 3>>();  // lives as long as this step and its sub-steps
    step.sync(s.limiter, [&s, &answers](IAsyncSteps& inside) {
      auto& calls = inside.parallel();  // each branch runs on a free worker
      for (int& answer : answers) {
        calls.add([&s, &answer](IAsyncSteps& branch) {
          branch.add(
              [&s](IAsyncSteps& call) {
                call.setTimeout(100ms);
                s.back_ends.ask(call.completion<int>());  // ended from another thread
              },
              [](IAsyncSteps& call, ErrorCode code) {
                if (code == steps::errors::Timeout) call.success(0);
              });
          branch.add([&answer](IAsyncSteps&, int count) { answer = count; });
        });
      }
    });
    step.add(
        [&answers, sum](IAsyncSteps& last) { last.success(std::accumulate(answers.begin(), answers.end(), sum)); });
  });
}
// [/request]

/// A client sends its requests one after the other, and counts the replies.
void be_client(IAsyncSteps& asi, server& s, int number, int requests) {
  asi.repeat(static_cast<std::size_t>(requests), [&s, number](IAsyncSteps& turn, std::size_t i) {
    turn.add([&s, number, i](IAsyncSteps& step) { handle_request(step, s, number + static_cast<int>(i)); },
             [](IAsyncSteps& step, ErrorCode code) {
               if (code == steps::errors::DefenseRejected) step.success(-1);  // the limiter's queue was full
             });
    turn.add([&s](IAsyncSteps&, int answers) { ++(answers == 3 ? s.full : answers >= 0 ? s.partial : s.refused); });
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int clients = argc > 1 ? std::atoi(argv[1]) : 500, requests = argc > 2 ? std::atoi(argv[2]) : 4;
  const int threads = argc > 3 ? std::atoi(argv[3]) : static_cast<int>(async::usable_concurrency());
  if (argc > 4 || clients < 1 || requests < 1 || threads < 1) {
    std::fputs("usage: server [CLIENTS [REQUESTS_OF_EACH [THREADS]]]\n", stderr);
    return 2;
  }
  server s(threads);

  const auto begin = std::chrono::steady_clock::now();
  // [clients]
  std::vector<async::future<void>> done;
  for (int i = 0; i < clients; ++i) {
    done.push_back(steps::post(s.pool, [&s, i, requests](IAsyncSteps& asi) { be_client(asi, s, i, requests); }));
  }
  for (auto& client : done) client.get();  // an unhandled error would be thrown here
  // [/clients]
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;

  const int replies = s.full + s.partial + s.refused, calls = s.back_ends.asked;
  std::printf("%d clients on %zu threads: %d replies in %.0f ms, %.0f a second\n", clients, s.pool.size(), replies,
              took.count(), replies / took.count() * 1000);
  std::printf("%d with all answers, %d with some, %d refused; %d calls\n", s.full.load(), s.partial.load(),
              s.refused.load(), calls);
  const bool right = replies == clients * requests && calls == 3 * (replies - s.refused) &&
                     (s.partial > 0 || calls < 400) && !s.back_ends.overloaded;
  if (!right) std::puts("wrong: the figures do not agree");
  return right ? 0 : 1;
}
