// SPDX-License-Identifier: BSL-1.0
//
// AsyncSteps: a first flow, and one in a loop and with memory of its own.
#include <cstdio>
#include <future>
#include <stdexcept>
#include <string>

#include "steps/steps.hpp"

namespace {

int snippets = 0, failures = 0;
void expect(bool condition, const char* what) {
  ++snippets;
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
  embedded();
  std::printf("%d of %d snippets do what they show\n", snippets - failures, snippets);
  return failures == 0 ? 0 : 1;
}
