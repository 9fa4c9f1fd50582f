// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t

#include "async/detail/base/atomics.hpp"  // for cell
#include "async/detail/loop/inbox.hpp"    // for message, delivery

namespace steps::detail {

/// Outcome for a flow that asks a sync object for a place; see ISync::entry.
enum class sync_entry {
  entered,     ///< the flow has a place, until leave()
  must_queue,  ///< no place: enqueue() is called next
  queued,      ///< enqueue() only: the object has the waiter, and will grant it a place
  rejected     ///< the queue is full: DefenseRejected at the step
};

/// A flow in the queue of a sync object and, when it has been granted a place, the message to the flow's loop.
///
/// The base of Waiter, which adds is_on_loop() for the calling thread, wake() for the flow, and destroy(Waiter&). Loop
/// is a loop_core, or a model's.
///
/// The flow owns its place from the moment when the object unlinks the waiter from its queue, under the object's lock.
/// A flow that is cancelled after that gives the place back. So no place is lost or given twice, whatever becomes of
/// the message.
///
/// Threads     while queued: the holder of the object's lock. Then the granting thread, until it has pushed the
///             message. Then the loop's, as for all that belongs to the wait.
template <class Waiter, class Loop>
struct sync_waiter_base : async::detail::message {
  explicit sync_waiter_base(Loop& l) noexcept : message(&arrived), core(&l) {}

  /// Called by the object, under its lock, as it unlinks the waiter to grant it. The loop exists: at its end it
  /// withdraws the waiters of its flows, and waits for the lock.
  void reserve() noexcept {
    if (!static_cast<Waiter*>(this)->is_on_loop()) core->add_ref();
  }
  /// Lets the flow in, after reserve(). On the same thread, without the object's lock.
  void grant() noexcept {
    if (static_cast<Waiter*>(this)->is_on_loop()) return arrived(*this, async::detail::delivery::on_loop);
    Loop& loop = *core;
    if (!loop.push(*this)) {
      // A refused push has seen all that the loop's thread did: no other thread has the waiter.
      arrived(*this, async::detail::delivery::dropped);
    }
    loop.release();
  }

  /// The flow stops waiting, on its loop. True: it has a place, for the waiter had left the queue. Destroys the waiter,
  /// now or when the message arrives.
  template <class Object>
  bool abandon(Object& object) noexcept {
    auto& self = static_cast<Waiter&>(*this);
    if (state.get() == pending && object.withdraw(self)) {
      Waiter::destroy(self);
      return false;
    }
    if (state.get() == pending) {
      state.set(abandoned);
    } else {
      Waiter::destroy(self);
    }
    return true;
  }
  /// The flow goes on, and the waiter may be queued again.
  void reset() noexcept { state.set(pending); }

  static void arrived(message& m, async::detail::delivery how) {
    auto& self = static_cast<Waiter&>(m);
    if (self.state.get() == abandoned) return Waiter::destroy(self);
    self.state.set(here);
    // When the loop has dropped the message, the flow's end is still to come, which gives the place back.
    if (how == async::detail::delivery::on_loop) self.wake();
  }

  Waiter* behind = nullptr;  // the object's, while it is in its queue
  Waiter* before = nullptr;
  Loop* const core;

 private:
  enum progress : unsigned char {
    pending,   ///< in a queue, or the message is on its way
    here,      ///< the message has arrived; the flow has yet to run
    abandoned  ///< the message is on its way, and the flow does not wait for it
  };
  async::detail::cell<progress> state{pending};
};

/// The flows that wait for a sync object, first in first out. Guarded by the object's lock.
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

  /// Unlinks the first waiter, to be granted; null: there is none.
  Waiter* pop() noexcept {
    Waiter* const t = first_;
    if (t != nullptr) {
      unlink(*t);
      t->reserve();
    }
    return t;
  }

  /// A waiter of this loop among the last eight; null: there is none.
  template <class Loop>
  Waiter* latest_of(const Loop* loop) const noexcept {
    Waiter* t = last_;
    for (int looks = 8; t != nullptr && looks != 0; --looks) {
      if (t->core == loop) return t;
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

}  // namespace steps::detail
