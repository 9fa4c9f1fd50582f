// SPDX-License-Identifier: BSL-1.0
//
// The std::futures that futures of this library convert to, as they are made where the standard library is an unknown
// one.
#define ASYNCSTEPS_CALL_STATE 0
#include "future_std.cpp"
