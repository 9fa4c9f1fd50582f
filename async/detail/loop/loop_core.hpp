// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for min
#include <chrono>     // for nanoseconds
#include <cstddef>    // for size_t
#include <cstdint>    // for uint32_t
#include <cstdio>     // for fprintf
#include <exception>  // for exception_ptr, terminate
#include <memory>     // for shared_ptr, unique_ptr
#include <stdexcept>  // for logic_error
#include <utility>    // for move, exchange

#include "async/detail/base/atomics.hpp"          // for atomic, wait_clock
#include "async/detail/base/config.hpp"           // for cache_line, ASYNCSTEPS_SHARED
#include "async/detail/base/durations.hpp"        // for later, time_between
#include "async/detail/base/forks.hpp"            // for forked::note, end_forked_child
#include "async/detail/base/parker.hpp"           // for parker
#include "async/detail/base/platform.hpp"         // for prefetch_for_write
#include "async/detail/base/reference_count.hpp"  // for reference_count
#include "async/detail/base/unhandled.hpp"        // for unhandled_hook, terminate_for
#include "async/detail/loop/biased_lock.hpp"      // for biased_lock
#include "async/detail/loop/inbox.hpp"            // for inbox, message, recurring_message
#include "async/detail/loop/loop_extension.hpp"   // for loop_extensions
#include "async/detail/loop/loop_wake.hpp"        // for loop_wake
#include "async/detail/loop/message_chain.hpp"    // for message_chain
#include "async/detail/loop/ready_queue.hpp"      // for ready_queue, runnable
#include "async/detail/loop/tenant_count.hpp"     // for tenant_count
#include "async/detail/loop/timer_queue.hpp"      // for timer_queue, timer_node
#include "async/detail/trace/trace_points.hpp"    // for ASYNCSTEPS_TRACE_SPAN
#include "async/task.hpp"                         // for task
#include "async/time_source.hpp"                  // for time_source

namespace async::inline v0_1 {

class event_loop;

namespace detail {

class loop_core;
loop_core& core_of(event_loop& loop) noexcept;

/// The loop in whose turn this thread is, or which it is destroying.
ASYNCSTEPS_SHARED inline constinit thread_local loop_core* current_loop = nullptr;

/// The loop that event_loop::current() names on this thread between turns: a worker's own.
ASYNCSTEPS_SHARED inline constinit thread_local loop_core* worker_loop = nullptr;

/// An event loop without its interface for tasks. event_loop, flows and pools are built on it. It is reference-counted,
/// so that other threads that want to reach the loop can learn that it has been destroyed.
///
/// Threads     add_ref(), release(), push(), is_same_thread(), stop(): any. turn(), run_until(): any, one at a time.
///             All others: in a turn or within a loop_entry. The owner is the thread that made the loop, or the last
///             one that has called turn(), run_until() or adopt().
class loop_core {
 public:
  using time_point = wait_clock::time_point;
  using nanoseconds = std::chrono::nanoseconds;

  struct cycle_result {
    bool have_work;
    nanoseconds delay;
  };

  /// The largest number of runnables, and of timers, that run in one turn.
  static constexpr std::uint32_t turn_limit = 256;

  explicit loop_core(event_loop* loop, time_source source, task wake)
      : loop_(loop),
        wake_(loop_wake::by(std::move(wake))),
        source_(source.now != nullptr ? new time_source(source) : nullptr),
        turn_time_(read_clock()),
        timers_(turn_time_) {
    keep_places(60);
    timers_.make_wheels();
    adopt();
  }
  /// For a loop_host. There may be a loop for each flow, so it allocates the 17 KiB of timer wheels only if it needs
  /// them. `origin`: that of the timer_queue in which the host arms the first deadline.
  loop_core(event_loop* loop, loop_wake wake, time_point origin)
      : loop_(loop), wake_(std::move(wake)), turn_time_(origin), timers_(origin) {
    keep_places(1);
    adopt();
  }
  loop_core(const loop_core&) = delete;
  loop_core& operator=(const loop_core&) = delete;

