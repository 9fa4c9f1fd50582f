// SPDX-License-Identifier: BSL-1.0
#pragma once

/// The seam of async/detail/base/atomics.hpp on Relacy's simulated memory: the shipped headers run on it unchanged.
///
/// How to write a model (test/model/NAME.cpp; see seam.cpp for small ones):
///
///   #include "relacy_runner.hpp"          // first: it puts this seam in place of the product's
///   #include "async/thing.hpp"
///
///   struct hand_over : rl::test_suite<hand_over, 2> {   // 2 threads
///     async::thing<model::element> thing{2};            // made anew for each execution
///     void before() {}                                  // on one thread, before the threads
///     void thread(unsigned index) { ... model::check(condition, "what must hold"); }
///     void after() {}                                   // on one thread, after the threads
///   };
///   int main(int argc, char** argv) {
///     model::runner run("thing", argc, argv);
///     run.check<hand_over>("an element is handed over once");
///     return run.result();
///   }
///
/// - The checker sees atomic<T>, cell<T>, model::element and the functions of this file; plain variables it does not.
///   What threads write for after() to read goes into variables of their own, one a thread. Nothing may depend on
///   addresses, real time, static or thread-local state: an execution must be repeatable.
/// - Keep it small: 2-3 threads of 1-3 operations, capacities of 2, versions of 2 bits. A loop that waits for another
///   thread calls cpu_pause() or yield_thread() in each round, or it is reported as a livelock.
/// - A thread asleep in wait_on_word() is woken by wake_*() or, with a deadline, may time out at any moment (then
///   wait_clock has reached the deadline); the random search also wakes sleepers for no reason. A lost wake-up is a
///   deadlock and reported as one.
/// - Relacy's systematic search goes astray when only timed sleepers can go on while others sleep without limit. There,
///   pass_time() before the sleep: it times out at once, and the scheduler may switch threads before.
/// - Both fences are seq_cst fences. Relacy's also make what came before one happen before what comes after the other,
///   which is more than C++ promises: an order that only matters behind a fence has to be argued, not modelled.
/// - Memory from the plain operator new is checked for leaks and double deletion. A catch block must not touch an
///   atomic: a thread that is switched inside one would leave its exception to another thread.

#define ASYNCSTEPS_ATOMICS_HEADER "relacy_seam.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>
#include <utility>

// The parts of Relacy that models need; its relacy.hpp also redefines keywords and the names of POSIX.
#include <relacy/atomic.hpp>
#include <relacy/atomic_fence.hpp>
#include <relacy/base.hpp>
#include <relacy/context.hpp>
#include <relacy/context_base_impl.hpp>
#include <relacy/dyn_thread.hpp>
#include <relacy/stdlib/condition_variable.hpp>
#include <relacy/stdlib/event.hpp>
#include <relacy/stdlib/mutex.hpp>
#include <relacy/stdlib/semaphore.hpp>
#include <relacy/test_suite.hpp>
#include <relacy/thread_local.hpp>
#include <relacy/var.hpp>

// The real platform keeps its other names; those that the seam replaces step aside.
#define cpu_pause platform_cpu_pause
#define light_fence platform_light_fence
#define free_light_fence platform_free_light_fence
#define heavy_fence platform_heavy_fence
#define wait_clock platform_wait_clock
#include "async/detail/base/platform.hpp"
#undef cpu_pause
#undef light_fence
#undef free_light_fence
#undef heavy_fence
#undef wait_clock

// A broken invariant of the library shows its schedule instead of ending the program.
#undef ASYNCSTEPS_ASSERT
#define ASYNCSTEPS_ASSERT(condition) ::model::check((condition), "assertion: " #condition)

namespace model {

using place = std::source_location;

inline rl::debug_info info_of(const place& at) { return {"", at.file_name(), at.line()}; }

/// Ends the execution as failed, unless `condition` holds.
inline void check(bool condition, const char* what, place at = place::current()) {
  if (!condition) rl::ctx().fail_test(what, rl::test_result_user_assert_failed, info_of(at));
}

/// One line of a failed execution's history.
struct access {
  const char* what;
  const void* object;
  unsigned long long before;
  unsigned long long after;
  const char* order;

