// SPDX-License-Identifier: BSL-1.0
//
// The same with what std::promise itself offers, as with a standard library that is not known.
#define FULFIL_STANDARD
#define ASYNC_DIRECT_PROMISES 0
#include "fulfil.cpp"
