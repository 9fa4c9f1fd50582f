// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <bit>      // for countr_zero
#include <cstddef>  // for size_t
#include <cstdint>  // for uint64_t, uintptr_t
#include <limits>   // for numeric_limits
#include <new>      // for nothrow
#include <utility>  // for exchange

#include "async/detail/base/chrono.hpp"  // for nanoseconds
#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_ASSERT

namespace async::inline v0_1::detail {

struct timer_link {
  timer_link* next = nullptr;
  timer_link* prev = nullptr;
};

/// An intrusive timer; the base of a timeout or a deferred task. Must not move while armed.
struct timer_node : timer_link {
  using function = void (*)(timer_node& self);

  explicit timer_node(function f) noexcept : fire(f) {}
  bool armed() const noexcept { return next != nullptr; }

  std::uint64_t when = 0;  // tick; nanoseconds, if armed by arm_after() and not yet settled
  function fire;
};

/// Timers in a sorted list while they are few, then in a hierarchical timing wheel (G. Varghese, T. Lauck, "Hashed and
/// hierarchical timing wheels", SOSP 1987, scheme 7): four wheels of two periods each, 128 slots a period, the first of
/// ticks of 65.536 microseconds.
///
/// Use it where most timers are disarmed before they are due: arming and disarming take a few stores, however many
/// timers are armed. Do not use it where a timer must fire within a tenth of a millisecond of its time.
///
/// Order       by tick; within a tick, in the order armed. Never early, at most a tick late.
/// Few timers  a timer is inserted into the list from its end. The first one that would pass more than 16 others moves
///             all of them to the wheels, which then stay. Without memory for the wheels, the list stays, and inserting
///             takes longer.
/// Far timers  beyond 2^28 to 2^29 ticks (5 to 10 hours) timers wait beside the wheels, in a list that is scanned every
///             2^28 ticks.
/// Threads     one at a time. Callbacks may arm, disarm, and destroy any timer, their own included.
/// Exceptions  exceptions of callbacks pass through expire(); the timers behind stay due.
/// Memory      16.2 KiB for the wheels, by make_wheels() or when first needed, until the end; otherwise none but the
///             object's own.
///
/// A slot of a wheel is as long as a period of the wheel below. Each wheel has the present period and the next one; a
/// timer lies in the lowest wheel that reaches its tick. When the present enters a slot, the timers of the slot behind
/// it move down, which is a period before the first of them is due. From the second wheel, where they may be thousands
/// within milliseconds, they move a few in each collect(), oldest first, so that no timer waits for all of them; all
/// that are left move before the present comes to their slot. Until then new timers of that slot join them. Hence those
/// of one tick are in the order armed: first the ones that have moved, then the ones that have not.
///
/// `AtOnce`: how many timers of the second wheel move in a collect(), at least.
template <class Clock, unsigned AtOnce = 64>
class timer_queue {
 public:
  using time_point = typename Clock::time_point;
  using nanoseconds = std::chrono::nanoseconds;

  /// `now`: the origin of its ticks; deadlines before it are due at once.
  explicit timer_queue(time_point now) noexcept : origin_(since_epoch(now)) {}
  timer_queue(const timer_queue&) = delete;
  timer_queue& operator=(const timer_queue&) = delete;
  ~timer_queue() { delete wheels_; }

  /// The origin of its ticks. A queue constructed with the same time has the same ticks: a timer armed there for this
  /// one's next_deadline() fires at exactly that time.
  time_point origin() const noexcept { return to_time(0); }

  /// Allocates the wheels, so that no timer has to. Throws std::bad_alloc, changing nothing.
  void make_wheels() {
    if (wheels_ == nullptr) use(new wheels);
  }
  bool has_wheels() const noexcept { return wheels_ != nullptr; }

  /// Fires at the first expire() with a time at or after `deadline`, which is rounded up to a tick; if that tick has
  /// come, with the next collect().
  void arm(timer_node& node, time_point deadline) noexcept {
    ASYNCSTEPS_ASSERT(!node.armed());
    node.when = tick_not_before(deadline);
    place(node);
  }

