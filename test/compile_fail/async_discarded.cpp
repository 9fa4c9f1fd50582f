// SPDX-License-Identifier: BSL-1.0
//
// A discarded future waits for its call at once: the compiler warns.
// expect: the destructor of the future waits for the call
#include "async/async.hpp"

#pragma GCC diagnostic error "-Wunused-result"

int main() {
  const auto kept = async::async([] {});
#ifndef CONTROL
  async::async([] {});
#endif
}
