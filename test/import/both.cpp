// SPDX-License-Identifier: BSL-1.0
//
// A file that includes one header, imports the module, and includes another header: the names mean the same.
#include "async/queue.hpp"

import asyncsteps;

#include "async/future.hpp"
#include "import/included.hpp"
#include "steps/asyncsteps.hpp"

int find_difference() {
  async::threadpool pool(1);
  if (included::get(pool.post([] { return 1; })) != 1) return 1;
  async::queue<int> numbers;
  numbers.enqueue(4);
  numbers.close();
  if (included::sum_of(numbers) != 4) return 2;
  steps::AsyncSteps flow{pool};
  flow.state()["whom"] = std::string("both");
  included::add_question(flow);
  flow.add([](steps::IAsyncSteps& asi, const std::string& text, int) { asi.success(text); });
  return flow.promise<std::string>().get() == "hello both" ? 0 : 3;
}