  // --- from any thread ---

  void add_ref() noexcept { references_.add(); }
  void release() noexcept {
    if (references_.drop()) delete this;
  }

  /// A flow has been bound to this loop, which it may use again after its end: until remove_tenant() the loop serves no
  /// other one. Only for the loops of a pool.
  void add_tenant() noexcept {
    add_ref();
    tenants_.add();
  }
  void remove_tenant() noexcept {
    tenants_.remove();
    release();
  }
  bool has_tenant() const noexcept { return tenants_.any(); }

  /// Hands a message to the loop, and wakes the loop if it sleeps. False: the loop has been destroyed, and the message
  /// is still the caller's.
  bool push(message& m) noexcept {
    const inbox::pushed result = inbox_.push(m);
    if (result == inbox::pushed::wake_thread || result == inbox::pushed::wake_embedder) [[unlikely]] {
      ASYNCSTEPS_TRACE_SPAN(wake, "wake", trace_id(this));
      if (result == inbox::pushed::wake_thread) {
        parker_.unpark();
      } else {
        wake_();
      }
      inbox_.woken();
    }
    return result != inbox::pushed::refused;
  }

  /// True on the owner's thread, and on a thread that is in the loop. Between turns this does not exclude other
  /// threads: see loop_entry.
  bool is_same_thread() const noexcept { return current_loop == this || owner_.is(thread_token()); }
  /// The function that tells which loop the calling thread is in, as the module knows that compiled it.
  using view = const loop_core* (*)() noexcept;
  static const loop_core* current() noexcept { return current_loop; }
  /// Before the loop is used: `v` is that of the module whose threads run turns of it.
  void set_view(view v) noexcept { view_ = v; }
  /// True in a turn of this loop that only another module knows of, which shares nothing with this one.
  bool is_current_elsewhere() const noexcept { return current_loop != this && view_() == this; }
  /// True for the loops of pools.
  bool is_hosted() const noexcept { return hosted_; }

  // --- for flows and callbacks, on the owner's thread ---

  ready_queue& ready() noexcept { return ready_; }
  timer_queue<wait_clock>& timers() noexcept { return timers_; }
  /// Reads the clock.
  time_point now() const noexcept { return read_clock(); }
  /// The time at which the clock was last read for a turn.
  time_point turn_time() const noexcept { return turn_time_; }
  event_loop& loop() const noexcept { return *loop_; }
  /// True while the loop is being destroyed: runnables and timers only release what they hold.
  bool closing() const noexcept { return closing_; }

  /// This loop's object of type T, made on first use. T is a loop_extension and is constructed from the core.
  template <class T>
  T& extension() {
    return extensions_.get<T>(*this);
  }

  /// Gives `error` to the hook, whose exceptions pass through. Without a hook, ends the program.
  void unhandled(std::exception_ptr error) {
    if (unhandled_ == nullptr || (closing_ && !hosted_)) terminate_for(error);
    const std::shared_ptr<unhandled_hook> hook = unhandled_;  // which may set another
    (*hook)(std::move(error));
  }
  void set_unhandled(std::shared_ptr<unhandled_hook> hook) noexcept { unhandled_ = std::move(hook); }

  // --- for the thread that drives the loop ---

  /// Asks for the memory of a turn.
  void prefetch() const noexcept {
    const auto* const first = reinterpret_cast<const char*>(this);
    const auto* const own = reinterpret_cast<const char*>(&around_);
    prefetch_for_write(first);
    for (const char* line = own; line < first + sizeof(*this); line += cache_line) prefetch_for_write(line);
  }

  /// Makes the calling thread the owner, between turns.
  void adopt() noexcept { owner_.leave(owner_.enter(thread_token())); }
  /// Leaves the loop without an owner until the next adopt() or turn. By the owner, between turns.
  void disown() noexcept { owner_.disown(); }