  /// Fires `delay` after the time of the next settle() or expire(), which saves reading the clock. Without a delay it
  /// is due at that time.
  void arm_after(timer_node& node, nanoseconds delay) noexcept {
    ASYNCSTEPS_ASSERT(!node.armed());
    node.when = delay.count() > 0 ? static_cast<std::uint64_t>(delay.count()) : 0;
    append(fresh, node);
  }

  /// Fires at the next collect(), whatever its time.
  void arm_now(timer_node& node) noexcept {
    ASYNCSTEPS_ASSERT(!node.armed());
    append(due, node);
  }

  /// Does nothing if the timer is not armed.
  void disarm(timer_node& node) noexcept { disarm_here(node); }

  /// disarm(), then arm_after().
  [[gnu::always_inline]] void rearm_after(timer_node& node, nanoseconds delay) noexcept {
    disarm_here(node);
    arm_after(node, delay);
  }

  /// Gives the timers of arm_after() their deadlines.
  void settle(time_point now) noexcept {
    timer_link* const head = &head_of(fresh);
    summary_ &= ~bit_of(fresh);
    while (head->next != head) {
      timer_node& node = static_cast<timer_node&>(*head->next);
      unlink(node);
      const std::uint64_t at = since_origin(now);
      node.when = node.when == 0 ? 0 : ceil_tick(node.when > never - at ? never : at + node.when);
      place(node);
    }
  }

  /// Whether the deadline of a timer has come at `now`. Call after settle().
  bool is_due(const timer_node& node, time_point now) const noexcept {
    return node.when <= since_origin(now) >> tick_shift;
  }

  /// Makes all timers up to `now` ready for fire(). A time before the last one counts as the last one.
  [[gnu::noinline]] void collect(time_point now) noexcept {
    settle(now);
    const std::uint64_t target = since_origin(now) >> tick_shift;
    if (wheels_ != nullptr) {
      turn_wheels(target);
    } else {
      collect_few(target);
      if (target > present_) present_ = target;
    }
  }

  /// Fires up to `most` of the timers that collect() or arm_now() has made ready; returns how many. Timers that
  /// callbacks arm wait for the next call.
  std::size_t fire(std::size_t most) {
    return take_due(most, [](timer_node& node) { node.fire(node); });
  }
  /// The same, with f(timer_node&) instead of the timers' functions.
  template <class F>
  std::size_t take_due(std::size_t most, F f) {
    if (!is_empty(due)) {
      splice(head_of(due), head_of(firing));
      summary_ = (summary_ & ~bit_of(due)) | bit_of(firing);
    }
    std::size_t count = 0;
    for (; !is_empty(firing) && count != most; ++count) {
      timer_node& node = static_cast<timer_node&>(*head_of(firing).next);
      unlink(node);
      if (is_empty(firing)) summary_ &= ~bit_of(firing);
      f(node);
    }
    return count;
  }

  /// collect(), then fire() of all that are ready.
  std::size_t expire(time_point now) {
    collect(now);
    return fire(static_cast<std::size_t>(-1));
  }

  /// Unlinks all timers, earliest wheel first (without wheels: earliest timer first), and hands them to a function,
  /// which must not arm timers.
  template <class F>
  void clear(F&& f) {
    const auto unlink_all = [&](std::size_t index) {
      for (timer_link& head = head_of(index); head.next != &head;) {
        timer_node& node = static_cast<timer_node&>(*head.next);
        disarm(node);
        f(node);
      }
    };
    while ((summary_ & (bit_of(waiting) - 1)) != 0) unlink_all(next_slot());
    for (const std::size_t index : {waiting, fresh, due, firing}) unlink_all(index);
  }