  void output(std::ostream& out) const {
    out << what << " <" << object << ">" << order;
    out << "  " << before;
    if (before != after) out << " -> " << after;
  }
};

inline void log(const access& event, const place& at) {
  if (rl::ctx().collecting_history()) rl::ctx().exec_log(info_of(at), event);
}

template <class T>
unsigned long long bits_of(const T& value) {
  unsigned long long bits = 0;
  if constexpr (std::is_trivially_copyable_v<T>) std::memcpy(&bits, &value, (std::min)(sizeof bits, sizeof value));
  return bits;
}

/// Ordered accesses to a piece of plain memory; an unordered one is a data race.
class tracked {
 public:
  tracked() : data_(rl::ctx().var_ctor()) { data_->init(*rl::ctx().threadx_); }
  ~tracked() {
    alive_ = 0;
    rl::ctx().var_dtor(data_);
  }
  tracked(const tracked&) = delete;
  tracked& operator=(const tracked&) = delete;

  void read(const place& at) const { must(rl::ctx().invariant_executing || data_->load(*rl::ctx().threadx_), at); }
  void write(const place& at) { must(data_->store(*rl::ctx().threadx_), at); }

 private:
  static constexpr unsigned living = 0x5ea1ab1eU;
  void must(bool ordered, const place& at) const {
    if (alive_ != living) rl::ctx().fail_test("", rl::test_result_access_to_freed_memory, info_of(at));
    if (!ordered) rl::ctx().fail_test("", rl::test_result_data_race, info_of(at));
  }
  rl::var_data* data_;
  unsigned alive_ = living;
};

/// The time of this execution: stands still until a sleep times out.
inline std::chrono::nanoseconds now{0};

/// The clock reaches `t`.
inline void pass_time(std::chrono::nanoseconds t) { now = (std::max)(now, t); }

inline constexpr int most_threads = 8;

}  // namespace model

namespace async::inline v0_1::detail {

inline constexpr bool under_model = true;

template <class T>
class atomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  using place = model::place;
  static constexpr auto difference() {
    if constexpr (std::is_pointer_v<T>) {
      return std::ptrdiff_t{};
    } else {
      return T{};
    }
  }

 public:
  using value_type = T;
  using difference_type = decltype(difference());
  static constexpr bool is_always_lock_free = true;

  atomic() : atomic(T{}) {}
  atomic(T value, place at = place::current()) : data_(rl::ctx().atomic_ctor(this)) {
    put(rl::ctx().threadx_->atomic_store_relaxed(data_), value);
    model::log({"make", this, bits(value), bits(value), ""}, at);
  }
  ~atomic() {
    alive_ = 0;
    rl::ctx().atomic_dtor(data_);
  }
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  bool is_lock_free() const noexcept { return true; }

  T load(std::memory_order order, place at = place::current()) const noexcept {
    step(at);
    if (rl::ctx().invariant_executing) return latest_;
    const unsigned index = loaded(order, false);
    if (index == absent) rl::ctx().fail_test("", rl::test_result_unitialized_access, model::info_of(at));
    model::log(
        {index == newest_ ? "load" : "load stale", this, bits(values_[index]), bits(values_[index]), name(order)}, at);
    return values_[index];
  }

  void store(T value, std::memory_order order, place at = place::current()) noexcept {
    step(at);
    model::log({"store", this, bits(latest_), bits(value), name(order)}, at);
    auto& thread = *rl::ctx().threadx_;
    put(order == std::memory_order_relaxed   ? thread.atomic_store_relaxed(data_)
        : order == std::memory_order_release ? thread.atomic_store_release(data_)
                                             : thread.atomic_store_seq_cst(data_),
        value);
  }

