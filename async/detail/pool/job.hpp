// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace async::detail {

/// What the deques of a pool hold pointers to, since a thief's racy read must be of a pointer. run() does the work, and
/// destroys and frees the job. It throws nothing; only pthread_exit() in a task unwinds through it.
struct job {
  void (*run)(job*);
};

}  // namespace async::detail
