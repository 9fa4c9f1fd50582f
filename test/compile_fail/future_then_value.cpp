// SPDX-License-Identifier: BSL-1.0
//
// The function of then() gets the ready future, not its value.
// expect: then\(f\) calls f\(future\), with the future that is ready
#include "async/future.hpp"

int main() {
  async::make_ready_future(1).then([](async::future<int> f) { return f.get(); });
#ifndef CONTROL
  async::make_ready_future(1).then([](int value) { return value; });
#endif
}