  /// Whether fire() would fire a timer.
  bool any_due() const noexcept { return (summary_ & (bit_of(due) | bit_of(firing))) != 0; }
  /// Whether no timer waits for time to pass.
  bool none_waiting() const noexcept {
    return (summary_ & (timed | bit_of(fresh))) == 0 || ((summary_ & timed) == 0 && is_empty(fresh));
  }
  /// Whether settle() has something to do.
  bool has_fresh() const noexcept { return !is_empty(fresh); }
  bool empty() const noexcept { return none_waiting() && !any_due(); }
  /// False: the queue is empty. True: look again, and remember the answer.
  bool maybe_armed() const noexcept { return summary_ != 0; }
  bool any_armed() noexcept {
    if ((summary_ & bit_of(fresh)) != 0 && is_empty(fresh)) summary_ &= ~bit_of(fresh);
    return summary_ != 0;
  }

  /// The time for the next call. It is never after the first timer is due, and exactly then, unless its slot of a wheel
  /// is crowded: then it may come early, a few times. The time of the last call if a timer is due or not settled;
  /// time_point::max() if none is armed.
  time_point next_deadline() const noexcept {
    if (any_due() || !is_empty(fresh)) return to_time(present_);
    if (none_waiting()) return (time_point::max)();
    if (wheels_ == nullptr) return to_time(static_cast<const timer_node*>(head_of(waiting).next)->when);
    const std::size_t index = next_slot();
    if (index < wheel_size || (wheels_->is_moving && index == moving_slot())) return to_time(start_of(index));
    const std::uint64_t earliest = earliest_of(index, 16);
    return to_time(earliest == never ? start_of(index) : earliest);
  }

 private:
  static constexpr unsigned tick_shift = 16;  // 65,536 ns
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  static constexpr unsigned all = (std::numeric_limits<unsigned>::max)();
  static constexpr unsigned period_bits = 7;
  static constexpr std::size_t period = std::size_t{1} << period_bits;  // in slots
  static constexpr std::size_t wheel_size = 2 * period;
  static constexpr unsigned wheel_count = 4;
  static constexpr std::size_t wheel_slots = wheel_count * wheel_size;
  // Indices of the lists beside the wheels.
  static constexpr std::size_t waiting = wheel_slots;  // beyond the wheels; without wheels, all in the order of ticks
  static constexpr std::size_t fresh = waiting + 1;    // not yet settled
  static constexpr std::size_t due = waiting + 2;      // fires with the next batch
  static constexpr std::size_t firing = waiting + 3;   // the batch
  static constexpr int few = 16;                       // timers that one may pass on its way into the sorted list

  struct list_head : timer_link {
    list_head() noexcept : timer_link{this, this} {}
  };
  struct wheels {
    list_head heads[wheel_slots];                   // first: see mark_empty()
    std::uint64_t occupied[wheel_slots / 64] = {};  // a bit for each slot: its list is not empty
    std::uint64_t ends[wheel_count];                // the tick behind the periods of each wheel
    std::uint64_t quiet_until;                      // nothing is to be done before: no timer is due, no slot begins
    bool is_moving = false;  // the timers of the second wheel's slot behind the present one are moving down
  };

  /// The bit of a list beside the wheels in summary_.
  static constexpr std::uint32_t bit_of(std::size_t list) noexcept {
    return std::uint32_t{1} << (wheel_slots / 64 + (list - wheel_slots));
  }
  /// The bits of timers that wait for their time.
  static constexpr std::uint32_t timed = (bit_of(waiting) << 1) - 1;

  static std::int64_t since_epoch(time_point t) noexcept {
    return std::int64_t{std::chrono::duration_cast<nanoseconds>(t.time_since_epoch()).count()};
  }
  std::uint64_t since_origin(time_point t) const noexcept {
    const std::int64_t at = since_epoch(t);
    return at <= origin_ ? 0 : static_cast<std::uint64_t>(at) - static_cast<std::uint64_t>(origin_);
  }
  static std::uint64_t ceil_tick(std::uint64_t ns) noexcept {
    return (ns >> tick_shift) + ((ns & ((std::uint64_t{1} << tick_shift) - 1)) != 0 ? 1 : 0);
  }
  std::uint64_t tick_not_before(time_point t) const noexcept { return ceil_tick(since_origin(t)); }
  time_point to_time(std::uint64_t tick) const noexcept {
    const std::uint64_t last = since_origin((time_point::max)());
    const std::uint64_t ns = tick > (last >> tick_shift) ? last : tick << tick_shift;
    return time_point(std::chrono::duration_cast<typename time_point::duration>(
        nanoseconds(static_cast<std::int64_t>(static_cast<std::uint64_t>(origin_) + ns))));
  }

