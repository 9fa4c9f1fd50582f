// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for derived_from
#include <memory>       // for destroy_at
#include <string_view>  // for string_view
#include <utility>      // for forward, exchange

#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_SHARED
#include "steps/detail/engine/scopes.hpp"       // for make_scope
#include "steps/detail/engine/step_record.hpp"  // for call_function
#include "steps/detail/wait/sync_waiter.hpp"    // for sync_waiter_base, sync_entry

namespace steps::inline v0_1 {

class ISync;

namespace detail {

/// A flow that waits for an ISync: its node in the object's queue, and the message that wakes it. It lives until the
/// message has arrived, which may be after the end of the flow.
///
/// From ISync::enqueue() until it is granted or withdrawn the object owns it: `behind`, `before` and `stage` are for
/// the object's queues, `period_end` is for the period that lets it in. The timer is for use on the flow's loop, and so
/// is a ring within one loop. The end of the wait disarms the timer.
struct sync_waiter : sync_waiter_base<sync_waiter, async::detail::loop_core>, async::detail::timer_node {
  sync_waiter(ISync& o, step& s) noexcept
      : sync_waiter_base(*s.flow_->core), timer_node(&expired), object(o), waiting(*s.flow_) {}

  bool is_on_loop() const noexcept { return async::detail::current_loop == core; }
  void wake() noexcept {
    if (waiting.is_waiting()) detail::wake(waiting, verdict::rerun);  // else an error is on its way to the step
  }
  /// Whether no branch can keep the loop busy: the flow is on a pool, in a loop of its own. What it gives to tool()
  /// can.
  bool is_alone_on_loop() const noexcept {
    const step* const parent = waiting.root.parent_;
    return waiting.pool != nullptr && (parent == nullptr || parent->flow_->core != waiting.core);
  }
  static void expired(timer_node& node);
  static void destroy(sync_waiter& t) noexcept {
    std::destroy_at(&t);
    async::detail::free_block(&t, sizeof(sync_waiter));
  }

  sync_waiter* behind = nullptr;
  sync_waiter* before = nullptr;
  unsigned stage = 0;
  bool shares_timer = false;  // with flows of other loops; as set by enqueue()
  enum class timer_role : unsigned char { none, asked, keeper } role = timer_role::none;  // see Throttle
  async::detail::loop_core::time_point period_end{};
  sync_waiter* ring_next = nullptr;  // null: in no ring
  sync_waiter* ring_prev = nullptr;
  ISync& object;
  flow& waiting;
};

}  // namespace detail

/// A synchronisation object, which lets in a limited number of flows: Mutex, Semaphore, Throttle, Limiter, or a class
/// of yours (FTN12 1.11).
///
///   asi.sync(mutex, [](steps::IAsyncSteps& asi) { … });
///
/// Use it as the first argument of asi.sync(). To write one, keep a count and a queue of waiters under a short lock:
/// reserve() a waiter as it leaves the queue, and grant() it after the lock has been released.
///
/// Threads     the loops of the flows call all functions, from several threads at the same time.
/// Lifetime    outlives the flows that use it.
class ISync {
 public:
  ISync(const ISync&) = delete;
  ISync& operator=(const ISync&) = delete;

  /// entered: the flow has a place, until leave(). must_queue: no place; enqueue() is called next. queued, by enqueue()
  /// only: the object has the waiter, and will grant it. rejected: the queue is full, DefenseRejected at the step.
  /// over_rate: the same, where explain() tells two queues apart.
  using entry = detail::sync_entry;

  /// The same as asi.sync(*this, f) and asi.sync(*this, f, onerror): FTN12's interface of such an object, for code that
  /// is written to it.
  template <std::derived_from<detail::step> Asi, class F>
  void sync(Asi& asi, F&& f) {
    asi.sync(*this, std::forward<F>(f));
  }
  template <std::derived_from<detail::step> Asi, class F, class E>
  void sync(Asi& asi, F&& f, E&& onerror) {
    asi.sync(*this, std::forward<F>(f), std::forward<E>(onerror));
  }

  /// Asks for a place for a flow. `nested`: it has one already. Never returns `queued`.
  virtual entry try_enter(bool nested) noexcept = 0;
  /// The same with a waiter to queue, after try_enter() has returned must_queue. Never returns `must_queue`.
  virtual entry enqueue(detail::sync_waiter& waiter, bool nested) noexcept = 0;
  /// The waiter has been granted, or woken for another reason, and its flow runs; it may have to queue again. Never
  /// returns `must_queue`.
  virtual entry go_on(detail::sync_waiter&, bool /*nested*/) noexcept { return entry::entered; }
  /// The waiter's timer has fired, on its flow's loop. The flow still waits: in the queue, or for the message.
  virtual void on_timer(detail::sync_waiter&) noexcept {}
  /// The wait is over, on the flow's loop: the waiter has been granted, or is about to be withdrawn.
  virtual void end_wait(detail::sync_waiter&) noexcept {}
  /// A flow gives its place back. `nested`: as it was on entering.
  virtual void leave(bool nested) noexcept = 0;
  /// The same for a flow that has been granted a place, or woken for another reason, and ends before it has run.
  virtual void give_back(detail::sync_waiter&, bool nested) noexcept { leave(nested); }
  /// Removes a waiter from the queue: its flow has been cancelled. False: it has been granted or woken already.
  virtual bool withdraw(detail::sync_waiter& waiter) noexcept = 0;
  /// The limit that a `rejected` or `over_rate` flow has run into: the error info of its DefenseRejected. A literal.
  virtual std::string_view explain(entry) const noexcept { return "the queue of the sync object is full"; }

