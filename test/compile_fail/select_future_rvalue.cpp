// SPDX-License-Identifier: BSL-1.0
//
// A future that is waited for has a name, since its result is taken out afterwards.
// expect: on_ready\(future, f\) leaves the future to the caller
#include "async/future.hpp"
#include "async/select.hpp"

int main() {
#ifndef CONTROL
  async::select(async::on_ready(async::make_ready_future(1)));
#else
  async::future<int> future = async::make_ready_future(1);
  async::select(async::on_ready(future));
#endif
}