  timer_link& head_of(std::size_t index) noexcept {
    return index < wheel_slots ? wheels_->heads[index] : lists_[index - wheel_slots];
  }
  const timer_link& head_of(std::size_t index) const noexcept {
    return index < wheel_slots ? wheels_->heads[index] : lists_[index - wheel_slots];
  }
  /// For a list beside the wheels.
  bool is_empty(std::size_t list) const noexcept { return head_of(list).next == &head_of(list); }

  /// Appends to a list beside the wheels.
  void append(std::size_t list, timer_node& node) noexcept {
    link_before(head_of(list), node);
    if ((summary_ & bit_of(list)) == 0) summary_ |= bit_of(list);
  }
  /// Before the head of a list means at its end.
  static void link_before(timer_link& behind, timer_node& node) noexcept {
    node.next = &behind;
    node.prev = behind.prev;
    behind.prev->next = &node;
    behind.prev = &node;
  }
  static void unlink(timer_node& node) noexcept {
    node.prev->next = node.next;
    node.next->prev = node.prev;
    node.next = node.prev = nullptr;
  }
  static void splice(timer_link& from, timer_link& to) noexcept {
    if (from.next == &from) return;
    from.next->prev = to.prev;
    to.prev->next = from.next;
    from.prev->next = &to;
    to.prev = from.prev;
    from.next = from.prev = &from;
  }

  /// The place of a tick, or of the present, in a wheel: counted in its slots. One wheel higher: in its periods.
  static constexpr std::uint64_t slot_at(std::uint64_t tick, unsigned wheel) noexcept {
    return tick >> (period_bits * wheel);
  }
  static constexpr std::size_t index_of(unsigned wheel, std::uint64_t slot) noexcept {
    return wheel * wheel_size + static_cast<std::size_t>(slot & (wheel_size - 1));
  }
  std::uint64_t period_end(unsigned wheel, std::uint64_t periods) const noexcept {
    return (slot_at(present_, wheel + 1) + periods) << (period_bits * (wheel + 1));
  }
  /// The slot of the second wheel behind the present one.
  std::size_t moving_slot() const noexcept { return index_of(1, slot_at(present_, 1) + 1); }

  void place(timer_node& node) noexcept {
    if (node.when <= present_) return append(due, node);
    if (wheels_ == nullptr) return insert(node);
    unsigned wheel = 0;
    for (; node.when >= wheels_->ends[wheel];) {
      if (++wheel == wheel_count) [[unlikely]]
        return append(waiting, node);
    }
    if (node.when < wheels_->quiet_until) wheels_->quiet_until = node.when;
    put(index_of(wheel, slot_at(node.when, wheel)), node);
  }
  /// Appends to a slot.
  void put(std::size_t index, timer_node& node) noexcept {
    link_before(wheels_->heads[index], node);
    wheels_->occupied[index / 64] |= std::uint64_t{1} << (index % 64);
    summary_ |= 1U << (index / 64);
  }

  /// Places a timer without wheels: behind those of its tick. Makes the wheels if too many are later.
  [[gnu::noinline]] void insert(timer_node& node) noexcept {
    timer_link* const head = &head_of(waiting);
    timer_link* before = head->prev;
    for (int passed = 1; before != head && static_cast<timer_node*>(before)->when > node.when; ++passed) {
      if (passed == few + 1) {
        if (wheels* const made = new (std::nothrow) wheels; made != nullptr) {
          use(made);
          return place(node);
        }
      }
      before = before->prev;
    }
    link_before(*before->next, node);
    summary_ |= bit_of(waiting);
  }

  /// Moves the timers of the list into new wheels; those of one tick keep their order.
  void use(wheels* made) noexcept {
    wheels_ = made;
    enter_periods();
    made->quiet_until = 0;
    move_down(waiting);
  }

