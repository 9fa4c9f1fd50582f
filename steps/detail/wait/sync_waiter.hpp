// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/atomics.hpp"  // for cell
#include "async/detail/loop/inbox.hpp"    // for message, delivery

namespace steps::inline v0_1::detail {

/// Outcome for a flow that asks a sync object for a place; see ISync::entry.
enum class sync_entry {
  entered,     ///< the flow has a place, until leave()
  must_queue,  ///< no place: enqueue() is called next
  queued,      ///< enqueue() only: the object has the waiter, and will grant it a place
  rejected,    ///< the queue is full: DefenseRejected at the step
  over_rate    ///< the same, of the second queue of an object that has two: the one for the next period
};

constexpr bool is_rejection(sync_entry e) noexcept { return e == sync_entry::rejected || e == sync_entry::over_rate; }

/// A flow in the queue of a sync object and, when it has been granted a place, the message to the flow's loop.
///
/// The base of Waiter, which adds is_on_loop() for the calling thread, wake() for the flow, and destroy(Waiter&). Loop
/// is a loop_core, or a model's.
///
/// The flow owns its place from the moment when the object unlinks the waiter from its queue, under the object's lock.
/// A flow that is cancelled after that gives the place back. So no place is lost or given twice, whatever becomes of
/// the message.
///
/// An object may also wake a waiter that stays in its queue, by the same two calls. Until the flow goes on or gives
/// back, the object does not withdraw it, and sends no second message.
///
/// Threads     while queued: the holder of the object's lock. Then the granting thread, until it has pushed the
///             message. Then the loop's, as for all that belongs to the wait.
template <class Waiter, class Loop>
struct sync_waiter_base : async::detail::message {
  explicit sync_waiter_base(Loop& l) noexcept : message(&arrived), core(&l) {}

  /// Called by the object, under its lock, as it unlinks the waiter to grant it, or decides to wake it. The loop
  /// exists: at its end it withdraws the waiters of its flows, and waits for the lock.
  void reserve() noexcept {
    if (!static_cast<Waiter*>(this)->is_on_loop()) core->add_ref();
  }
  /// Lets the flow in, after reserve(). On the same thread, without the object's lock.
  void grant() noexcept {
    static_cast<Waiter*>(this)->is_on_loop() ? arrived(*this, async::detail::delivery::on_loop) : send();
  }

  /// The flow stops waiting, on its loop. If the object does not withdraw the waiter, give_back() is called: the flow
  /// has a place and has not used it, or was to be woken. Destroys the waiter, now or when the message arrives.
  template <class Object, class GiveBack>
  void abandon(Object& object, GiveBack give_back) noexcept {
    auto& self = static_cast<Waiter&>(*this);
    if (state.get() == pending) {
      if (object.withdraw(self)) return Waiter::destroy(self);
      give_back();
      return state.set(abandoned);
    }
    give_back();
    Waiter::destroy(self);
  }
  /// The flow goes on, and the waiter may be queued again.
  void reset() noexcept { state.set(pending); }
  /// The message is here, on the flow's loop.
  bool has_arrived() const noexcept { return state.get() == here; }

  static void arrived(message& m, async::detail::delivery how) {
    auto& self = static_cast<Waiter&>(m);
    if (self.state.get() == abandoned) return Waiter::destroy(self);
    self.state.set(here);
    // When the loop has dropped the message, the flow's end is still to come, which gives the place back.
    if (how == async::detail::delivery::on_loop) self.wake();
  }

  Loop* const core;

 private:
  [[gnu::noinline]] void send() noexcept {
    Loop& loop = *core;
    if (!loop.push(*this)) {
      // A refused push has seen all that the loop's thread did: no other thread has the waiter.
      arrived(*this, async::detail::delivery::dropped);
    }
    loop.release();
  }

  enum progress : unsigned char {
    pending,   ///< in a queue, or the message is on its way
    here,      ///< the message has arrived; the flow has yet to run
    abandoned  ///< the message is on its way, and the flow does not wait for it
  };
  async::detail::cell<progress> state{pending};
};

}  // namespace steps::inline v0_1::detail
