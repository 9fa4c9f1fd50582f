// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for int64_t, uint16_t, uint64_t, uintptr_t
#include <type_traits>  // for is_invocable_v, is_same_v
#include <utility>      // for exchange, forward

#include "async/detail/base/chrono.hpp"         // for nanoseconds
#include "async/detail/base/min_max.hpp"        // for max_of, min_of
#include "steps/detail/engine/step_record.hpp"  // for discard_results, index_for
#include "steps/detail/wait/run_again.hpp"      // for run_timer
#include "steps/detail/wait/timeout.hpp"        // for timeout_scope
#include "steps/retry.hpp"                      // for Retry

/// retry() as a step: one record, which runs again after an attempt that has failed.
namespace steps::inline v0_1::detail {

/// The pauses of a Retry, one after the other.
class pauses {
 public:
  explicit pauses(const Retry& r) noexcept
      : next_(to_number(r.delay)), factor_(r.factor), most_(to_number(r.max_delay)), jitter_(part_of(r.jitter)) {}

  /// `random`: the next of any sequence of numbers.
  std::chrono::nanoseconds next(std::uint64_t random) noexcept {
    const double whole = next_ < most_ ? next_ : most_;
    if (next_ > 0.0) next_ = async::detail::max_of(next_ * factor_, 0.0);  // 0 times infinity is no number
    if (!(next_ < most_)) next_ = most_;                                   // also when it is no number
    const double fraction = static_cast<double>(mixed(random) >> 11) * 0x1p-53;
    return std::chrono::nanoseconds(static_cast<std::int64_t>(whole - whole * jitter_ * fraction));
  }

 private:
  static double to_number(std::chrono::nanoseconds time) noexcept {
    constexpr std::int64_t century = std::int64_t{3'155'760'000} * 1'000'000'000;
    return static_cast<double>(
        async::detail::min_of(async::detail::max_of(std::int64_t{time.count()}, std::int64_t{0}), century));
  }
  static double part_of(double jitter) noexcept { return jitter > 0 ? async::detail::min_of(jitter, 1.0) : 0.0; }
  /// The last steps of splitmix64: numbers that hardly differ become numbers that have nothing in common.
  static std::uint64_t mixed(std::uint64_t n) noexcept {
    n = (n ^ (n >> 30)) * 0xBF58476D1CE4E5B9U;
    n = (n ^ (n >> 27)) * 0x94D049BB133111EBU;
    return n ^ (n >> 31);
  }

  double next_;  // nanoseconds
  double factor_;
  double most_;
  double jitter_;
};

/// Lets the time limits that have been set in this turn count from here on, instead of from its end.
inline void settle_limits(const flow& f) noexcept {
  if (f.core->timers().has_fresh()) f.core->timers().settle(f.core->now());
}

/// True when a time limit is in force that has passed. In an error handler these are limits of enclosing steps.
inline bool limit_has_passed(const flow& f, async::detail::loop_core::time_point now) noexcept {
  f.core->timers().settle(now);
  for (const scope* s = f.scopes; s != nullptr; s = s->outer) {
    if (s->ops == &timeout_scope::ops && static_cast<const timeout_scope*>(s)->has_passed(now)) return true;
  }
  return false;
}

/// F: the function; E: the error handler or no_handler.
template <class Face, class Filter, class F, class E>
struct retry_step final : Face {
  template <class P, class G, class H>
  retry_step(const Retry& r, P&& p, G&& g, H&& h)
      : attempts(r.attempts),
        pause(r),
        filter(std::forward<P>(p)),
        function(std::forward<G>(g)),
        handler(std::forward<H>(h)) {}
  retry_step(const retry_step&) = delete;
  retry_step& operator=(const retry_step&) = delete;
  ~retry_step() { timer.stop(); }

  static void run(step& s) {
    auto& self = static_cast<retry_step&>(s);
    flow& f = *s.flow_;
    s.flags_ = static_cast<std::uint16_t>((s.flags_ | record_flag::begun) & ~record_flag::again);
    discard_results(f);
    if (self.attempts == 0) return misuse(f, "retry() with Retry::attempts of 0");
    if (self.failed == 0) settle_limits(f);  // the attempts may all be made in this turn
    const auto time = std::exchange(self.until_next, std::chrono::nanoseconds(0));
    if (time > time.zero()) {
      self.timer.start(s, time);
      return f.mark_wait();
    }
    if constexpr (std::is_invocable_v<F&, Face&>) {
      self.function(static_cast<Face&>(self));
    } else {
      self.function(static_cast<Face&>(self), index_for<F>(self.failed));
    }
  }

  /// An attempt has failed. All that belonged to it has ended, but for its stack() objects.
  void fail(ErrorCode code) {
    timer.stop();  // of a pause that an error from outside has ended
    flow& f = *this->flow_;
    const auto now = f.core->now();
    if (!is_worth_another(f, code, now)) {
      call_handler<Face>(handler, *this, code);
      return;
    }
    if (f.first != nullptr || !f.has_no_verdict()) return;  // the filter has used the flow
    until_next =
        pause.next(static_cast<std::uint64_t>(now.time_since_epoch().count()) ^ reinterpret_cast<std::uintptr_t>(this));
    this->flags_ |= record_flag::again | record_flag::handler;
    f.mark_success();  // of this attempt: the step runs again
  }

  bool is_worth_another(const flow& f, ErrorCode code, async::detail::loop_core::time_point now) {
    if (++failed >= attempts) return false;
    if (code == errors::LoopBreak || code == errors::LoopCont) return false;
    return !limit_has_passed(f, now) && filter(code);
  }

  const std::size_t attempts;
  std::size_t failed = 0;
  pauses pause;
  std::chrono::nanoseconds until_next{0};  // the pause that the next run begins with
  run_timer timer;
  [[no_unique_address]] Filter filter;
  [[no_unique_address]] F function;
  [[no_unique_address]] E handler;
};

/// True, or a compile-time message, for the function and the error handler of retry().
template <class F, class E>
struct check_attempt {
  static constexpr bool ok =
      std::is_invocable_v<F&, IAsyncSteps&> || std::is_invocable_v<F&, IAsyncSteps&, std::size_t>;
  static_assert(ok,
                "the function of retry() is called as f(IAsyncSteps&) or f(IAsyncSteps&, std::size_t attempt): it gets "
                "no results");
  static_assert(returns_nothing<F, IAsyncSteps&>() && returns_nothing<F, IAsyncSteps&, std::size_t>(),
                "the function of retry() returns void: hand results to the next step with asi.success(...)");
  static_assert([] {
    if constexpr (!std::is_same_v<E, no_handler>) return is_error_handler<E>;
    return true;
  }());
};
template <class F, class E>
inline constexpr bool is_attempt = check_attempt<F, E>::ok;

}  // namespace steps::inline v0_1::detail
