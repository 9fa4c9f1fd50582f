// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <valgrind/callgrind.h>

#include <cstddef>           // for size_t
#include <cstdio>            // for printf
#include <initializer_list>  // for initializer_list
#include <string>            // for string, to_string

/// Programs that perform an operation under callgrind a known number of times; check.py makes the instructions of one
/// operation of it. What a program does must not depend on time or on how threads take turns.
namespace budget {

struct operation {
  const char* name;
  std::size_t times;                   ///< and a second time three times as often: the difference is what counts
  void (*perform)(std::size_t times);  ///< with whatever else, as long as that does not grow with the times
};

/// Lets callgrind count each operation twice, after a first time for the caches of the library.
inline int measure(std::initializer_list<operation> operations) {
  for (const operation& each : operations) {
    each.perform(3 * each.times);
    for (const std::size_t times : {each.times, 3 * each.times}) {
      const std::string label = std::to_string(times) + " " + each.name;
      CALLGRIND_ZERO_STATS;
      each.perform(times);
      CALLGRIND_DUMP_STATS_AT(label.c_str());
    }
  }
  std::printf("%s\n", RUNNING_ON_VALGRIND ? "measured" : "not running on valgrind");
  return 0;
}

}  // namespace budget
