// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "asyncsteps.hpp"

/// Adds up 1 to n in tasks of the pool.
long sum_on(async::threadpool& pool, long n);

/// The result of a flow of three steps on its own loop, starting with the number.
long through_a_flow(long number);
