// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace async::inline v0_1::detail {

/// Work that a pool's deques point to. They hold pointers because a thief's racy read must be trivial. run() does the
/// work, destroys and frees the job, and throws nothing. Only pthread_exit() in a task unwinds through it.
struct job {
  void (*run)(job*);
};

/// A job that no construct joins: its tag in a deque is `posted_task` or `posted_by_flow`.
struct posted_job : job {
  struct operations {
    /// Destroys and frees the job without doing the work, and tells those who wait for its result.
    void (*discard)(posted_job*) noexcept;
  };
  const operations* how;  // null: the work is always done
};

}  // namespace async::inline v0_1::detail
