// SPDX-License-Identifier: BSL-1.0
//
// A compiler that is told to do without exceptions says that it cannot, before anything else.
// expect: asyncsteps needs exceptions
#ifndef CONTROL
#undef __cpp_exceptions
#endif
#include "async/detail/base/config.hpp"

int main() {}
