// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace async::detail {

/// Work that a pool's deques point to. They hold pointers because a thief's racy read must be trivial. run() does the
/// work, destroys and frees the job, and throws nothing. Only pthread_exit() in a task unwinds through it.
struct job {
  void (*run)(job*);
};

}  // namespace async::detail
