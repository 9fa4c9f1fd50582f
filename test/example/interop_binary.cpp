// SPDX-License-Identifier: BSL-1.0
//
// Steps in C inside a flow in C++, and steps in C++ inside steps in C.
#include "steps/interop/binary.hpp"

#include <cstdio>
#include <string>
#include <vector>

#include "async/threadpool.hpp"
#include "steps/steps.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;

extern "C" {
void add_reading(FutoInAsyncSteps* bsi, int* sensor);
void add_readings(FutoInAsyncSteps* bsi, int* sensor, FutoInAsyncSteps_execute_callback report, void* lines);
}

using lines = std::vector<std::string>;

// [wrap]
extern "C" void report(FutoInAsyncSteps* bsi, void* to, const FutoInArgs* args) {  // a step for programs in C
  steps::interop::wrap(*bsi, args, [to](IAsyncSteps& asi) {
    asi.add([to](IAsyncSteps&, int celsius) { static_cast<lines*>(to)->push_back(std::to_string(celsius)); });
  });
}
// [/wrap]

int main() {
  async::threadpool pool(2);
  lines seen;
  int cold = 21;
  int hot = 900;

  // [binary]
  steps::AsyncSteps flow{pool};
  flow.add([&](IAsyncSteps& asi) { add_reading(&steps::interop::binary(asi), &cold); });  // steps in C
  flow.add([&](IAsyncSteps&, int celsius) { seen.push_back("room " + std::to_string(celsius)); });
  flow.add([&](IAsyncSteps& asi) { add_reading(&steps::interop::binary(asi), &hot); },
           [&](IAsyncSteps& asi, ErrorCode code) {
             seen.push_back(std::string(code) + ": " + asi.state().error_info().str());
             asi.success();
           });
  // [/binary]
  flow.add([&](IAsyncSteps& asi) { add_readings(&steps::interop::binary(asi), &cold, &report, &seen); });
  flow.promise().get();

  for (const std::string& line : seen) std::printf("%s\n", line.c_str());
  return seen == lines{"room 21", "NoAnswer: the sensor is too hot", "21"} ? 0 : 1;
}
