// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t

namespace async::inline v0_1::detail {

/// Waiters of an object, first in first out. Guarded by the object's lock.
///
/// A Waiter has the members `behind` and `before`, both null, and reserve(), which is called as it is chosen.
template <class Waiter>
class waiter_queue {
 public:
  std::size_t size() const noexcept { return size_; }

  void push(Waiter& t) noexcept {
    t.behind = nullptr;
    t.before = last_ != nullptr ? last_ : &t;  // never null in a queue
    (last_ != nullptr ? last_->behind : first_) = &t;
    last_ = &t;
    ++size_;
  }
  /// Puts a waiter in front of the others.
  void push_front(Waiter& t) noexcept {
    if (first_ == nullptr) return push(t);
    t.behind = first_;
    t.before = &t;
    first_->before = &t;
    first_ = &t;
    ++size_;
  }

  /// Null: there is none.
  Waiter* first() const noexcept { return first_; }
  /// Unlinks the first waiter and reserves it, as one that is chosen; null: there is none.
  Waiter* pop() noexcept {
    Waiter* const t = first_;
    if (t != nullptr) {
      unlink(*t);
      t->reserve();
    }
    return t;
  }

  /// The latest of those for which wanted(waiter) is true, among the last eight; null: there is none.
  template <class Wanted>
  Waiter* latest_of(Wanted wanted) const noexcept {
    Waiter* t = last_;
    for (int looks = 8; t != nullptr && looks != 0; --looks) {
      if (wanted(*t)) return t;
      t = t->before != t ? t->before : nullptr;
    }
    return nullptr;
  }

  static bool is_in(const Waiter& t) noexcept { return t.before != nullptr; }

  /// Unlinks a waiter, wherever it stands. False: it is not in the queue any more.
  bool remove(Waiter& t) noexcept {
    if (!is_in(t)) return false;
    unlink(t);
    return true;
  }

 private:
  void unlink(Waiter& t) noexcept {
    Waiter* const ahead = t.before == &t ? nullptr : t.before;
    (ahead != nullptr ? ahead->behind : first_) = t.behind;
    if (t.behind != nullptr) {
      t.behind->before = ahead != nullptr ? ahead : t.behind;
    } else {
      last_ = ahead;
    }
    t.behind = t.before = nullptr;
    --size_;
  }

  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace async::inline v0_1::detail
