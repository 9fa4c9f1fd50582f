// SPDX-License-Identifier: BSL-1.0
#pragma once

/// What the two halves of a program offer each other that are compiled with different versions of the headers. Nothing
/// of the library is in it, since its types differ.
namespace module_test {

/// The functions of one half. Each returns how many of its checks have failed.
struct half {
  const void* (*shared_pool)();
  int (*use_pools)(int threads);
  int (*use_queues)(int elements);
  int (*use_flows)(int flows);
  int (*throw_through)(void (*)());  // calls it, and tells whether what it throws is not known here
  void (*throw_stopped)();
};
extern const half new_half;  // of the headers with another version and other layouts
extern const half old_half;

}  // namespace module_test
