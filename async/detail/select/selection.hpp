// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <tuple>        // for tuple, get, apply
#include <type_traits>  // for remove_reference_t
#include <utility>      // for index_sequence, index_sequence_for

#include "async/detail/base/atomics.hpp"          // for wait_clock
#include "async/detail/base/naps.hpp"             // for tell_of_poll
#include "async/detail/future/ready_actions.hpp"  // for actions_of_thread
#include "async/detail/queue/queue_result.hpp"    // for queue_result
#include "async/detail/queue/queue_wait.hpp"      // for is_worth_another_try
#include "async/detail/select/select_waiter.hpp"  // for select_block, select_thread, select_waiter

namespace async::inline v0_1::detail {

enum class case_kind : unsigned char {
  source,     // a queue or a future
  limit,      // takes effect after a time
  otherwise,  // takes effect if no other does
};

/// The shortest of the limits that somebody has to wait for; null: none.
template <class Limit, class... Cases>
Limit* shortest_limit(std::tuple<Cases...>& cases) noexcept {
  Limit* first = nullptr;
  const auto look = [&first](auto& each) {
    if constexpr (std::remove_reference_t<decltype(each)>::kind == case_kind::limit) {
      Limit& limit = each.limit();
      if (!limit.is_never() && (first == nullptr || limit.length() < first->length())) first = &limit;
    }
  };
  std::apply([&look](auto&... each) { (look(each), ...); }, cases);
  return first;
}

/// For the cases that nothing has to be watched for.
struct no_watch {
  explicit no_watch(select_waiter&) noexcept {}
};
template <class Case>
struct find_watch {
  using type = no_watch;
};
template <class Case>
  requires(Case::kind == case_kind::source)
struct find_watch<Case> {
  using type = typename Case::watch;
};
template <class Case>
using watch_of_case = typename find_watch<Case>::type;

/// The cases of a call of select().
///
/// Protocol    attempt each case in order; if all are blocked, list a watch for each source, attempt each again, and
///             wait until a watch or the time wakes the waiter. Between a list() and the attempt that follows, no
///             change of a queue is missed, see event_count; of a future, see result_word.
/// A case      attempt() says done, blocked, or closed (it will never take effect); source() is what its watch looks
///             at, or null; finish() calls the handler; hint() says whether an attempt is worthwhile; time() is the
///             moment of a limit, null: never.
template <class... Cases>
class selection {
 public:
  static constexpr std::size_t nothing_left = static_cast<std::size_t>(-1);
  static constexpr std::size_t pending = static_cast<std::size_t>(-2);
  /// A watch for each case.
  using watches_type = std::tuple<watch_of_case<Cases>...>;

  explicit selection(Cases&... cases) noexcept : cases_(cases...) {}

  /// The index of the case that has taken effect; nothing_left; or pending.
  std::size_t try_all() { return try_in_order<watches_type>(nullptr, all_indices()); }
  /// The same with a watch for each case, whose look() is called before the attempt, and attempted() after it.
  template <class Watches>
  std::size_t try_all(Watches* watches) {
    return try_in_order(watches, all_indices());
  }

  /// Lists a watch for each source, unless it is listed. Each case has been attempted.
  void list_all(watches_type& watches) noexcept {
    for_each_source(watches, [](auto& watch, auto& source) { watch.list(source); }, all_indices());
  }
  /// Takes all watches off their lists. Wake-ups that no attempt has used go on to other waiters.
  void leave_all(watches_type& watches) noexcept {
    for_each_source(watches, [](auto& watch, auto& source) { watch.leave(source); }, all_indices());
  }

  /// Waits by sleep(parker, deadline), which returns at the deadline or sooner. Throws std::bad_alloc and what attempts
  /// throw.
  template <class Sleep>
  std::size_t wait(Sleep sleep) {
    std::size_t found = pending;
    while (is_worth_another_try(nullptr, [this] { return has_hint(); })) {
      if ((found = try_all()) != pending) return tell_if_limit(found);
    }
    static_cast<void>(actions_of_thread.before_wait());
    const listing here(*this);
    for (bool has_slept = false;; has_slept = true) {
      list_all(here.block.watches);
      if ((found = try_all(&here.block.watches)) != pending) return has_slept ? found : tell_if_limit(found);
      sleep(here.block.parker, deadline());
      if ((found = try_all(&here.block.watches)) != pending) return found;
    }
  }

