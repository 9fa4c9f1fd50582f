// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include "steps/steps.hpp"

/// The logic behind http_server.cpp. It knows nothing of sockets.
namespace service {

using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;

struct request {
  std::string method, target, body;
};
struct response {
  unsigned status = 0;
  std::string body;
};

/// Other servers: they answer from their own thread, late for "slow" and never for "nobody".
class back_ends {
 public:
  void ask(const std::string& what, const std::string& who, steps::completion<std::string> answer) {
    if (who == "nobody") return;
    network_.deferred(who == "slow" ? 300ms : 5ms, [what, who, answer] { answer.success(what + " of " + who + '\n'); });
  }

 private:
  steps::AsyncTool network_;
};

inline std::size_t words_in(const std::string& text) {
  std::istringstream words(text);
  return static_cast<std::size_t>(std::distance(std::istream_iterator<std::string>(words), {}));
}

class logic {
 public:
  // [logic]
  /// Adds steps that pass on a response, whatever happens. For any flow, on a loop or on a pool.
  void answer(IAsyncSteps& asi, const request& r) {
    ++working_;
    asi.add(
        [this, r](IAsyncSteps& step) {
          step.setTimeout(2s);  // for all steps below
          find(step, r);
        },
        [](IAsyncSteps& failed, ErrorCode code) {
          failed.success(response{code == steps::errors::Timeout ? 504U : 500U, std::string(code) + '\n'});
        });
    asi.add([this](IAsyncSteps& last, response found) {
      --working_;
      last.success(std::move(found));
    });
  }

  void find(IAsyncSteps& asi, const request& r) {
    if (r.method.empty()) return asi.success(response{400, "no request\n"});
    if (r.method == "POST" && r.target == "/words") return say(asi, std::to_string(words_in(r.body)) + '\n');
    if (r.target == "/status") return say(asi, std::to_string(working_) + " requests in work\n");
    if (!r.target.starts_with("/user/")) return asi.success(response{404, "no " + r.target + " here\n"});

    auto& parts = asi.stack<std::array<std::string, 3>>();  // lives as long as this step and its sub-steps
    auto& calls = asi.parallel();                           // on a pool each branch runs on a free worker
    for (std::size_t i = 0; i < parts.size(); ++i) {
      calls.add([this, i, who = r.target.substr(6), &part = parts[i]](IAsyncSteps& branch) {
        branch.add([this, i, who](IAsyncSteps& call) {
          static constexpr std::array<const char*, 3> names{"name", "orders", "invoices"};
          back_ends_.ask(names[i], who, call.completion<std::string>());
        });
        branch.add([&part](IAsyncSteps&, std::string got) { part = std::move(got); });
      });
    }
    asi.add([&parts](IAsyncSteps& last) { say(last, parts[0] + parts[1] + parts[2]); });
  }
  // [/logic]

 private:
  static void say(IAsyncSteps& asi, std::string text) { asi.success(response{200, std::move(text)}); }

  std::atomic<int> working_{0};
  back_ends back_ends_;
};

}  // namespace service
