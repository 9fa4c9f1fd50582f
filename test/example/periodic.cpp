// SPDX-License-Identifier: BSL-1.0
//
// A periodic job: samples the load of a service, and reports the rounds that took too long.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::IAsyncSteps;

namespace {

/// Stands for a service. It answers from its loop; its fourth answer takes 35 ms.
class service {
 public:
  explicit service(steps::AsyncTool& tool) : tool_(tool) {}

  void load(steps::completion<int> answer) {
    const int number = ++requests_;
    tool_.deferred(number == 4 ? 35ms : 1ms, [answer, number] { answer.success(number); });
  }

 private:
  steps::AsyncTool& tool_;
  int requests_ = 0;
};

struct monitor {
  service& of;
  std::vector<int> samples = {};
  std::vector<std::string> report = {};
  std::uint64_t dropped = 0;

  // [every]
  /// Takes a sample every 10 ms, ten times.
  void watch(IAsyncSteps& asi) {
    asi.every(10ms, [this](IAsyncSteps& round, const steps::Tick& tick) {
      if (tick.previous > 10ms) {
        report.push_back("round " + std::to_string(tick.number - 1) + " took " + std::to_string(tick.previous / 1ms) +
                         " ms: " + std::to_string(tick.missed) + " dropped");
      }
      dropped += tick.missed;
      if (tick.number == 10) round.breakLoop();
      round.add([this](IAsyncSteps& call) {
        call.setTimeout(1s);
        of.load(call.completion<int>());
      });
      round.add([this](IAsyncSteps&, int load) { samples.push_back(load); });
    });
  }
  // [/every]
};

}  // namespace

int main() {
  steps::AsyncTool tool;
  service watched(tool);
  monitor job{watched};
  steps::AsyncSteps flow{tool};
  flow.add([&](IAsyncSteps& asi) { job.watch(asi); });
  flow.promise().get();

  for (const std::string& line : job.report) std::printf("%s\n", line.c_str());
  std::printf("%zu samples, %d ticks without one\n", job.samples.size(), static_cast<int>(job.dropped));
  return job.samples.size() == 10 && !job.report.empty() && job.dropped >= 2 ? 0 : 1;
}