  /// Runs one bounded turn: messages, due timers, then everything that is ready by then. Never sleeps. If there is
  /// nothing more to do at once, the next push wakes the embedder, if there is one. An exception that leaves the turn
  /// wakes it, too.
  cycle_result turn() {
    const turn_scope scope(not_hosted());
    try {
      deliver_messages();
      fire_timers(true);
      run_ready();
    } catch (...) {
      if (wake_) wake_();
      throw;
    }
    if (has_work() || inbox_.has_messages()) return {true, nanoseconds::zero()};
    return timers_.maybe_armed() || wake_ ? rest() : cycle_result{false, nanoseconds::zero()};
  }

  /// Runs turns, and sleeps in between, until stop() or `deadline`; at least one turn.
  void run_until(time_point deadline) {
    const turn_scope scope(not_hosted());
    const bool timed = deadline != (time_point::max)();
    while (!std::exchange(stop_requested_, false)) {
      deliver_messages();
      const bool look = ran_since_clock_ >= clock_interval_ || (ready_.empty() && !timers_.any_due());
      if (look && timed) read_turn_time();
      if (!stop_requested_) fire_timers(look);
      if (!stop_requested_) run_ready();
      if (look && timed && turn_time_ >= deadline) {
        stop_requested_ = false;  // it was for this run
        return;
      }
      if (!stop_requested_ && !has_work()) sleep(deadline);
    }
  }

  /// Ends the current run_until() or, if there is none, the next one. From any thread.
  void stop() noexcept {
    if (current_loop == this) {
      stop_requested_ = true;
    } else if (stop_.depart()) {
      push(stop_);
    }
  }

  /// Drops everything that waits in the loop, and refuses messages from here on. By the destructor of event_loop.
  void close() noexcept {
    {
      const turn_scope scope(*this, [](bool nested) {
        std::fprintf(stderr, "asyncsteps: an event_loop is destroyed %s\n",
                     nested ? "by a callback of its own" : "while another thread runs it");
        std::terminate();
      });
      closing_ = true;
      extensions_.close();
      drop_all();
      while (cancels_owed_ != 0) {  // another thread is about to push
        yield_thread();
        drop_all();
      }
      messages_.append(inbox_.close());
      drop_all();
      extensions_.clear();
      unhandled_.reset();
      wake_.reset();
    }
    disown();
  }

  /// Takes back a message that has been pushed and not yet delivered. False: it is not there.
  bool retract(message& m) noexcept {
    if (inbox_.has_messages()) messages_.append(inbox_.take());  // else an announced sleep would be ended
    return messages_.remove(m);
  }

  /// Delivers the messages for which wanted(message) is true; the others wait for their turn. For a callback that
  /// itself waits for another thread.
  template <class Wanted>
  void deliver_those(Wanted wanted) {
    if (inbox_.has_messages()) messages_.append(inbox_.take());
    messages_.deliver_those(wanted);
  }
  /// The loop that the thread was in before this one. In a turn.
  loop_core* around() const noexcept { return around_; }

  /// In a child of fork(): the loop's thread or pool is the parent's. Nothing runs here, and nobody may wait for it.
  bool is_left_behind() const noexcept {
    // relaxed: written while the child has one thread
    return left_behind_ != nullptr && left_behind_->load(std::memory_order_relaxed);
  }
  /// Where to look; before another thread reaches the loop. It must outlive the loop.
  void set_left_behind(const atomic<bool>& where) noexcept { left_behind_ = &where; }
  /// In a child of fork(), for a loop with a thread: refuses messages from here on.
  void leave_behind() noexcept {
    left_behind_ = &forked::always;
    inbox_.refuse();
    if (current_loop != this) return;
    forked::note();
    forget_work();
    current_loop = around_;
  }

  /// Leaves the loop without work, so that its turn ends after the callback that calls this. The work is neither
  /// run nor destroyed. For a child of fork().
  void forget_work() noexcept {
    messages_.forget();
    ready_.forget();
    timers_.clear([](timer_node&) noexcept {});
  }

  /// A root flow is cancelled because the loop closes.
  void note_cancelled_flow() noexcept { ++cancelled_flows_; }