  [[gnu::always_inline]] void disarm_here(timer_node& node) noexcept {
    if (!node.armed()) return;
    timer_link* const before = node.prev;
    unlink(node);
    if (before->next == before) mark_empty(before);
  }

  static std::uintptr_t address(const void* of) noexcept { return reinterpret_cast<std::uintptr_t>(of); }

  /// The list of `head` has become empty.
  [[gnu::always_inline]] void mark_empty(const timer_link* head) noexcept {
    if (head == &head_of(fresh)) return;  // most are armed and disarmed there: its bit stays until the next look
    const std::size_t index = (address(head) - address(wheels_)) / sizeof(list_head);
    if (index >= wheel_slots) {  // also without wheels, for no object lies in the first 16 KiB of the address space
      summary_ &= ~bit_of(wheel_slots + (address(head) - address(lists_)) / sizeof(list_head));
      return;
    }
    std::uint64_t& word = wheels_->occupied[index / 64];
    word &= ~(std::uint64_t{1} << (index % 64));
    if (word == 0) summary_ &= ~(1U << (index / 64));
  }

  /// The words of occupied[] for a wheel, and the first one of its present period; half of them are of each period.
  static constexpr unsigned words = wheel_size / 64;
  unsigned first_word(unsigned wheel) const noexcept {
    return static_cast<unsigned>(slot_at(present_, wheel + 1) % 2) * (words / 2);
  }
  /// Bits of summary_: which words of a wheel have timers, those of the present period first.
  std::uint32_t words_in_order(unsigned wheel) const noexcept {
    const std::uint32_t occupied = summary_ >> (wheel * words) & ((1U << words) - 1);
    const unsigned first = first_word(wheel);
    return (occupied >> first | occupied << (words - first)) & ((1U << words) - 1);
  }

  /// Index of the first list that needs attention. There are wheels, and at least one timer waits in them or beyond.
  std::size_t next_slot() const noexcept {
    for (unsigned wheel = 0; wheel != wheel_count; ++wheel) {
      const std::uint32_t in_order = words_in_order(wheel);
      if (in_order == 0) continue;
      const auto ahead = static_cast<unsigned>(std::countr_zero(in_order));
      if (wheel == 0 && ahead >= words / 2 && wheels_->is_moving) {
        const std::size_t rest = moving_slot();  // it may have earlier ones
        if (wheels_->heads[rest].next != &wheels_->heads[rest]) return rest;
      }
      const std::size_t word = wheel * words + (first_word(wheel) + ahead) % words;
      return word * 64 + static_cast<std::size_t>(std::countr_zero(wheels_->occupied[word]));
    }
    return waiting;
  }

  /// First tick of a list. There are wheels.
  std::uint64_t start_of(std::size_t index) const noexcept {
    const auto wheel = static_cast<unsigned>(index / wheel_size);  // of `waiting`: one above
    std::uint64_t its_period = slot_at(present_, wheel + 1);
    if (index == waiting) return (slot_at(present_, wheel) + 1) << (period_bits * wheel);
    if (its_period % 2 != index % wheel_size / period) ++its_period;
    return (its_period << period_bits | index % period) << (period_bits * wheel);
  }

  /// The earliest tick of a list; `never` if it has more than `most` timers.
  std::uint64_t earliest_of(std::size_t index, unsigned most) const noexcept {
    std::uint64_t earliest = never;
    const timer_link& head = head_of(index);
    for (const timer_link* link = head.next; link != &head; link = link->next) {
      if (most-- == 0) return never;
      const std::uint64_t when = static_cast<const timer_node*>(link)->when;
      if (when < earliest) earliest = when;
    }
    return earliest;
  }
  /// First tick of the slot of the last wheel that the earliest far timer is in. All timers are far.
  std::uint64_t start_of_waiting() const noexcept {
    const std::uint64_t earliest = earliest_of(waiting, all);
    return slot_at(earliest, wheel_count - 1) << (period_bits * (wheel_count - 1));
  }
  /// Whether the first wheel has timers in its present period.
  bool has_any_in_period() const noexcept { return words_in_order(0) % (1U << words / 2) != 0; }

