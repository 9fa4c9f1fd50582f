// SPDX-License-Identifier: BSL-1.0
//
// One program of two files that are compiled with different versions of the headers, whose classes differ in size. Each
// has pools, queues and flows of its own; the linker mixes up nothing.
#include <cstdio>

#include "module/versions_half.hpp"

const module_test::half module_test::old_half = own_half;

namespace {

int checks = 0;
int failed = 0;

void check(const char* name, int failures) {
  ++checks;
  if (failures == 0) return;
  ++failed;
  std::printf("failed: %s\n", name);
}

void check_half(const module_test::half& one, const module_test::half& other) {
  check("pools", one.use_pools(2));
  check("queues", one.use_queues(100'000));
  check("flows", one.use_flows(200));
  check("exceptions of the other version", one.throw_through(other.throw_stopped));
}

}  // namespace

int main() {
  using module_test::new_half;
  using module_test::old_half;
  check("shared pools", old_half.shared_pool() != new_half.shared_pool() ? 0 : 1);
  check_half(old_half, new_half);
  check_half(new_half, old_half);
  std::thread beside([] { check_half(new_half, old_half); });
  beside.join();
  std::printf("count: %d checks between versions\n", checks);
  return failed == 0 ? 0 : 1;
}