  /// Another thread has cancelled a callback; its message is still to come (+1) or has come (-1).
  void owe_cancel(int change) noexcept { cancels_owed_ += change; }

  /// Returns unused memory to the system; returns the number of bytes.
  std::size_t trim() noexcept { return ready_.trim() + extensions_.trim(); }

 private:
  /// Allocates the places of the first flows.
  void keep_places(std::size_t count) {
    ready_.reserve(count);
    ready_.unreserve(count);
  }

  friend class loop_entry;
  friend class owner_entry;
  friend class loop_host;

  struct turn_scope {
    [[gnu::always_inline]] explicit turn_scope(loop_core& c) : turn_scope(c, &refuse) {}
    template <class Refuse>
    [[gnu::always_inline]] turn_scope(loop_core& c, Refuse refused) : core(c) {
      if (current_loop != nullptr && c.is_entered_here()) refused(true);
      way = c.owner_.enter(thread_token());
      if (way == biased_lock::way::refused) refused(false);
      c.around_ = std::exchange(current_loop, &c);
    }
    [[noreturn]] static void refuse(bool nested) {
      throw std::logic_error(nested ? "async::event_loop: run by a callback of its own"
                                    : "async::event_loop: run by two threads at a time");
    }
    [[gnu::always_inline]] ~turn_scope() {
      current_loop = core.around_;
      if (core.hosted_ && way != biased_lock::way::biased) {
        core.owner_.leave_without_owner();
      } else {
        core.owner_.leave(way);
      }
    }
    turn_scope(const turn_scope&) = delete;
    turn_scope& operator=(const turn_scope&) = delete;
    loop_core& core;
    biased_lock::way way;
  };

  struct stop_message : recurring_message {
    explicit stop_message(loop_core& c) noexcept : recurring_message(&received), core(c) {}
    static void received(message& self, delivery) noexcept {
      auto& stop = static_cast<stop_message&>(self);
      stop.core.stop_requested_ = true;
      stop.arrive();
    }
    loop_core& core;
  };

  ~loop_core() = default;

  loop_core& not_hosted() {
    if (hosted_) throw std::logic_error("async::event_loop: run by others than the pool that it belongs to");
    return *this;
  }

  /// Whether the calling thread is in the loop, perhaps with turns of other loops in between.
  bool is_entered_here() const noexcept {
    const loop_core* c = current_loop;
    while (c != nullptr && c != this) c = c->around_;
    return c != nullptr;
  }

  time_point read_clock() const noexcept {
    return source_ == nullptr ? wait_clock::now() : source_->now(source_->self);
  }
  /// Ends a turn after which there is nothing to do at once.
  [[gnu::noinline]] cycle_result rest() {
    cycle_result result{false, nanoseconds::zero()};
    if (!timers_.none_waiting()) {
      settle_timers();
      result = {true, time_between(turn_time_, timers_.next_deadline())};
    }
    if (wake_ && !inbox_.sleep(true)) return {true, nanoseconds::zero()};
    return result;
  }

  void read_turn_time() noexcept {
    const time_point before = std::exchange(turn_time_, read_clock());
    if (std::exchange(ran_since_clock_, 0) < clock_interval_) return;
    const bool is_late = time_between(before, turn_time_) > std::chrono::microseconds(100);
    clock_interval_ = is_late ? clock_interval_ / 4 + 1 : (std::min)(clock_interval_ * 2, 64U);
  }

  /// A thread has been in the loop between turns, and perhaps left work there.
  void entered_between_turns() noexcept {
    if (hosted_ ? static_cast<bool>(wake_) : inbox_.rouse()) wake_();  // a closed loop has no wake_
  }

  bool has_work() noexcept { return !messages_.empty() || timers_.any_due() || !ready_.empty(); }

  void deliver_messages() {
    if (messages_.empty()) {
      message* const taken = inbox_.take();
      if (taken == nullptr) return;
      messages_.append(taken);
    }
    deliver_taken();
  }
  [[gnu::noinline]] void deliver_taken() {
    const bool stopped_before = stop_requested_;
    for (std::uint32_t left = turn_limit; !messages_.empty() && left != 0; --left) {
      ++ran_since_clock_;
      messages_.deliver_first();
      if (stop_requested_ != stopped_before) break;
    }
  }

