// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>
#include <cstdio>
#include <future>
#include <string>

#include "async/async.hpp"
#include "steps/steps.hpp"

/// What the program and the library of these tests offer each other. Both compile all of it.
namespace module_test {

/// The exceptions that fail() throws.
enum class failure { error, stopped, queue_full, dropped, runtime };

/// The functions of one module.
struct calls {
  async::threadpool* (*shared)();
  async::blocking_pool* (*shared_blocking)();
  async::threadpool* (*make_pool)(std::size_t threads);
  void (*free_pool)(async::threadpool*);
  async::event_loop* (*make_loop)();
  void (*free_loop)(async::event_loop*);

  void (*fail)(failure);
  async::future<std::string> (*answer)(async::threadpool&);  // soon
  std::future<std::string> (*standard_answer)(async::threadpool&);
  int (*take)(async::queue<int>&);
  void (*put)(async::queue<int>&, int);

  void (*add_results)(steps::IAsyncSteps&);  // a std::string and an int
  void (*add_failure)(steps::IAsyncSteps&, failure);
  void (*add_state)(steps::IAsyncSteps&);
  void (*add_timeout)(steps::IAsyncSteps&);
  void (*add_wait)(steps::IAsyncSteps&, bool& cancelled);  // without end
  void (*add_section)(steps::IAsyncSteps&, steps::Mutex&, int& inside, int& most);
  void (*cancel)(steps::AsyncSteps&);

  /// Checks this module against another one, whose pool and loop it uses.
  void (*check)(const calls& other);
  /// Checks that both have the same shared pools.
  void (*check_shared)(const calls& other);
  /// The same where the modules share nothing.
  void (*check_separate)(const calls& other);
  /// Leaves nothing behind, but uses what it can.
  void (*use)(async::threadpool&);
  void (*run_until_ready)(async::event_loop&, async::future<int>&);
  void (*heavy_fence)();
};

/// Called before each check, and again, with false, if it fails.
using note = void (*)(const char* name, bool ok);

}  // namespace module_test

/// The library's function.
extern "C" using module_entry = const module_test::calls * (*)(module_test::note);