 protected:
  ISync() = default;
  ~ISync() = default;
};

namespace detail {

inline void sync_waiter::expired(timer_node& node) {
  auto& t = static_cast<sync_waiter&>(node);
  if (!t.core->closing()) t.object.on_timer(t);
}

/// A flow's place in an ISync, or its wait for one; ends with the step, after its error handler.
struct sync_scope : scope {
  explicit sync_scope(ISync& o, bool n) noexcept : object(o), nested(n) {}

  static void left(scope& base) noexcept {
    auto& self = static_cast<sync_scope&>(base);
    if (sync_waiter* const t = std::exchange(self.waiter, nullptr)) {
      end_wait(*t);
      t->abandon(self.object, [&self, t] { self.object.give_back(*t, self.nested); });
    } else if (self.entered) {
      self.object.leave(self.nested);
    }
  }
  static void end_wait(sync_waiter& t) noexcept {
    t.object.end_wait(t);
    t.core->timers().disarm(t);
  }
  ASYNCSTEPS_SHARED static constexpr scope_ops ops{scope_ops::kind::lasting, nullptr, &left};

  ISync& object;
  sync_waiter* waiter = nullptr;
  bool nested;
  bool entered = false;
};

/// True when the flow holds a place in the object; branches of parallel() inherit none.
inline bool holds(const flow& f, const ISync& object) noexcept {
  for (const scope* s = f.scopes; s != nullptr; s = s->outer) {
    if (s->ops != &sync_scope::ops) continue;
    const auto& place = static_cast<const sync_scope&>(*s);
    if (&place.object == &object && place.entered) return true;
  }
  return false;
}

/// The place of the step of sync() that is running outlives the step: its owner gives it back.
inline void keep_place(const step& s, const ISync& object) noexcept {
  scope* place = s.flow_->scopes;
  while (place->ops != &sync_scope::ops || &static_cast<sync_scope*>(place)->object != &object) place = place->outer;
  static_cast<sync_scope*>(place)->entered = false;
}

/// Enters for the step of sync() that is running, or waits. True: it has a place.
inline bool enter_sync(step& s, ISync& object, sync_scope*& place) {
  flow& f = *s.flow_;
  ISync::entry result;
  if (place == nullptr) {
    s.flags_ |= record_flag::begun;
    place = &make_scope<sync_scope>(f, s, object, holds(f, object));
    result = object.try_enter(place->nested);
    if (result == ISync::entry::must_queue) {
      place->waiter = ::new (async::detail::allocate_block(sizeof(sync_waiter))) sync_waiter(object, s);
      result = object.enqueue(*place->waiter, place->nested);
    }
  } else {
    sync_scope::end_wait(*place->waiter);
    place->waiter->reset();
    result = object.go_on(*place->waiter, place->nested);
  }
  if (result == ISync::entry::queued) {
    f.mark_wait();
    return false;
  }
  if (place->waiter != nullptr) sync_waiter::destroy(*std::exchange(place->waiter, nullptr));
  if (is_rejection(result)) {
    set_error(f, errors::DefenseRejected, object.explain(result));
    return false;
  }
  place->entered = true;
  return true;
}

/// A step of sync(): results go in and out as if it were a step of add(). The handler is in force once it has a place.
template <class Face, class F, class E>
struct sync_step final : Face {
  template <class G, class H>
  sync_step(ISync& o, G&& g, H&& h) : object(o), function(std::forward<G>(g)), handler(std::forward<H>(h)) {}

  static void run(step& s) {
    auto& self = static_cast<sync_step&>(s);
    if (!enter_sync(s, self.object, self.place)) return;
    if constexpr (!std::is_same_v<E, no_handler>) s.flags_ |= record_flag::handler;
    call_function<Face>(*s.flow_, self, self.function, typename wanted_results<F>::type());
  }
  void fail(ErrorCode code) { call_handler<Face>(handler, *this, code); }

  ISync& object;
  sync_scope* place = nullptr;
  [[no_unique_address]] F function;
  [[no_unique_address]] E handler;
};

}  // namespace detail
}  // namespace steps::inline v0_1
