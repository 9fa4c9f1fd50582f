// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <async/task.hpp>
#include <steps/iasyncsteps.hpp>

void run_elsewhere(async::task task);

inline int& counter_here() {
  static int counter = 0;
  return counter;
}
int& counter_elsewhere();

/// Adds a step whose results are a text and a number.
void add_question(steps::IAsyncSteps& flow);
