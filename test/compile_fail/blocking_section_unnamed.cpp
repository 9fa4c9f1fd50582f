// SPDX-License-Identifier: BSL-1.0
//
// A section without a name ends at once.
// expect: give it a name
#include "async/blocking_section.hpp"

#pragma GCC diagnostic error "-Wunused-result"
#pragma GCC diagnostic error "-Wunused-value"

int main() {
  const async::blocking_section here;
#ifndef CONTROL
  async::blocking_section();
#endif
}
