// SPDX-License-Identifier: BSL-1.0
//
// An event loop does not outlive its clock.
// expect: deleted
#include "async/event_loop.hpp"
#include "async/manual_clock.hpp"

int main() {
#ifndef CONTROL
  async::event_loop loop(async::manual_clock{});
#else
  async::manual_clock clock;
  async::event_loop loop(clock);
#endif
}
