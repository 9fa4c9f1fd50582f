// SPDX-License-Identifier: BSL-1.0
//
// A task of a group is called without arguments.
// expect: task_function
#include "async/task_group.hpp"

int main() {
  async::threadpool pool(1);
  async::task_group group(pool);
  group.run([] {});
#ifndef CONTROL
  group.run([](int) {});
#endif
  group.wait();
}
