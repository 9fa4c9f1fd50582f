// SPDX-License-Identifier: BSL-1.0
//
// A call does not return a reference to what is about to end.
// expect: a result is a value or an lvalue reference: return T instead of T&&
#include <utility>

#include "async/threadpool.hpp"

int main() {
  async::threadpool pool(1);
  int number = 1;
#ifndef CONTROL
  pool.post([&number]() -> int&& { return std::move(number); }).get();
#else
  pool.post([&number]() -> int& { return number; }).get();
#endif
}
