// SPDX-License-Identifier: BSL-1.0
//
// The same with the functions of std::promise itself, as with unknown standard libraries.
#define FULFIL_STANDARD
#define ASYNCSTEPS_DIRECT_PROMISES 0
#include "fulfil.cpp"
