// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "asyncsteps.hpp"

/// Adds up 1 to n in tasks of the pool.
long sum_on(async::threadpool& pool, long n);

/// What a flow of three steps on a loop of its own arrives at, starting with the number.
long through_a_flow(long number);
