// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/threadpool_options.hpp"  // for threadpool_options

namespace testing {

/// The options of a pool of one thread that refuses work while a task waits for it.
inline async::threadpool_options with_room_for_one() {
  async::threadpool_options options;
  options.threads = 1;
  options.max_queue = 1;
  options.when_full = async::threadpool_options::overflow::reject;
  return options;
}

}  // namespace testing
