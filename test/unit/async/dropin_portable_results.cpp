// SPDX-License-Identifier: BSL-1.0
//
// What calls of async::async take, give and throw, with futures as they are made where the standard library is an
// unknown one.
#define ASYNCSTEPS_CALL_STATE 0
#ifndef DROPIN_WITHOUT_STD
#define DROPIN_WITHOUT_STD
#endif
#include "dropin_results.cpp"
