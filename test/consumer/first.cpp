// SPDX-License-Identifier: BSL-1.0
#include <async/task.hpp>
#include <cstdio>
#include <steps/asyncsteps.hpp>
#include <string>
#include <utility>

#include "second.hpp"

int main() {
  int sum = 0;
  async::task add([&sum] { sum += 1; });
  run_elsewhere(std::move(add));
  if (&counter_here() != &counter_elsewhere() || sum != 1) {
    std::puts("the two halves of the program do not share one library");
    return 1;
  }

  async::event_loop loop;
  steps::AsyncSteps flow{loop};
  std::string reply;
  flow.state()["whom"] = std::string("world");
  add_question(flow);  // in the other half
  flow.add([&](steps::IAsyncSteps&, const std::string& text, int times) { reply = text + std::to_string(times); });
  flow.execute();
  while (loop.iterate().have_work) {
  }
  if (reply != "hello world 3") {
    std::printf("the flow has arrived at: %s\n", reply.c_str());
    return 1;
  }
  return 0;
}
