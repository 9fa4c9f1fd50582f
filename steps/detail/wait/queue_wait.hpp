// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>   // for destroy_at
#include <tuple>    // for tuple, apply
#include <utility>  // for exchange, forward, move

#include "async/detail/base/block_cache.hpp"    // for allocate_block, free_block
#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_FUNCTION
#include "async/detail/queue/queue_access.hpp"  // for queue_access, queue_result
#include "async/detail/queue/queue_waiter.hpp"  // for queue_waiter
#include "steps/detail/engine/callable.hpp"     // for call_handler
#include "steps/detail/engine/step_record.hpp"  // for discard_results
#include "steps/detail/wait/sync_waiter.hpp"    // for sync_waiter_base

/// Queues as steps, by await() and enqueue(). The element stays in the queue until the step itself takes it, on the
/// flow's loop, and a step that has been chosen and does not look again passes the wake-up on. So no element is lost or
/// left lying, whatever becomes of the flow.
namespace steps::inline v0_1::detail {

/// A flow that waits for a queue: its node in the event count's list, and the message that wakes it. It lives until the
/// message has arrived, which may be after the end of the flow.
struct queue_caller final : sync_waiter_base<queue_caller, async::detail::loop_core>, async::detail::queue_waiter {
  using as_message = sync_waiter_base<queue_caller, async::detail::loop_core>;

  queue_caller(flow& f, async::detail::event_count& e) noexcept
      : sync_waiter_base(*f.core), queue_waiter(how_to_tell), events(e), waiting(f) {}

  bool is_on_loop() const noexcept { return async::detail::current_loop == core; }
  void wake() noexcept {
    if (waiting.is_waiting()) detail::wake(waiting, verdict::rerun);  // else it runs, or an error is on its way to it
  }
  static void destroy(queue_caller& c) noexcept {
    std::destroy_at(&c);
    async::detail::free_block(&c, sizeof(queue_caller));
  }

  bool withdraw(queue_caller&) noexcept { return events.remove(*this); }
  /// The flow does not look at the queue any more.
  void leave() noexcept {
    abandon(*this, [this] { events.wake(1); });
  }

  async::detail::event_count& events;
  flow& waiting;

 private:
  static void chosen(queue_waiter& w) noexcept { static_cast<queue_caller&>(w).as_message::reserve(); }
  static void told(queue_waiter& w) noexcept { static_cast<queue_caller&>(w).grant(); }
  static constexpr operations how_to_tell{&chosen, &told};
};

/// A step's place in the line of a queue. The step leaves it before its error handler runs, at the latest at its end.
class queue_line {
 public:
  queue_line() = default;
  queue_line(const queue_line&) = delete;
  queue_line& operator=(const queue_line&) = delete;
  ~queue_line() { leave(); }

  /// Lines up; in front, if it has been called before. Throws std::bad_alloc the first time.
  void join(flow& f, async::detail::event_count& events) {
    const bool again = caller_ != nullptr;
    if (again) {
      caller_->reset();
    } else {
      caller_ = ::new (async::detail::allocate_block(sizeof(queue_caller))) queue_caller(f, events);
    }
    events.add(*caller_, again);
  }
  bool is_called() const noexcept { return caller_->has_arrived(); }
  /// The step has got what it waited for; it was called if it waited.
  void end() noexcept {
    if (caller_ != nullptr) queue_caller::destroy(*std::exchange(caller_, nullptr));
  }
  /// The step does not look at the queue any more, called or not.
  void leave() noexcept {
    if (caller_ != nullptr) std::exchange(caller_, nullptr)->leave();
  }

 private:
  queue_caller* caller_ = nullptr;
};

/// Makes the attempt; where that is blocked, the step waits, and makes it again when it is called. `again`: the attempt
/// after one that was blocked.
template <class Attempt, class Again>
async::detail::queue_result attempt_or_wait(flow& f, async::detail::event_count& events, queue_line& line,
                                            Attempt attempt, Again again) {
  using async::detail::queue_result;
  queue_result result = attempt();
  if (result != queue_result::blocked) {
    line.end();
    return result;
  }
  do {
    line.join(f, events);
    result = again();
    if (result != queue_result::blocked) {
      line.leave();
      return result;
    }
  } while (line.is_called());  // by a constructor of the element, in the attempt
  f.mark_wait();
  return result;
}

template <class Attempt>
async::detail::queue_result attempt_or_wait(flow& f, async::detail::event_count& events, queue_line& line,
                                            Attempt attempt) {
  return attempt_or_wait(f, events, line, attempt, attempt);
}

void set_queue_closed(flow& f);

/// Memory for results of the types in Values; a box is there before the values are.
template <class Values>
class results_place {
 public:
  explicit results_place(flow& f) : flow_(f) {
    if constexpr (Values::boxed) memory_ = allocate_box(f, Values::size, Values::align);
  }
  ~results_place() {
    if constexpr (Values::boxed) {
      if (memory_ != nullptr) free_box(flow_, memory_, Values::size, Values::align);
    }
  }
  results_place(const results_place&) = delete;
  results_place& operator=(const results_place&) = delete;