  void fire_timers(bool look) {
    if (timers_.maybe_armed()) fire_armed(look);
  }
  [[gnu::noinline]] void fire_armed(bool look) {
    if (!timers_.any_armed()) return;
    if (look && !timers_.none_waiting()) {
      read_turn_time();
      timers_.collect(turn_time_);
    }
    if (!timers_.any_due()) return;
    ++ran_since_clock_;  // first, for a callback may throw
    ran_since_clock_ += timers_.fire(turn_limit);
  }

  void run_ready() {
    const std::uint32_t count = ready_.begin_batch(turn_limit);
    ran_since_clock_ += count;  // first, for a callback may throw
    for (bool more = count != 0; more; more = ready_.next_of_batch()) {
      if (runnable* const r = ready_.pop(); r != nullptr) r->run(*r);
    }
  }

  /// Gives deadlines to the timers that have none, and brings turn_time_ up to date.
  void settle_timers() noexcept {
    if (ran_since_clock_ == 0) return;
    read_turn_time();
    timers_.settle(turn_time_);
  }

  /// No wake-up is lost: a push before the announcement makes it fail; a push after it gives the parker's permit.
  void sleep(time_point deadline) noexcept {
    if (is_left_behind()) end_forked_child();
    settle_timers();
    deadline = (std::min)(deadline, timers_.next_deadline());
    if (!inbox_.sleep(false)) return;
    clock_interval_ = 1;  // what comes next may take long
    ASYNCSTEPS_TRACE_SPAN(park, "park", trace_id(this));
    if (deadline == (time_point::max)()) {
      parker_.park();
    } else if (source_ == nullptr) {
      static_cast<void>(parker_.park_until(deadline));
    } else if (source_->skip_to != nullptr) {
      source_->skip_to(source_->self, deadline);
    } else {
      static_cast<void>(parker_.park_until(later(wait_clock::now(), time_between(read_clock(), deadline))));
    }
  }

  void drop_all() noexcept {
    for (bool again = true; again;) {
      timers_.clear([](timer_node& node) { node.fire(node); });
      while (!ready_.empty()) {
        if (runnable* const r = ready_.pop(); r != nullptr) r->run(*r);
      }
      messages_.append(inbox_.take());
      messages_.drop_all();
      again = has_work() || !timers_.empty();
    }
  }

  // The order keeps what other threads write two lines apart from what the owner writes in each turn.

  // Written by any thread.
  alignas(cache_line) inbox inbox_;
  [[no_unique_address]] biased_lock owner_;
  parker parker_;
  reference_count references_;
  tenant_count tenants_;

  // Rarely written.
  event_loop* const loop_;
  view view_ = &current;
  stop_message stop_{*this};
  std::shared_ptr<unhandled_hook> unhandled_;
  loop_wake wake_;                                   // called by any thread, between inbox::push() and woken()
  const std::unique_ptr<const time_source> source_;  // null: the steady clock
  const atomic<bool>* left_behind_ = nullptr;        // null: never

  // The owner's.
  loop_core* around_ = nullptr;  // while a thread is in this loop: the loop that it was in before
  time_point turn_time_;
  std::size_t ran_since_clock_ = 1;   // callbacks of any kind since turn_time_ was read
  std::uint32_t clock_interval_ = 1;  // callbacks after which it is read again
  int cancels_owed_ = 0;
  message_chain messages_;  // taken from the inbox, not yet delivered
  bool stop_requested_ = false;
  bool closing_ = false;
  bool hosted_ = false;  // a loop_host drives it
  std::uint32_t cancelled_flows_ = 0;
  ready_queue ready_;
  loop_extensions extensions_;
  timer_queue<wait_clock> timers_;
};

}  // namespace detail
}  // namespace async::inline v0_1
