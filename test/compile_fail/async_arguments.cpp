// SPDX-License-Identifier: BSL-1.0
//
// An asynchronous call gets copies: a reference parameter needs std::ref.
// expect: async_callable
#include <functional>

#include "async/async.hpp"

void increment(int& x) { ++x; }

int main() {
  int x = 0;
  async::async(increment, std::ref(x)).get();
#ifndef CONTROL
  async::async(increment, x).get();
#endif
}
