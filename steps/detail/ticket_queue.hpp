// SPDX-License-Identifier: BSL-1.0
// floor: 11
#pragma once
#include <cstddef>  // for size_t

#include "steps/isync.hpp"  // for sync_ticket

namespace steps::detail {

/// The flows that wait for an ISync, first in first out. Guarded by the object's lock.
class ticket_queue {
 public:
  std::size_t size() const noexcept { return size_; }

  void push(sync_ticket& t) noexcept {
    t.next = nullptr;
    t.prev = last_ != nullptr ? last_ : &t;  // never null in a queue
    (last_ != nullptr ? last_->next : first_) = &t;
    last_ = &t;
    ++size_;
  }

  /// The next ticket to grant; null: nobody waits.
  sync_ticket* pop() noexcept {
    sync_ticket* const t = first_;
    if (t != nullptr) {
      take(*t);
      t->reserve();
    }
    return t;
  }

  /// Takes a ticket out, wherever it stands. False: it is not in the queue any more.
  bool remove(sync_ticket& t) noexcept {
    if (t.prev == nullptr) return false;
    take(t);
    return true;
  }

 private:
  void take(sync_ticket& t) noexcept {
    sync_ticket* const before = t.prev == &t ? nullptr : t.prev;
    (before != nullptr ? before->next : first_) = t.next;
    if (t.next != nullptr) {
      t.next->prev = before != nullptr ? before : t.next;
    } else {
      last_ = before;
    }
    t.next = t.prev = nullptr;
    --size_;
  }

  sync_ticket* first_ = nullptr;
  sync_ticket* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace steps::detail
