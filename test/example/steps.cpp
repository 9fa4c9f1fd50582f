// SPDX-License-Identifier: BSL-1.0
//
// AsyncSteps: a first flow, which reads a setting from a file, and a flow with its own loop and fixed memory.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "steps/steps.hpp"

using namespace std::chrono_literals;

namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("NoSuchFile");
  return {std::istreambuf_iterator<char>(file), {}};
}

int setting(async::threadpool& pool, const std::string& path) {
  // [first]
  steps::AsyncTool tool;  // an event loop with its thread, shared by thousands of flows
  steps::AsyncSteps flow{tool};

  flow.add(
      [&](steps::IAsyncSteps& asi) {
        asi.setTimeout(2s);                 // for this step and all below it
        asi.await(pool, content_of, path);  // a thread of the pool makes the call; the loop runs other flows
        asi.add([](steps::IAsyncSteps& inner, const std::string& text) { inner.success(std::stoi(text)); });
      },
      [](steps::IAsyncSteps& asi, steps::ErrorCode code) {  // handles errors, exceptions and timeouts of the step
        if (code == "NoSuchFile") asi.success(1);           // recovers; other errors propagate
      });
  flow.add([](steps::IAsyncSteps& asi, int number) { asi.success(2 * number); });  // results go to the next step

  async::future<int> result = flow.promise<int>();  // starts the flow
  return result.get();                              // the last result, or the exception
  // [/first]
}

bool embedded() {
  int calls = 0;
  // [embedded]
  async::event_loop loop;                                                                 // on this thread
  steps::NitroSteps<steps::nitro::MaxSteps<8>, steps::nitro::MaxParallel<0>> flow{loop};  // allocates nothing

  flow.loop([&](steps::IAsyncSteps& asi) {
    if (++calls == 1'000) asi.breakLoopNoThrow();
  });
  flow.execute();
  while (loop.iterate().have_work) {  // tells when to call it again; run() would sleep until stop()
  }
  // [/embedded]
  return calls == 1'000;
}

}  // namespace

int main() {
  async::threadpool pool(1);
  const std::string path = "example.steps.setting";
  std::filesystem::remove(path);
  const int missing = setting(pool, path);
  std::ofstream(path) << "21";
  const int there = setting(pool, path);
  std::ofstream(path) << "nonsense";
  bool thrown = false;
  try {
    setting(pool, path);
  } catch (const std::invalid_argument&) {  // thrown by std::stoi
    thrown = true;
  }
  std::filesystem::remove(path);
  const int right = (missing == 2 && there == 42 && thrown ? 1 : 0) + (embedded() ? 1 : 0);
  std::printf("%d of 2 snippets do what they show\n", right);
  return right == 2 ? 0 : 1;
}
