// SPDX-License-Identifier: BSL-1.0
//
// on_set() is for events.
// expect: on_set\(event, f\) takes an async::event
#include "async/event.hpp"
#include "async/queue.hpp"
#include "async/select.hpp"

int main() {
#ifndef CONTROL
  async::queue<int> thing;
#else
  async::event thing(true);
#endif
  async::select(async::on_set(thing), async::otherwise());
}
