// SPDX-License-Identifier: BSL-1.0
//
// A case is used once, in the call that it is made in.
// expect: select\(\) takes cases that are made in the call
#include "async/queue.hpp"
#include "async/select.hpp"

int main() {
  async::queue<int> queue;
#ifndef CONTROL
  auto pop = async::on_pop(queue, [](int) {});
  async::select(pop, async::otherwise());
#else
  async::select(async::on_pop(queue, [](int) {}), async::otherwise());
#endif
}
