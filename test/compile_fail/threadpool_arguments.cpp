// SPDX-License-Identifier: BSL-1.0
//
// A callable in a pool gets the arguments that were posted with it.
// expect: async_callable
#include <string>

#include "async/threadpool.hpp"

int main() {
  async::threadpool pool(1);
  pool.post([](const std::string& text) { return text.size(); }, "text").get();
#ifndef CONTROL
  pool.post([](const std::string& text) { return text.size(); }).get();
#endif
}
