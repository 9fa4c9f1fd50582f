// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <type_traits>  // for is_invocable_v
#include <utility>      // for forward

#include "async/detail/base/chrono.hpp"         // for nanoseconds
#include "async/detail/base/durations.hpp"      // for later
#include "async/detail/base/min_max.hpp"        // for max_of
#include "steps/detail/engine/step_record.hpp"  // for discard_results
#include "steps/detail/wait/run_again.hpp"      // for run_timer
#include "steps/every.hpp"                      // for Every, Tick

/// every(): a loop whose iterations wait for the ticks of a schedule.
namespace steps::inline v0_1::detail {

/// The ticks and rounds of an Every, of which the owner tells the time.
class tick_schedule {
 public:
  using time_point = async::detail::loop_core::time_point;
  using nanoseconds = std::chrono::nanoseconds;

  explicit tick_schedule(const Every& e) noexcept
      : period_(async::detail::max_of(e.period, nanoseconds(0))),
        first_(async::detail::max_of(e.first, nanoseconds(0))),
        missed_(e.missed) {}

  /// Sets the first tick; after a round, notes its end.
  void look(time_point now) noexcept {
    if (progress_ == unused) tick_ = async::detail::later(now, first_);
    if (progress_ == inside) {
      previous_ = now - began_;
      has_overrun_ = now > tick_;
    }
    progress_ = waiting;
  }
  /// The tick of the next round.
  time_point tick() const noexcept { return tick_; }

  /// A round begins, at or after its tick: what it is told. Sets the next tick.
  Tick begin(time_point now) noexcept {
    progress_ = inside;
    began_ = now;
    const nanoseconds late = now - tick_;
    const auto passed = period_.count() > 0 ? late / period_ : 0;  // ticks after that of this round
    const bool is_anew = period_.count() == 0 || (missed_ == MissedTicks::delay && (has_overrun_ || passed > 0));
    if (is_anew) tick_ = now;
    if (!is_anew && missed_ == MissedTicks::skip) tick_ += period_ * passed;
    tick_ = async::detail::later(tick_, period_);
    const bool drops = missed_ != MissedTicks::burst;
    return {number_++, drops ? static_cast<std::uint64_t>(passed) : 0, late, previous_};
  }

 private:
  enum progress : unsigned char { unused, waiting, inside };

  nanoseconds period_;
  nanoseconds first_;
  time_point tick_{};
  time_point began_{};
  nanoseconds previous_{0};
  std::size_t number_ = 0;
  MissedTicks missed_;
  progress progress_ = unused;
  bool has_overrun_ = false;  // the round before has ended after the tick of this one
};

/// The body of a loop_step.
template <class F>
struct periodic {
  template <class G>
  periodic(const Every& e, G&& g) : schedule(e), function(std::forward<G>(g)) {}
  periodic(const periodic&) = delete;
  periodic& operator=(const periodic&) = delete;
  ~periodic() { timer.stop(); }

  /// True: it is too early for a round, and the step waits.
  bool waits(step& s) {
    flow& f = *s.flow_;
    discard_results(f);
    now = f.core->now();
    schedule.look(now);
    timer.stop();
    if (now >= schedule.tick()) return false;
    timer.start(s, schedule.tick());
    f.mark_wait();
    return true;
  }
  bool next(flow&) noexcept { return true; }
  template <class Face>
  void call(flow&, Face& asi) {
    const Tick tick = schedule.begin(now);
    if constexpr (std::is_invocable_v<F&, Face&, const Tick&>) {
      function(asi, tick);
    } else {
      function(asi);
    }
  }

  tick_schedule schedule;
  tick_schedule::time_point now{};
  run_timer timer;
  F function;
};

/// True, or a compile-time message, for the function of every().
template <class F>
struct check_round {
  static constexpr bool ok =
      std::is_invocable_v<F&, IAsyncSteps&> || std::is_invocable_v<F&, IAsyncSteps&, const Tick&>;
  static_assert(ok,
                "the function of every() is called as f(IAsyncSteps&) or f(IAsyncSteps&, const steps::Tick&): it gets "
                "no results");
  static_assert(returns_nothing<F, IAsyncSteps&>() && returns_nothing<F, IAsyncSteps&, const Tick&>(),
                "the function of every() returns void: a round passes no results on");
};
template <class F>
inline constexpr bool is_round = check_round<F>::ok;

}  // namespace steps::inline v0_1::detail
