// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>    // for size_t
#include <cstdint>    // for uint32_t, uint8_t
#include <cstdio>     // for fprintf
#include <exception>  // for exception_ptr, terminate
#include <stdexcept>  // for logic_error
#include <utility>    // for move, exchange

#include "async/detail/base/atomics.hpp"          // for atomic, wait_clock
#include "async/detail/base/backoff.hpp"          // for backoff
#include "async/detail/base/chrono.hpp"           // for nanoseconds
#include "async/detail/base/config.hpp"           // for cache_line, ASYNCSTEPS_SHARED
#include "async/detail/base/durations.hpp"        // for later, time_between
#include "async/detail/base/forks.hpp"            // for forked::note, end_forked_child
#include "async/detail/base/min_max.hpp"          // for min_of
#include "async/detail/base/own_exceptions.hpp"   // for own_exceptions
#include "async/detail/base/parker.hpp"           // for parker
#include "async/detail/base/platform.hpp"         // for prefetch_for_write
#include "async/detail/base/reference_count.hpp"  // for reference_count
#include "async/detail/base/unhandled.hpp"        // for hook_ref, terminate_for
#include "async/detail/loop/biased_lock.hpp"      // for biased_lock
#include "async/detail/loop/inbox.hpp"            // for inbox, message, recurring_message
#include "async/detail/loop/loop_extension.hpp"   // for loop_extension
#include "async/detail/loop/loop_setting.hpp"     // for loop_setting
#include "async/detail/loop/message_chain.hpp"    // for message_chain
#include "async/detail/loop/ready_queue.hpp"      // for ready_queue, runnable
#include "async/detail/loop/tenant_count.hpp"     // for tenant_count
#include "async/detail/loop/timer_queue.hpp"      // for timer_queue, timer_node
#include "async/detail/loop/turn_pace.hpp"        // for turn_pace
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

/// The loop that event_loop::current() names on this thread between turns: a worker's own, or that of
/// the worker for which a stand-in works.
ASYNCSTEPS_SHARED inline constinit thread_local loop_core* worker_loop = nullptr;

/// An event loop without its interface for tasks. event_loop, flows and pools are built on it. It is reference-counted,
/// so that other threads that want to reach the loop can learn that it has been destroyed.
///
/// Threads     add_ref(), release(), push(), is_same_thread(), now(), stop(): any. turn(), run_until(): any, one at a
///             time. All others: in a turn or within a loop_entry. The owner is the thread that made the loop, or the
///             last one that has called turn(), run_until() or adopt().
class loop_core {
 public:
  using time_point = wait_clock::time_point;
  using nanoseconds = std::chrono::nanoseconds;

  struct cycle_result {
    bool have_work;
    nanoseconds delay;
  };

  /// The largest numbers of messages, timers and runnables that run in one turn.
  static constexpr std::uint32_t turn_limit = 256;

  /// A loop with a thread, which sleeps in it. An empty `wake`: no other function is to be called. Throws
  /// std::bad_alloc.
  static loop_core& make(event_loop* loop, time_source source, task wake);
  /// For a loop_driver. There may be a loop for each flow, so it allocates the 16 KiB of timer wheels only if it needs
  /// them. `origin`: that of the timer_queue in which the driver arms the first deadline.
  loop_core(event_loop* loop, loop_setting& setting, time_point origin) noexcept
      : loop_(loop), setting_(&setting), timers_(origin), turn_time_(origin) {
    keep_places(1);
    adopt();
  }
  loop_core(const loop_core&) = delete;
  loop_core& operator=(const loop_core&) = delete;
  /// By `destroy` of the setting.
  ~loop_core() = default;

  // --- from any thread ---

