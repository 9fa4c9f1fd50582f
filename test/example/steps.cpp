// SPDX-License-Identifier: BSL-1.0
//
// AsyncSteps: a first flow, and a request with limits in time, retries, parallel calls and a limiter.
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "steps/steps.hpp"

using namespace std::chrono_literals;

namespace {

int failures = 0;
void expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

void first_flow() {
  std::string reply;
  // [first]
  steps::AsyncTool tool;  // an event loop and its thread
  steps::AsyncSteps flow{tool};

  flow.add([](steps::IAsyncSteps& asi) { asi.success("world", 3); })  // results go to the next step
      .add(
          [](steps::IAsyncSteps& asi, std::string whom, int times) {
            asi.repeat(static_cast<std::size_t>(times), [](steps::IAsyncSteps&, std::size_t i) {  // sub-steps: they run
              if (i == 2) throw std::runtime_error("TooMany");  // before the level goes on
            });
            asi.add([whom](steps::IAsyncSteps& inner) { inner.success("hello " + whom); });
          },
          [](steps::IAsyncSteps& asi, steps::ErrorCode code) {  // for the step and all below it
            if (code == "TooMany") asi.success("hello, after all");
          });

  std::future<std::string> greeting = flow.promise<std::string>();  // starts the flow
  reply = greeting.get();
  // [/first]
  expect(reply == "hello, after all", "first");
}

/// Stands for a remote service: answers later, from the loop; does not answer while it is told to lose requests.
class service {
 public:
  explicit service(async::event_loop& loop) : loop_(loop) {}

  void get(const std::string& what, std::function<void(std::string)> reply) {
    ++calls;
    if (lose > 0) {
      --lose;
      return;
    }
    loop_.deferred(2ms, [what, reply = std::move(reply)] { reply(what + "'s"); });
  }

  int lose = 0;
  int calls = 0;

 private:
  async::event_loop& loop_;
};

// [request]
/// A step that asks a service and hands on its answer. The token ends the wait once, from any thread; when the step has
/// been given up, a late answer is ignored.
void ask(steps::IAsyncSteps& asi, service& from, const std::string& what) {
  auto done = asi.completion<std::string>();
  from.get(what, [done](std::string answer) { done.success(std::move(answer)); });
}

void page(steps::IAsyncSteps& asi, service& users, service& orders, steps::Limiter& limiter) {
  asi.setTimeout(2s);                                   // for everything below
  asi.sync(limiter, [&](steps::IAsyncSteps& guarded) {  // so many requests at once, so many per second
    guarded.repeat(3, [&](steps::IAsyncSteps& attempt, std::size_t i) {
      attempt.add(
          [&](steps::IAsyncSteps& call) {
            call.setTimeout(20ms);
            ask(call, users, "ann");
          },
          [i](steps::IAsyncSteps& failed, steps::ErrorCode code) {
            if (code == steps::errors::Timeout && i < 2) failed.continueLoopNoThrow();  // try again
          });
      attempt.add([](steps::IAsyncSteps& got, std::string user) {
        got.state()["user"] = std::move(user);
        got.breakLoopNoThrow();
      });
    });
    auto& both = guarded.parallel();  // an error in one cancels the other
    for (const char* what : {"orders", "invoices"}) {
      both.add([&orders, what](steps::IAsyncSteps& branch) {
        branch.add([&orders, what](steps::IAsyncSteps& call) { ask(call, orders, what); });
        branch.add([what](steps::IAsyncSteps& got, std::string list) { got.state()[what] = std::move(list); });
      });
    }
    guarded.add([](steps::IAsyncSteps& end) {
      end.success(end.state<std::string>("user") + " " + end.state<std::string>("orders") + " " +
                  end.state<std::string>("invoices"));
    });
  });
}
// [/request]

void request() {
  async::event_loop loop;
  service users(loop);
  service orders(loop);
  users.lose = 2;
  // [limiter]
  steps::Limiter::Params params;
  params.concurrent = 10;  // requests at the same time
  params.max_queue = 100;  // that wait for it; more are rejected
  params.rate = 1'000;     // per period of a second
  steps::Limiter limiter(params);
  // [/limiter]
  std::vector<steps::AsyncSteps> flows;
  std::vector<std::future<std::string>> pages;
  for (int i = 0; i < 20; ++i) {
    steps::AsyncSteps& flow = flows.emplace_back(loop);
    flow.add([&](steps::IAsyncSteps& asi) { page(asi, users, orders, limiter); });
    pages.push_back(flow.promise<std::string>());
  }
  for (std::future<std::string>& each : pages) {
    while (each.wait_for(0s) != std::future_status::ready) loop.run_for(1ms);
    expect(each.get() == "ann's orders's invoices's", "request");
  }
  expect(users.calls == 22, "two requests were lost and repeated");

  users.lose = 3;
  steps::AsyncSteps unlucky{loop};
  unlucky.add([&](steps::IAsyncSteps& asi) { page(asi, users, orders, limiter); });
  std::future<std::string> none = unlucky.promise<std::string>();
  while (none.wait_for(0s) != std::future_status::ready) loop.run_for(1ms);
  std::string why;
  // [outcome]
  try {
    none.get();
  } catch (const steps::Error& error) {
    why = error.what();  // the error code; error.error_info() tells more
  }
  // [/outcome]
  expect(why == "Timeout", "three lost requests");
}

void embedded() {
  int calls = 0;
  // [embedded]
  async::event_loop loop;                                                                 // on the thread that you have
  steps::NitroSteps<steps::nitro::MaxSteps<8>, steps::nitro::MaxParallel<0>> flow{loop};  // no allocation at all

  flow.loop([&](steps::IAsyncSteps& asi) {
    if (++calls == 1'000) asi.breakLoopNoThrow();
  });
  flow.execute();
  while (loop.iterate().have_work) {  // or loop.run(); iterate() tells when to call it again
  }
  // [/embedded]
  expect(calls == 1'000, "embedded");
}

}  // namespace

int main() {
  first_flow();
  request();
  embedded();
  return failures == 0 ? 0 : 1;
}
