// SPDX-License-Identifier: BSL-1.0
#include "second.hpp"

void run_elsewhere(async::task task) { task(); }

int& counter_elsewhere() { return counter_here(); }
