// SPDX-License-Identifier: BSL-1.0
//
// A compiler that is asked for an older language says so, before anything else.
// expect: asyncsteps needs C\+\+20
#ifndef CONTROL
#undef __cplusplus
#define __cplusplus 201703L
#endif
#include "async/detail/base/config.hpp"

int main() {}
