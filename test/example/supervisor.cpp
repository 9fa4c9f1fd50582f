// SPDX-License-Identifier: BSL-1.0
//
// Flows whose number is not known before. A service starts one for each request, and is drained within a time limit; a
// search asks many servers, and ends when it has enough answers.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <future>
#include <mutex>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;

namespace {

/// A server that answers on a thread of its own, or not at all.
class backend {
 public:
  explicit backend(int number) : number_(number) {}

  /// Each 100th fails, each 10th is silent.
  void ask(steps::completion<int> done) {
    if (number_ % 100 == 0) return static_cast<void>(done.error("Broken", "no answer"));
    if (number_ % 10 == 0) {
      const std::lock_guard here(lock_);
      return silent_.push_back(std::move(done));
    }
    net_.post([done = std::move(done), number = number_] { done.success(number); });
  }

 private:
  static inline steps::AsyncTool net_;
  const int number_;
  std::mutex lock_;
  std::vector<steps::completion<int>> silent_;
};

// [service]
class service {
 public:
  /// Any thread calls it, for each request.
  void accept(backend& asked) {
    requests_.add(steps::post(pool_, [this, &asked](IAsyncSteps& asi) {
      asi.add([&asked](IAsyncSteps& call) { asked.ask(call.completion<int>()); },
              [this](IAsyncSteps& call, ErrorCode) {  // a request that fails must not end the others
                ++failed_;
                call.success(0);
              });
      asi.add([this](IAsyncSteps&, int answer) { answered_ += answer != 0; });
    }));
  }

  /// Gives requests that are under way some time. Returns how many were cancelled then.
  std::size_t drain(std::chrono::milliseconds limit) {
    const async::shared_future<void> end = requests_.when_empty();
    if (end.wait_for(limit) == std::future_status::ready) return 0;
    const std::size_t late = requests_.cancel();
    end.wait();  // cancel handlers have run, and all captures are gone
    return late;
  }

  int answered() const { return answered_; }
  int failed() const { return failed_; }

 private:
  async::threadpool pool_;
  std::atomic<int> answered_{0}, failed_{0};
  // Its destructor cancels them, and waits, but not in a step. They use the members above.
  async::future_group requests_;
};
// [/service]

/// The first answers.
std::vector<int> ask_all(async::threadpool& pool, std::deque<backend>& backends, std::size_t wanted) {
  // [first]
  async::queue<int> answers;
  async::future_group questions;
  for (backend& each : backends) {
    questions.add(steps::post(pool, [&answers, &each](IAsyncSteps& asi) {
      asi.add([&each](IAsyncSteps& call) { each.ask(call.completion<int>()); });
      asi.add([&answers](IAsyncSteps&, int answer) { answers.enqueue(answer); });
    }));
  }
  questions.when_empty().then([&answers](const async::shared_future<void>&) { answers.close(); });
  std::vector<int> first;
  for (int answer; first.size() != wanted && answers.blocking_dequeue(answer);) first.push_back(answer);
  return first;  // the other flows are cancelled, and have ended
  // [/first]
}

}  // namespace

int main() {
  std::deque<backend> backends;
  for (int i = 0; i < 10'000; ++i) backends.emplace_back(i);
  service s;
  for (backend& each : backends) s.accept(each);
  const std::size_t late = s.drain(2s);
  std::printf("%d answered, %d failed, %zu late\n", s.answered(), s.failed(), late);

  async::threadpool pool;
  std::deque<backend> mirrors;
  for (int i = 1; i < 100; ++i) mirrors.emplace_back(i);
  const std::size_t enough = ask_all(pool, mirrors, 10).size();
  std::deque<backend> broken;
  broken.emplace_back(100);
  const std::size_t none = ask_all(pool, broken, 10).size();  // the first error cancels the others
  std::printf("%zu answers, then %zu\n", enough, none);
  return s.answered() == 9'000 && s.failed() == 100 && late == 900 && enough == 10 && none == 0 ? 0 : 1;
}
