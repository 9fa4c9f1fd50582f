// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <tuple>        // for tuple, apply, get
#include <type_traits>  // for is_invocable_v, is_same_v, conditional_t, decay_t
#include <utility>      // for forward, in_place_t, index_sequence

#include "async/detail/select/select_case.hpp"   // for queue_watch, result_watch
#include "async/detail/select/select_limit.hpp"  // for timer_limit
#include "async/detail/select/selection.hpp"     // for selection, case_kind, shortest_limit
#include "steps/detail/engine/step_record.hpp"   // for discard_results
#include "steps/detail/wait/select_items.hpp"    // for kept_among, items_of, keep_case
#include "steps/detail/wait/select_places.hpp"   // for queue_place, ready_place, no_place, limit_timer

/// select() as a step. Elements stay in their queues until the step itself takes one, on the flow's loop; all other
/// places are given up before the handler is called.
namespace steps::inline v0_1::detail {

template <class Case, class... All>
using kept_case = typename kept_among<std::decay_t<Case>, std::decay_t<All>...>::type;

template <class Case>
struct place_of_case {
  using type = no_place;
};
template <class Case>
  requires std::is_same_v<typename Case::watch, async::detail::queue_watch>
struct place_of_case<Case> {
  using type = queue_place;
};
template <class Case>
  requires std::is_same_v<typename Case::watch, async::detail::result_watch>
struct place_of_case<Case> {
  using type = ready_place;
};

/// Calls a handler as a step function: with what the case brings, or without it.
template <class Face>
struct step_call {
  Face& asi;
  template <class F, class... V>
  void operator()(F& handler, V&&... values) const {
    if constexpr (std::is_invocable_v<F&, Face&, V...>) {
      handler(asi, std::forward<V>(values)...);
    } else {
      handler(asi);
    }
  }
};

/// A step of select(). E: the error handler or no_handler.
template <class Face, class E, class... Cases>
struct select_step final : Face {
  using chosen = async::detail::selection<Cases...>;
  static constexpr bool has_limit = ((Cases::kind == async::detail::case_kind::limit) || ...);
  using timer_type = std::conditional_t<has_limit, limit_timer, no_place>;
  using all_indices = std::index_sequence_for<Cases...>;
  using items_type = items_of<Cases...>;

  template <class H, class... C>
  explicit select_step(std::in_place_t, H&& h, C&&... c)
      : select_step(all_indices(), std::forward<H>(h), std::forward<C>(c)...) {}
  select_step(const select_step&) = delete;
  select_step& operator=(const select_step&) = delete;
  ~select_step() { leave(); }

  static void run(step& s) {
    auto& self = static_cast<select_step&>(s);
    flow& f = *s.flow_;
    s.flags_ |= record_flag::begun;
    discard_results(f);
    chosen all = std::apply([](Cases&... each) { return chosen(each...); }, self.cases);
    const std::size_t found = self.attempt_or_wait(f, all);
    if (found == chosen::pending) return f.mark_wait();
    self.leave();
    if (found == chosen::nothing_left) {
      return set_error(f, errors::QueueClosed,
                       "all queues of select() are closed and drained: only after() and otherwise() are left, if any");
    }
    all.finish(found, step_call<Face>{self});
  }
  void fail(ErrorCode code) {
    leave();
    call_handler<Face>(handler, *this, code);
  }

  std::size_t attempt_or_wait(flow& f, chosen& all) {
    std::size_t found = all.try_all(&places);
    if (found != chosen::pending) return found;
    line_up(f, all_indices());
    found = all.try_all(&places);
    if constexpr (has_limit) {
      if (found == chosen::pending) arm(f);
    }
    return found;
  }

  template <std::size_t... Index>
  void line_up(flow& f, std::index_sequence<Index...>) {
    const auto one = [this, &f](auto& each, auto& place) {
      using place_type = std::remove_cvref_t<decltype(place)>;
      if constexpr (std::is_same_v<place_type, queue_place>) place.line_up(f, *each.source());
      if constexpr (std::is_same_v<place_type, ready_place>) {
        if (auto* const state = each.state()) place.line_up(*this, *state);
      }
    };
    (one(std::get<Index>(cases), std::get<Index>(places)), ...);
  }

  /// The time counts from the first wait on.
  void arm(flow& f) {
    if (timer.armed()) return;
    timer.limit = async::detail::shortest_limit<async::detail::timer_limit>(cases);
    if (timer.limit == nullptr) return;
    timer.waiting = this;
    f.core->timers().arm_after(timer, timer.limit->length());
  }

  /// Gives up all places, and then the step's own futures that are not ready, if it has begun. Wake-ups that the step
  /// has not used go on to other waiters.
  void leave() noexcept {
    if constexpr (has_limit) {
      if (timer.armed()) this->flow_->core->timers().disarm(timer);
    }
    std::apply([](auto&... each) { (each.leave(), ...); }, places);
    if ((this->flags_ & record_flag::begun) == 0) return;
    const auto abandon = [](auto& each) {
      if constexpr (requires { each.abandon(); }) each.abandon();
    };
    std::apply([abandon](auto&... each) { (abandon(each), ...); }, cases);
  }

  template <std::size_t... Index, class H, class... C>
  select_step(std::index_sequence<Index...>, H&& h, C&&... c)
      : cases(detail::keep_case<Index, Cases>(items, std::forward<C>(c))...), handler(std::forward<H>(h)) {}

  [[no_unique_address]] items_type items;  // before the cases, which may refer to them
  std::tuple<Cases...> cases;
  std::tuple<typename place_of_case<Cases>::type...> places;
  [[no_unique_address]] timer_type timer;
  [[no_unique_address]] E handler;
};

/// The step of the cases number Index of `Arguments`.
template <class Face, class E, class Arguments, std::size_t... Index>
using select_step_of =
    select_step<Face, E,
                kept_case<typename Arguments::template at<Index>, typename Arguments::template at<Index>...>...>;

}  // namespace steps::inline v0_1::detail