  /// For a thread that has not slept: if this case is a limit, nothing else has taken effect in its time.
  static std::size_t tell_if_limit(std::size_t found) noexcept {
    constexpr bool limits[]{(Cases::kind == case_kind::limit)...};
    if (found < sizeof...(Cases) && limits[found]) tell_of_poll();
    return found;
  }

  /// Calls the handler of this case, by call(handler, values...).
  template <class Call>
  void finish(std::size_t found, Call call) {
    std::size_t index = 0;
    const auto one = [&index, found, &call](auto& each) {
      if (index++ != found) return false;
      each.finish(call);
      return true;
    };
    std::apply([&one](auto&... each) { static_cast<void>((one(each) || ...)); }, cases_);
  }

 private:
  using all_indices = std::index_sequence_for<Cases...>;

  static constexpr bool has_sources = ((Cases::kind == case_kind::source) || ...);

  struct listing {
    explicit listing(selection& s) : owner(s), block(select_block<select_thread, watches_type>::make()) {}
    ~listing() {
      owner.leave_all(block.watches);
      block.release();
    }
    listing(const listing&) = delete;
    listing& operator=(const listing&) = delete;

    selection& owner;
    select_block<select_thread, watches_type>& block;
  };

  template <class F, std::size_t... Index>
  void for_each_source(watches_type& watches, F f, std::index_sequence<Index...>) noexcept {
    const auto one = [&f](auto& each, auto& watch) {
      if constexpr (std::remove_reference_t<decltype(each)>::kind == case_kind::source) {
        if (auto* const source = each.source()) f(watch, *source);
      }
    };
    (one(std::get<Index>(cases_), std::get<Index>(watches)), ...);
  }

  template <class Watches, std::size_t... Index>
  std::size_t try_in_order(Watches* watches, std::index_sequence<Index...>) {
    std::size_t found = pending;
    bool is_open = !has_sources;
    if ((try_one<Index>(watches, found, is_open) || ...)) return found;
    if (!is_open) return nothing_left;
    static_cast<void>(((Cases::kind == case_kind::otherwise && (static_cast<void>(found = Index), true)) || ...));
    return found;
  }
  /// Whether no case from this one on is a source.
  template <std::size_t Index>
  static constexpr bool is_behind_sources() {
    constexpr bool sources[]{(Cases::kind == case_kind::source)...};
    for (std::size_t i = Index; i != sizeof...(Cases); ++i) {
      if (sources[i]) return false;
    }
    return true;
  }
  /// True: this case takes effect. A limit behind closed sources does not: nothing is left that it could be for.
  template <std::size_t Index, class Watches>
  bool try_one(Watches* watches, std::size_t& found, bool& is_open) {
    auto& each = std::get<Index>(cases_);
    constexpr bool is_source = std::remove_reference_t<decltype(each)>::kind == case_kind::source;
    if constexpr (is_source) {
      if (watches != nullptr) std::get<Index>(*watches).look();
    }
    if constexpr (is_behind_sources<Index>()) {
      if (!is_open) return false;
    }
    const queue_result result = each.attempt();
    if constexpr (is_source) {
      if (watches != nullptr) std::get<Index>(*watches).attempted();
      if (result == queue_result::blocked) is_open = true;
    }
    if (result == queue_result::done) found = Index;
    return result == queue_result::done;
  }

  bool has_hint() const {
    return std::apply([](const auto&... each) { return (each.hint() || ...); }, cases_);
  }
  /// The first limit; null: none.
  const wait_clock::time_point* deadline() const noexcept {
    const wait_clock::time_point* first = nullptr;
    const auto look = [&first](const auto& each) {
      if constexpr (std::remove_reference_t<decltype(each)>::kind == case_kind::limit) {
        const wait_clock::time_point* const time = each.time();
        if (time != nullptr && (first == nullptr || *time < *first)) first = time;
      }
    };
    std::apply([&look](const auto&... each) { (look(each), ...); }, cases_);
    return first;
  }

  std::tuple<Cases&...> cases_;
};

}  // namespace async::inline v0_1::detail
