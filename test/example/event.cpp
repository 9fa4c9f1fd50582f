// SPDX-License-Identifier: BSL-1.0
//
// async::event: flows, a task and a thread wait until a service is connected, and again after it was lost.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "async/event.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;

int main() {
  async::threadpool pool(2);
  async::event connected;
  std::atomic<int> requests{0};

  // [event]
  std::vector<async::future<void>> flows;
  for (int i = 0; i < 1'000; ++i) {
    flows.push_back(steps::post(pool, [&](steps::IAsyncSteps& asi) {
      asi.await(connected);  // no thread waits
      asi.add([&](steps::IAsyncSteps&) { ++requests; });
    }));
  }
  std::thread monitor([&] {
    connected.wait();  // a thread
    ++requests;
  });
  auto task = pool.post([&] { return connected.wait_for(1h); });  // a task of the pool: others run meanwhile

  const int before = requests;
  connected.set();  // all of them go on; those that come later do not wait
  // [/event]
  monitor.join();
  for (auto& f : flows) f.get();
  const bool in_time = task.get();

  connected.reset();  // from here on waits last until the next set()
  const bool again = connected.wait_for(1ms);

  std::printf("%d requests\n", requests.load());
  return before == 0 && requests == 1'001 && in_time && !again ? 0 : 1;
}
