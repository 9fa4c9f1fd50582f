// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace async::inline v0_1::detail {

struct queue_access;

/// The result of one attempt on a queue, which never sleeps.
enum class queue_result : unsigned char {
  done,
  blocked,  // enqueue: full; dequeue: empty
  closed,   // enqueue: closed; dequeue: closed and drained
};

}  // namespace async::inline v0_1::detail
