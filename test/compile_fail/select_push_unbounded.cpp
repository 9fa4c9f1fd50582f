// SPDX-License-Identifier: BSL-1.0
//
// There is always room in an async::queue.
// expect: on_push\(queue, item, f\) takes an async::bounded_queue
#include "async/bounded_queue.hpp"
#include "async/queue.hpp"
#include "async/select.hpp"

int main() {
#ifndef CONTROL
  async::queue<int> queue;
#else
  async::bounded_queue<int> queue(1);
#endif
  async::select(async::on_push(queue, 1), async::otherwise());
}