  /// Makes the values. On an exception or a mistake there are none.
  template <class... A>
  void make(A&&... args) {
    is_made_ =
        make_results<Values>(flow_, Values::boxed ? memory_ : static_cast<void*>(flow_.slot), std::forward<A>(args)...);
  }
  /// Where they are made, they are the flow's results.
  void keep() noexcept {
    if (!is_made_) [[unlikely]]
      return;
    if constexpr (Values::boxed) ::new (static_cast<void*>(flow_.slot)) void*(std::exchange(memory_, nullptr));
    flow_.tag = &Values::tag;
  }

 private:
  flow& flow_;
  void* memory_ = nullptr;
  bool is_made_ = false;
};

/// Takes the oldest element as the flow's result. It leaves the queue only when there is memory for it.
template <class Queue>
async::detail::queue_result take_result(flow& f, Queue& queue) {
  using values = pack<stored_t<typename Queue::value_type>>;
  results_place<values> place(f);
  const auto result =
      async::detail::queue_access::take(queue, [&place](auto&& element) { place.make(std::move(element)); });
  if (result == async::detail::queue_result::done) place.keep();
  return result;
}

/// A step of await(queue).
template <class Face, class Queue, class E>
struct dequeue_step final : Face {
  static constexpr bool hands_over = true;

  template <class H>
  dequeue_step(Queue& q, H&& h) : queue(q), handler(std::forward<H>(h)) {}

  static void run(step& s) {
    using async::detail::queue_access;
    using async::detail::queue_result;
    auto& self = static_cast<dequeue_step&>(s);
    flow& f = *s.flow_;
    s.flags_ |= record_flag::begun;
    discard_results(f);
    const auto attempt = [&self, &f] { return take_result(f, self.queue); };
    const auto again = [&self, attempt] {
      return queue_access::is_blocked(self.queue) ? queue_result::blocked : attempt();
    };
    const queue_result result = attempt_or_wait(f, queue_access::items(self.queue), self.line, attempt, again);
    if (result == queue_result::closed) return set_queue_closed(f);
    if (result != queue_result::done) return;
    if constexpr (std::is_trivially_destructible_v<E>) s.flags_ &= static_cast<std::uint16_t>(~record_flag::destroys);
    if (f.may_complete()) f.mark_success();
  }
  void fail(ErrorCode code) {
    line.leave();
    call_handler<Face>(handler, *this, code);
  }

  Queue& queue;
  queue_line line;
  [[no_unique_address]] E handler;
};

/// Puts an element into a bounded_queue, or waits for room in it. Other queues always have room.
template <class Queue>
struct put_or_wait {
  template <class Put>
  async::detail::queue_result operator()(flow&, Queue&, Put put) {
    return put();
  }
};
template <class Queue>
  requires async::detail::queue_access::is_bounded<Queue>
struct put_or_wait<Queue> {
  template <class Put>
  async::detail::queue_result operator()(flow& f, Queue& q, Put put) {
    return attempt_or_wait(f, async::detail::queue_access::room(q), line, put);
  }
  queue_line line;
};

/// A step of enqueue(). The queue takes the arguments when it has room.
template <class Face, class Queue, class... A>
struct enqueue_step final : Face {
  template <class... B>
  explicit enqueue_step(Queue& q, B&&... b) : queue(q), arguments(std::forward<B>(b)...) {}

  static void run(step& s) {
    auto& self = static_cast<enqueue_step&>(s);
    flow& f = *s.flow_;
    s.flags_ |= record_flag::begun;
    discard_results(f);
    const auto put = [&self] {
      return std::apply([&self](A&... a) { return async::detail::queue_access::put(self.queue, std::move(a)...); },
                        self.arguments);
    };
    if (self.wait(f, self.queue, put) == async::detail::queue_result::closed) set_queue_closed(f);
  }

  Queue& queue;
  [[no_unique_address]] put_or_wait<Queue> wait;
  std::tuple<A...> arguments;
};

/// True, or a compile-time message, for the queue of await() and enqueue(). Q: the deduced type of the argument.
template <class Q>
struct check_queue {
  static_assert(std::is_lvalue_reference_v<Q>, "a flow refers to its queue, which outlives it: pass no temporary");
  static_assert(!std::is_const_v<std::remove_reference_t<Q>>, "a flow changes the queue that it waits for: not const");
  static constexpr bool ok = std::is_lvalue_reference_v<Q> && !std::is_const_v<std::remove_reference_t<Q>>;
};
template <class Q>
inline constexpr bool is_queue_of_flows = check_queue<Q>::ok;

/// The same for the arguments of enqueue(), of which the step keeps copies.
template <class Q, class... A>
struct check_element {
  static constexpr bool must_move =
      ((!std::is_constructible_v<std::decay_t<A>, A> && std::is_move_constructible_v<std::decay_t<A>>) || ...);
  static_assert(!must_move, "what cannot be copied is moved in: write enqueue(queue, std::move(element))");
  static constexpr bool ok = (std::is_constructible_v<std::decay_t<A>, A> && ...) &&
                             std::is_constructible_v<typename Q::value_type, std::decay_t<A>&&...>;
  static_assert(ok || must_move, "enqueue(queue, arguments...) makes an element from copies of the arguments");
};
template <class Q, class... A>
inline constexpr bool makes_element = check_element<Q, A...>::ok;

#if ASYNCSTEPS_DEFINED
[[gnu::noinline, gnu::cold]] ASYNCSTEPS_FUNCTION void set_queue_closed(flow& f) {
  set_error(f, errors::QueueClosed, "the queue is closed");
}
#endif

}  // namespace steps::inline v0_1::detail
