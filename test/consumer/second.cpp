// SPDX-License-Identifier: BSL-1.0
#include "second.hpp"

#include <string>

void run_elsewhere(async::task task) { task(); }

int& counter_elsewhere() { return counter_here(); }

void add_question(steps::IAsyncSteps& flow) {
  flow.add([](steps::IAsyncSteps& asi) { asi.success("hello " + asi.state<std::string>("whom") + " ", 3); });
}