  void add_ref() noexcept { references_.add(); }
  void release() noexcept {
    if (references_.drop()) setting_->destroy(*this);
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
        own_setting().sleeper.unpark();
      } else {
        setting_->wake(*this);
      }
      inbox_.woken();
    }
    return result != inbox::pushed::refused;
  }

  /// True on the owner's thread, and on a thread that is in the loop. Between turns this does not exclude other
  /// threads: see loop_entry.
  bool is_same_thread() const noexcept { return current_loop == this || owner_.is(thread_token()); }
  /// The function that tells which loop the calling thread is in, as the module knows that compiled it.
  using view = loop_setting::view;
  static const loop_core* current() noexcept { return current_loop; }
  /// True in a turn of this loop that only another module knows of, which shares nothing with this one.
  bool is_current_elsewhere() const noexcept { return current_loop != this && setting_->current() == this; }
  /// Whether the calling thread is in the loop, perhaps with turns of other loops in between.
  bool is_entered_here() const noexcept {
    const loop_core* c = current_loop;
    while (c != nullptr && c != this) c = c->around_;
    return c != nullptr;
  }
  /// True for the loops of pools.
  bool is_of_pool() const noexcept { return is_of_pool_; }

  // --- for flows and callbacks, on the owner's thread ---

  ready_queue& ready() noexcept { return ready_; }

  /// A flow's turn of at most `steps` begins; see turn_pace::begin().
  unsigned begin_steps(unsigned steps, time_point& since) noexcept { return pace_.begin(steps, since); }
  /// After `ran` steps, or callbacks of a batch; see turn_pace::look(). When the turn is up, messages and timers are
  /// next, before other flows.
  unsigned look_at_clock(unsigned ran, unsigned left, time_point& since) noexcept {
    const unsigned next = pace_.look(ran, left, since);
    if (next == turn_pace::is_up) {
      ready_.end_batch();
      clock_interval_ = 1;
    }
    return next;
  }

  timer_queue<wait_clock>& timers() noexcept { return timers_; }
  /// Reads the clock.
  time_point now() const noexcept { return read_clock(); }
  /// The time at which the clock was last read for a turn.
  time_point turn_time() const noexcept { return turn_time_; }
  event_loop& loop() const noexcept { return *loop_; }
  loop_setting& setting() const noexcept { return *setting_; }
  /// True while the loop is being destroyed: runnables and timers only release what they hold.
  bool closing() const noexcept { return closing_; }

  /// This loop's object of type T, made on first use; see loop_extension.
  template <class T>
  T& extension() noexcept {
    return extension_.get<T>();
  }

  /// Gives `error` to the hook, whose exceptions pass through. Without a hook, ends the program.
  void unhandled(std::exception_ptr error) {
    if (!unhandled_ || (closing_ && !is_of_pool_)) terminate_for(error);
    const hook_ref hook = unhandled_;  // which may set another
    (*hook)(std::move(error));
  }
  void set_unhandled(const hook_ref& hook) noexcept { unhandled_ = hook; }

  // --- for the thread that drives the loop ---

  /// Asks for the memory of a turn.
  void prefetch() const noexcept {
    const auto* const first = reinterpret_cast<const char*>(this);
    for (const char* line = first; line != first + sizeof(*this); line += cache_line) prefetch_for_write(line);
  }

  /// Asks for the memory of the newest message. By any thread.
  void prefetch_message() const noexcept { inbox_.prefetch(); }

  /// Makes the calling thread the owner, between turns.
  void adopt() noexcept { owner_.leave(owner_.enter(thread_token())); }
  /// Leaves the loop without an owner until the next adopt() or turn. By the owner, between turns.
  void disown() noexcept { owner_.disown(); }

  /// Runs one bounded turn: messages, due timers, then everything that is ready by then. Never sleeps. If there is
  /// nothing more to do at once, the next push wakes the embedder, if there is one. An exception that leaves the turn
  /// wakes it, too.
  cycle_result turn() {
    const turn_scope scope(not_of_pool());
    try {
      deliver_messages();
      fire_timers(true);
      run_ready();
    } catch (...) {
      if (has_embedder()) setting_->wake(*this);
      throw;
    }
    if (has_work() || inbox_.has_messages()) return {true, nanoseconds::zero()};
    return timers_.maybe_armed() || has_embedder() ? rest() : cycle_result{false, nanoseconds::zero()};
  }

  /// Runs turns, and sleeps in between, until stop() or `deadline`; at least one turn. Left by an exception, it uses up
  /// a stop() that it has noticed, too.
  void run_until(time_point deadline) {
    struct end_of_run {
      bool& stop_requested;
      ~end_of_run() { stop_requested = false; }
    };
    const turn_scope scope(not_of_pool());
    const end_of_run at_end{stop_requested_};
    const own_exceptions of_callbacks;
    const bool timed = deadline != (time_point::max)();
    while (!stop_requested_) {
      deliver_messages();
      const bool look = ran_since_clock_ >= clock_interval_ || (ready_.empty() && !timers_.any_due());
      if (look && timed) read_turn_time();
      if (!stop_requested_) fire_timers(look);
      if (!stop_requested_) run_ready();
      if (look && timed && turn_time_ >= deadline) return;
      if (!stop_requested_ && !has_work()) sleep(deadline);
    }
  }

  /// Ends the current run_until() or, if there is none, the next one. From any thread. Does nothing to a pool's loop.
  void stop() noexcept {
    if (is_of_pool_) return;
    if (current_loop == this) {
      stop_requested_ = true;
    } else if (own_setting().stop.depart()) {
      push(own_setting().stop);
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
      extension_.close();
      drop_all();
      for (backoff pause; cancels_owed_ != 0;) {  // another thread is about to push
        pause.wait();
        drop_all();
      }
      messages_.append(inbox_.close());
      drop_all();
      unhandled_ = hook_ref();
      closed_ = true;
      if (setting_->closed != nullptr) setting_->closed(*this);
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
    const atomic<bool>* const where = setting_->left_behind;
    return where != nullptr && where->load(std::memory_order_relaxed);
  }
  /// In a child of fork(), for a loop with a thread: refuses messages from here on.
  void leave_behind() noexcept {
    setting_->left_behind = &forked::always;
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
  std::size_t trim() noexcept { return ready_.trim(); }

 private:
  /// Allocates the places of the first flows.
  void keep_places(std::size_t count) {
    ready_.reserve(count);
    ready_.unreserve(count);
  }

  friend class loop_entry;
  friend class owner_entry;
  friend class loop_driver;

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
      if (core.is_of_pool_ && way != biased_lock::way::biased) {
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

  struct driven;
  struct stop_message : recurring_message {
    explicit stop_message(loop_core& c) noexcept : recurring_message(&received), core(c) {}
    static void received(message& self, delivery) noexcept {
      auto& stop = static_cast<stop_message&>(self);
      stop.core.stop_requested_ = true;
      stop.arrive();
    }
    loop_core& core;
  };

  /// What only a loop with a thread has.
  struct thread_setting : loop_setting {
    thread_setting(loop_core& its, time_source its_time, task&& its_wake)
        : time(its_time), wake_task(std::move(its_wake)), stop(its) {
      if (wake_task) wake = [](loop_core& of) { of.own_setting().wake_task(); };
      if (time.now != nullptr) source = &time;
      current = &loop_core::current;
      closed = [](loop_core& of) noexcept {
        of.own_setting().wake = nullptr;
        of.own_setting().wake_task = task();
      };
    }
    const time_source time;
    task wake_task;
    stop_message stop;
    parker sleeper;
  };

  loop_core(event_loop* loop, thread_setting& setting)
      : loop_(loop), setting_(&setting), timers_(read_clock()), turn_time_(timers_.origin()) {
    if (setting.source != nullptr) pace_.never_look();
    keep_places(60);
    timers_.make_wheels();
    adopt();
  }

  /// The setting of a loop that has a thread.
  thread_setting& own_setting() const noexcept { return static_cast<thread_setting&>(*setting_); }
  /// Whether a loop with a thread is woken by a function.
  bool has_embedder() const noexcept { return setting_->wake != nullptr; }

  loop_core& not_of_pool() {
    if (is_of_pool_) throw std::logic_error("async::event_loop: run by others than the pool that it belongs to");
    return *this;
  }

  time_point read_clock() const noexcept {
    const time_source* const source = setting_->source;
    return source == nullptr ? wait_clock::now() : source->now(source->self);
  }
  /// Ends a turn after which there is nothing to do at once.
  [[gnu::noinline]] cycle_result rest() {
    cycle_result result{false, nanoseconds::zero()};
    if (!timers_.none_waiting()) {
      settle_timers();
      result = {true, time_between(turn_time_, timers_.next_deadline())};
    }
    if (has_embedder() && !inbox_.sleep(true)) return {true, nanoseconds::zero()};
    return result;
  }

  void read_turn_time() noexcept {
    const time_point before = std::exchange(turn_time_, read_clock());
    const unsigned interval = clock_interval_;
    if (std::exchange(ran_since_clock_, 0U) < interval) return;
    const bool is_late = time_between(before, turn_time_) > std::chrono::microseconds(100);
    clock_interval_ = static_cast<std::uint8_t>(is_late ? interval / 4 + 1 : min_of(interval * 2, 64U));
  }

  /// A thread has been in the loop between turns, and perhaps left work there.
  void entered_between_turns() noexcept {
    if (is_of_pool_ ? !closed_ : inbox_.rouse()) setting_->wake(*this);
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
    time_point since{};
    std::uint32_t look = pace_.begin(turn_limit, since);
    for (std::uint32_t left = turn_limit; !messages_.empty() && left != 0;) {
      ++ran_since_clock_;
      messages_.deliver_first();
      --left;
      if (stop_requested_ != stopped_before || (left <= look && has_taken_long(turn_limit, left, look, since))) break;
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
    ran_since_clock_ += static_cast<std::uint32_t>(timers_.fire(turn_limit));
  }

  void run_ready() {
    const std::uint32_t count = ready_.begin_batch(turn_limit);
    ran_since_clock_ += count;  // first, for a callback may throw
    if (count > turn_pace::few) [[unlikely]]
      return run_many(count);
    for (bool more = count != 0; more; more = ready_.next_of_batch()) run_next();
  }
  [[gnu::always_inline]] void run_next() {
    if (runnable* const r = ready_.pop(); r != nullptr) r->run(*r);
  }
  /// Runs a batch until it has taken long.
  [[gnu::noinline]] void run_many(std::uint32_t count) {
    time_point since{};
    std::uint32_t look = pace_.begin(count, since);
    std::uint32_t left = count;
    do {
      run_next();
      --left;
      if (left <= look && has_taken_long(count, left, look, since)) return;
    } while (ready_.next_of_batch());
  }
  /// Within a batch of `count`, with `left` to come. `look`: at how many the clock is to be looked at.
  bool has_taken_long(std::uint32_t count, std::uint32_t left, std::uint32_t& look, time_point& since) noexcept {
    if (left == 0) return false;
    look = look_at_clock(count - left, left, since);
    return look == turn_pace::is_up;
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
    const time_point next = timers_.next_deadline();
    if (next <= turn_time_) return timers_.collect(turn_time_);  // also when messages would prevent the sleep
    deadline = min_of(deadline, next);
    if (!inbox_.sleep(false)) return;
    clock_interval_ = 1;  // what comes next may take long
    ASYNCSTEPS_TRACE_SPAN(park, "park", trace_id(this));
    if (deadline == (time_point::max)()) {
      own_setting().sleeper.park();
    } else if (const time_source* const source = setting_->source; source == nullptr) {
      static_cast<void>(own_setting().sleeper.park_until(deadline));
    } else if (source->skip_to != nullptr) {
      source->skip_to(source->self, deadline);
    } else {
      static_cast<void>(
          own_setting().sleeper.park_until(later(wait_clock::now(), time_between(read_clock(), deadline))));
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

  // Four cache lines, since a pool has such a loop for each flow. What other threads write lies in the first one, and
  // what the owner writes in each turn in the last ones.

  // Written by any thread.
  alignas(cache_line) [[no_unique_address]] inbox inbox_;
  bool is_of_pool_ = false;  // a loop_driver drives it
  bool closed_ = false;
  reference_count references_;
  [[no_unique_address]] biased_lock owner_;
  tenant_count tenants_;

  // Rarely written.
  std::uint32_t cancelled_flows_ = 0;
  int cancels_owed_ = 0;
  event_loop* const loop_;
  loop_setting* const setting_;
  hook_ref unhandled_;
  detail::loop_extension extension_;

  // The owner's.
  timer_queue<wait_clock> timers_;
  loop_core* around_ = nullptr;  // while a thread is in this loop: the loop that it was in before
  time_point turn_time_;
  message_chain messages_;             // taken from the inbox, not yet delivered
  std::uint32_t ran_since_clock_ = 1;  // callbacks of any kind since turn_time_ was read
  std::uint8_t clock_interval_ = 1;    // callbacks after which it is read again
  bool stop_requested_ = false;
  bool closing_ = false;
  turn_pace pace_;
  ready_queue ready_;
};

/// A loop with a thread, and its setting.
struct loop_core::driven : thread_setting {
  driven(event_loop* loop, time_source its_time, task&& its_wake)
      : thread_setting(core, its_time, std::move(its_wake)), core(loop, *this) {
    destroy = [](loop_core& of) noexcept { delete &static_cast<driven&>(of.own_setting()); };
  }
  loop_core core;
};
inline loop_core& loop_core::make(event_loop* loop, time_source source, task wake) {
  return (new driven(loop, source, std::move(wake)))->core;
}

}  // namespace detail
}  // namespace async::inline v0_1