  T exchange(T value, std::memory_order order, place at = place::current()) noexcept {
    return modify("exchange", order, at, [value](T) { return value; });
  }
  T fetch_add(difference_type by, std::memory_order order, place at = place::current()) noexcept {
    return modify("fetch_add", order, at, [by](T old) { return static_cast<T>(old + by); });
  }
  T fetch_sub(difference_type by, std::memory_order order, place at = place::current()) noexcept {
    return modify("fetch_sub", order, at, [by](T old) { return static_cast<T>(old - by); });
  }
  T fetch_and(T mask, std::memory_order order, place at = place::current()) noexcept {
    return modify("fetch_and", order, at, [mask](T old) { return static_cast<T>(old & mask); });
  }
  T fetch_or(T mask, std::memory_order order, place at = place::current()) noexcept {
    return modify("fetch_or", order, at, [mask](T old) { return static_cast<T>(old | mask); });
  }
  T fetch_xor(T mask, std::memory_order order, place at = place::current()) noexcept {
    return modify("fetch_xor", order, at, [mask](T old) { return static_cast<T>(old ^ mask); });
  }

  bool compare_exchange_strong(T& expected, T desired, std::memory_order success, std::memory_order failure,
                               place at = place::current()) noexcept {
    return compare(expected, desired, success, failure, false, at);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success, std::memory_order failure,
                             place at = place::current()) noexcept {
    return compare(expected, desired, success, failure, true, at);
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order, place at = place::current()) noexcept {
    return compare(expected, desired, order, on_failure(order), false, at);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order, place at = place::current()) noexcept {
    return compare(expected, desired, order, on_failure(order), true, at);
  }

  /// wait_on_word: the test of the value and the sleep are one step, as in a futex. False: timed out.
  bool sleep(T expected, bool timed, const place& at) noexcept {
    step(at);
    rl::unpark_reason reason = rl::unpark_reason_normal;
    if (latest_ == expected) {
      model::log({timed ? "sleep timed" : "sleep", this, bits(latest_), bits(latest_), ""}, at);
      rl::context& context = rl::ctx();
      reason = sleepers_.park_current(context, timed, context.is_random_sched(), false, model::info_of(at));
    }
    if (reason == rl::unpark_reason_normal) loaded(std::memory_order_relaxed, true);  // the kernel has seen the change
    return reason != rl::unpark_reason_timeout;
  }
  void wake(bool all, const place& at) noexcept {
    step(at);
    model::log({all ? "wake all" : "wake one", this, bits(latest_), bits(latest_), ""}, at);
    while (sleepers_.unpark_one(rl::ctx(), model::info_of(at)) && all) {
    }
  }

 private:
  static constexpr unsigned living = 0x5ea1ab1eU;
  static constexpr unsigned absent = static_cast<unsigned>(-1);

  static unsigned long long bits(const T& value) { return model::bits_of(value); }
  static const char* name(std::memory_order order) {
    static constexpr const char* names[] = {" relaxed", " consume", " acquire", " release", " acq_rel", " seq_cst"};
    return names[static_cast<int>(order)];
  }
  static constexpr std::memory_order on_failure(std::memory_order order) {
    return order == std::memory_order_acq_rel   ? std::memory_order_acquire
           : order == std::memory_order_release ? std::memory_order_relaxed
                                                : order;
  }

  /// A point where the scheduler may switch threads.
  void step(const place& at) const {
    rl::ctx().sched();
    if (alive_ != living) rl::ctx().fail_test("", rl::test_result_access_to_freed_memory, model::info_of(at));
  }

  unsigned loaded(std::memory_order order, bool newest) const {
    auto& thread = *rl::ctx().threadx_;
    if (order == std::memory_order_relaxed) {
      return newest ? thread.atomic_load_relaxed_rmw(data_) : thread.atomic_load_relaxed(data_);
    }
    if (order == std::memory_order_seq_cst) {
      return newest ? thread.atomic_load_seq_cst_rmw(data_) : thread.atomic_load_seq_cst(data_);
    }
    return newest ? thread.atomic_load_acquire_rmw(data_) : thread.atomic_load_acquire(data_);
  }

  void put(unsigned index, T value) {
    values_[index] = latest_ = value;
    newest_ = index;
  }

