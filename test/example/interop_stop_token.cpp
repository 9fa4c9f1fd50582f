// SPDX-License-Identifier: BSL-1.0
//
// std::stop_token with flows: a timeout stops a search on the pool, and a flow ends with the rest of the program.
#include "steps/interop/stop_token.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "async/threadpool.hpp"
#include "steps/asyncsteps.hpp"
#include "steps/asynctool.hpp"

#if defined(__cpp_lib_jthread)
using namespace std::chrono_literals;

namespace {

/// A divisor of a number. The search takes many minutes for this one, unless it is stopped.
std::optional<std::uint64_t> divisor_of(std::uint64_t number, const std::stop_token& token) {
  for (std::uint64_t d = 2; d < number / d; ++d) {
    if (number % d == 0) return d;
    if (d % 1024 == 0 && token.stop_requested()) return std::nullopt;
  }
  return number;
}

std::string search(async::threadpool& pool, steps::AsyncTool& tool) {
  steps::AsyncSteps flow{tool};
  std::future<std::optional<std::uint64_t>> found;
  // [stop_token]
  flow.add(
      [&](steps::IAsyncSteps& asi) {
        asi.setTimeout(20ms);
        const std::stop_token token = steps::interop::stop_token_of(asi);  // stops with the step
        found = pool.post(divisor_of, 18'446'744'073'709'551'557U, token);
      },
      [](steps::IAsyncSteps& asi, steps::ErrorCode code) { asi.success(std::string(code)); });
  // [/stop_token]
  const std::string outcome = flow.promise<std::string>().get();
  return found.get().has_value() ? "found" : outcome;
}

bool ends_with_the_program(steps::AsyncTool& tool) {
  std::stop_source program;
  bool broken = false;
  std::jthread shutdown([&program] { program.request_stop(); });
  steps::AsyncSteps flow{tool};
  flow.loop([](steps::IAsyncSteps& asi) { asi.relinquish(); });
  // [cancel_on_stop]
  async::future<void> end = flow.promise();
  const steps::interop::cancel_on_stop link{flow, program.get_token()};  // for as long as it lives
  // [/cancel_on_stop]
  try {
    end.get();
  } catch (const std::future_error& error) {
    broken = error.code() == std::future_errc::broken_promise;
  }
  return broken;
}

}  // namespace

int main() {
  async::threadpool pool(1);
  steps::AsyncTool tool;
  const std::string outcome = search(pool, tool);
  const bool ended = ends_with_the_program(tool);
  std::printf("the search: %s; the flow has been cancelled: %s\n", outcome.c_str(), ended ? "yes" : "no");
  return outcome == "Timeout" && ended ? 0 : 1;
}
#else
int main() { std::puts("this standard library has no <stop_token>"); }
#endif
