// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdio>

/// Counts what holds and prints what does not. For programs that have nothing but the module and the standard library.
struct checks {
  void that(bool holds, const char* what) {
    ++made;
    if (holds) return;
    ++failed;
    std::printf("failed: %s\n", what);
  }
  /// The exit code of the program.
  int end() const {
    std::printf("count: %d checks of imported names\n", made);
    return failed == 0 && made != 0 ? 0 : 1;
  }

  int made = 0;
  int failed = 0;
};

#define CHECK(condition) all.that(condition, #condition)