  void turn_wheels(std::uint64_t target) noexcept {
    if (target >= wheels_->quiet_until) {
      come_to(target);
    } else if (target > present_) {
      present_ = target;
    }
    if (wheels_->is_moving) move_some(has_any_in_period() ? AtOnce : all);  // all: nothing is before them
  }

  [[gnu::noinline]] void come_to(std::uint64_t target) noexcept {
    while ((summary_ & timed) != 0) {
      const std::size_t index = next_slot();
      if (start_of(index) > target) break;  // a bound for the far timers, which are not asked before
      const std::uint64_t start = index == waiting ? start_of_waiting() : start_of(index);
      if (start > target) break;
      if (wheels_->is_moving && index == moving_slot()) {
        move_some(all);
        continue;
      }
      advance(start);
      if (index < wheel_size) {
        splice(wheels_->heads[index], head_of(due));
        summary_ |= bit_of(due);
        mark_empty(&wheels_->heads[index]);
      }
    }
    if (target > present_) advance(target);
    wheels_->quiet_until = has_any_in_period() ? start_of(next_slot()) : period_end(0, 1);
  }

  /// Lets the present come to a tick before which no slot starts that has timers.
  void advance(std::uint64_t tick) noexcept {
    const std::uint64_t from = std::exchange(present_, tick);
    if (slot_at(from, 1) != slot_at(tick, 1)) enter_slots(from);
  }
  void enter_periods() noexcept {
    for (unsigned wheel = 0; wheel != wheel_count; ++wheel) wheels_->ends[wheel] = period_end(wheel, 2);
  }
  /// Moves down the timers of the slots that the present has entered, and of those behind.
  void enter_slots(std::uint64_t from) noexcept {
    enter_periods();
    if (slot_at(from, wheel_count) != slot_at(present_, wheel_count)) move_down(waiting);
    for (unsigned wheel = wheel_count; --wheel != 0;) {
      const std::uint64_t slot = slot_at(present_, wheel);
      if (slot == slot_at(from, wheel)) continue;
      move_down(index_of(wheel, slot));
      if (wheel != 1) move_down(index_of(wheel, slot + 1));
    }
    const timer_link& behind = wheels_->heads[moving_slot()];
    wheels_->is_moving = behind.next != &behind;
    if (wheels_->is_moving) wheels_->ends[0] = period_end(0, 1);  // further timers of that slot join them
  }

  /// Moves the first ones of the timers that are moving down.
  [[gnu::noinline]] void move_some(unsigned most) noexcept {
    timer_link& head = wheels_->heads[moving_slot()];
    for (; head.next != &head && most != 0; --most) {
      timer_node& node = static_cast<timer_node&>(*head.next);
      unlink(node);
      put(index_of(0, node.when), node);
    }
    if (head.next != &head) return;
    mark_empty(&head);
    wheels_->is_moving = false;
    wheels_->ends[0] = period_end(0, 2);
  }

  void collect_few(std::uint64_t target) noexcept {
    timer_link& head = head_of(waiting);
    while (head.next != &head) {
      timer_node& node = static_cast<timer_node&>(*head.next);
      if (node.when > target) return;
      unlink(node);
      append(due, node);
    }
    summary_ &= ~bit_of(waiting);
  }

  void move_down(std::size_t index) noexcept {
    list_head chain;
    splice(head_of(index), chain);
    mark_empty(&head_of(index));
    while (chain.next != &chain) {
      timer_node& node = static_cast<timer_node&>(*chain.next);
      unlink(node);
      place(node);
    }
  }

  std::int64_t origin_;        // nanoseconds since the clock's epoch
  std::uint64_t present_ = 0;  // tick up to which timers have been collected
  std::uint32_t summary_ = 0;  // bit w: occupied[w] is not 0; bit_of(list): the list is not empty; of `fresh`: may be
  wheels* wheels_ = nullptr;   // owned
  list_head lists_[firing + 1 - wheel_slots];
};

}  // namespace async::inline v0_1::detail
