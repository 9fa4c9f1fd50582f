// SPDX-License-Identifier: BSL-1.0
//
// The handler of on_pop() gets the element as an rvalue.
// expect: on_pop\(queue, f\) calls f\(element\), with an rvalue
#include "async/queue.hpp"
#include "async/select.hpp"

int main() {
  async::queue<int> queue;
#ifndef CONTROL
  async::select(async::on_pop(queue, [](int&) {}), async::otherwise());
#else
  async::select(async::on_pop(queue, [](int) {}), async::otherwise());
#endif
}
