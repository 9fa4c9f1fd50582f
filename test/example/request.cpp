// SPDX-License-Identifier: BSL-1.0
//
// A request to two services with AsyncSteps: timeouts, retries, parallel calls, a race and a limiter.
#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::IAsyncSteps;

namespace {

/// Stands for a remote service. It answers later, from the loop, and loses as many requests as it is told to.
class service {
 public:
  explicit service(async::event_loop& loop) : loop_(loop) {}

  void get(const std::string& what, std::function<void(std::string)> reply) {
    ++calls;
    if (lose-- > 0) return;
    loop_.deferred(2ms, [what, reply = std::move(reply)] { reply(what + "'s"); });
  }

  int lose = 0;
  int calls = 0;

 private:
  async::event_loop& loop_;
};

// [request]
/// Adds a step that asks a service and passes its answer on. Up to `attempts` requests are made, 5 to 10 ms apart, then
/// 10 to 20 ms. The token ends the wait once, from any thread. After a timeout a late answer is ignored.
void ask(IAsyncSteps& asi, service& from, const std::string& what, std::size_t attempts) {
  const steps::Retry patience{.attempts = attempts, .delay = 10ms};
  asi.retry(patience.on(steps::errors::Timeout), [&from, what](IAsyncSteps& call) {
    call.setTimeout(20ms);
    from.get(what, [done = call.completion<std::string>()](std::string answer) { done.success(std::move(answer)); });
  });
}

void page(IAsyncSteps& asi, service& users, service& orders, steps::Limiter& limiter) {
  asi.setTimeout(2s);                            // for everything below
  asi.sync(limiter, [&](IAsyncSteps& guarded) {  // limits requests at once and per second
    ask(guarded, users, "ann", 3);
    guarded.add([&](IAsyncSteps& step, std::string user) {
      auto& both = step.parallel();  // an error in one cancels the other
      for (const char* what : {"orders", "invoices"}) {
        both.add([&orders, what](IAsyncSteps& branch) {
          ask(branch, orders, what, 3);
          branch.add([what](IAsyncSteps& got, std::string list) { got.state()[what] = std::move(list); });
        });
      }
      step.add([user](IAsyncSteps& end) {
        end.success(user + " " + end.state<std::string>("orders") + " " + end.state<std::string>("invoices"));
      });
    });
  });
}
// [/request]

// [race]
/// Passes on the answer that comes first. The other requests are given up; one that fails does not end the race.
void ask_mirrors(IAsyncSteps& asi, std::deque<service>& mirrors, const std::string& what) {
  auto& requests = asi.race();
  for (service& mirror : mirrors) {
    requests.add([&mirror, what](IAsyncSteps& branch) { ask(branch, mirror, what, 1); });
  }
}
// [/race]

}  // namespace

int main() {
  async::event_loop loop;
  service users(loop);
  service orders(loop);
  // [limiter]
  steps::Limiter::Params params;
  params.concurrent = 10;  // requests at the same time
  params.max_queue = 100;  // requests that wait; more are rejected
  params.rate = 1'000;     // requests per second
  steps::Limiter limiter(params);
  // [/limiter]
  std::deque<steps::AsyncSteps> flows;
  const auto start = [&] {
    steps::AsyncSteps& flow = flows.emplace_back(loop);
    flow.add([&](IAsyncSteps& asi) { page(asi, users, orders, limiter); });
    return flow.promise<std::string>();
  };
  const auto result_of = [&loop](async::future<std::string>& future) {
    while (future.wait_for(0s) != std::future_status::ready) loop.run_for(1ms);
    return future.get();
  };

  users.lose = 2;
  std::vector<async::future<std::string>> pages;
  for (int i = 0; i < 20; ++i) pages.push_back(start());
  int right = 0;
  for (auto& each : pages) right += result_of(each) == "ann's orders's invoices's";

  const int calls = users.calls;  // two were lost and repeated
  users.lose = 3;
  async::future<std::string> unlucky = start();
  std::string why;
  // [outcome]
  try {
    result_of(unlucky);
  } catch (const steps::Error& error) {
    why = error.what();  // the error code; error.error_info() tells more
  }
  // [/outcome]
  std::deque<service> mirrors;
  for (int i = 0; i < 3; ++i) mirrors.emplace_back(loop).lose = i != 1;  // only one answers
  steps::AsyncSteps racing{loop};
  racing.add([&](IAsyncSteps& asi) { ask_mirrors(asi, mirrors, "bob"); });
  async::future<std::string> first = racing.promise<std::string>();
  const std::string fastest = result_of(first);

  std::printf("%d pages with %d calls, one without: %s; one mirror of three: %s\n", right, calls, why.c_str(),
              fastest.c_str());
  return right == 20 && calls == 22 && why == "Timeout" && fastest == "bob's" ? 0 : 1;
}