  void replace(std::memory_order order, T value) {
    auto& thread = *rl::ctx().threadx_;
    bool aba = false;
    put(order == std::memory_order_relaxed   ? thread.atomic_rmw_relaxed(data_, aba)
        : order == std::memory_order_acquire ? thread.atomic_rmw_acquire(data_, aba)
        : order == std::memory_order_release ? thread.atomic_rmw_release(data_, aba)
        : order == std::memory_order_acq_rel ? thread.atomic_rmw_acq_rel(data_, aba)
                                             : thread.atomic_rmw_seq_cst(data_, aba),
        value);
  }

  template <class Change>
  T modify(const char* what, std::memory_order order, const place& at, Change change) {
    step(at);
    const T before = latest_;
    const T after = change(before);
    model::log({what, this, bits(before), bits(after), name(order)}, at);
    replace(order, after);
    return before;
  }

  bool compare(T& expected, T desired, std::memory_order success, std::memory_order failure, bool weak,
               const place& at) {
    step(at);
    const T before = latest_;
    if (before == expected && !(weak && fails_for_no_reason())) {
      model::log({"exchange if equal", this, bits(before), bits(desired), name(success)}, at);
      replace(success, desired);
      return true;
    }
    model::log({"no exchange", this, bits(before), bits(before), name(failure)}, at);
    loaded(failure, true);
    expected = before;
    return false;
  }

  /// A systematic search would not end if it could fail each time.
  bool fails_for_no_reason() {
    rl::context& context = rl::ctx();
    if (context.is_random_sched()) return context.rand(4, rl::sched_type_cas_fail) == 0;
    if (has_failed_) return false;
    has_failed_ = context.rand(2, rl::sched_type_cas_fail) == 0;
    return has_failed_;
  }

  rl::atomic_data* data_;
  T values_[rl::atomic_history_size] = {};
  T latest_{};
  unsigned newest_ = 0;
  unsigned alive_ = living;
  bool has_failed_ = false;
  rl::waitset<model::most_threads> sleepers_;
};

template <class T>
class cell {
 public:
  cell() = default;
  explicit cell(T value) : value_(std::move(value)) {}
  T get(model::place at = model::place::current()) const noexcept {
    tracked_.read(at);
    model::log({"read", this, model::bits_of(value_), model::bits_of(value_), ""}, at);
    return value_;
  }
  void set(T value, model::place at = model::place::current()) noexcept {
    tracked_.write(at);
    model::log({"write", this, model::bits_of(value_), model::bits_of(value), ""}, at);
    value_ = std::move(value);
  }

 private:
  T value_{};
  model::tracked tracked_;
};

inline void light_fence(model::place at = model::place::current()) noexcept {
  rl::atomic_thread_fence(rl::mo_seq_cst, model::info_of(at));
}
inline void free_light_fence(model::place at = model::place::current()) noexcept { light_fence(at); }
inline void heavy_fence(model::place at = model::place::current()) noexcept {
  rl::atomic_thread_fence(rl::mo_seq_cst, model::info_of(at));
}
inline void cpu_pause(model::place at = model::place::current()) noexcept { rl::ctx().yield(1, model::info_of(at)); }
inline void yield_thread(model::place at = model::place::current()) noexcept { rl::ctx().yield(1, model::info_of(at)); }

struct wait_clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<wait_clock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept { return time_point(model::now); }
};

inline bool wait_on_word(atomic<std::uint32_t>& word, std::uint32_t expected,
                         const wait_clock::time_point* deadline = nullptr,
                         model::place at = model::place::current()) noexcept {
  if (deadline != nullptr && *deadline <= wait_clock::now()) {
    static_cast<void>(word.load(std::memory_order_relaxed, at));
    return false;
  }
  if (word.sleep(expected, deadline != nullptr, at)) return true;
  model::now = (std::max)(model::now, deadline->time_since_epoch());
  return false;
}
inline void wake_one(atomic<std::uint32_t>& word, model::place at = model::place::current()) noexcept {
  word.wake(false, at);
}
inline void wake_all(atomic<std::uint32_t>& word, model::place at = model::place::current()) noexcept {
  word.wake(true, at);
}

}  // namespace async::inline v0_1::detail
