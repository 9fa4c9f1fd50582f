// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <new>          // for placement new
#include <tuple>        // for tuple, get, apply
#include <type_traits>  // for remove_reference_t
#include <utility>      // for index_sequence, index_sequence_for

#include "async/detail/base/atomics.hpp"         // for wait_clock, under_model
#include "async/detail/base/block_cache.hpp"     // for allocate_block, free_block
#include "async/detail/queue/queue_result.hpp"   // for queue_result
#include "async/detail/queue/queue_wait.hpp"     // for is_worth_another_try
#include "async/detail/select/select_watch.hpp"  // for select_thread

namespace async::detail {

enum class case_kind : unsigned char {
  source,     // a queue or a future
  limit,      // takes effect after a time
  otherwise,  // takes effect if no other does
};

/// The watches of a waiting thread, one for each source.
template <class... Watches>
class select_block final : public select_thread {
 public:
  /// Throws std::bad_alloc. The caller gets a reference.
  static select_block& make() {
    if constexpr (under_model) {
      return *new select_block;  // which the checker follows
    } else {
      return *::new (allocate_block(sizeof(select_block), alignof(select_block))) select_block;
    }
  }

  std::tuple<Watches...> watches;

 private:
  select_block() noexcept : select_thread(&free), watches(self<Watches>()...) {}
  template <class>
  select_thread& self() noexcept {
    return *this;
  }
  static void free(select_thread& t) noexcept {
    auto& block = static_cast<select_block&>(t);
    if constexpr (under_model) {
      delete &block;
    } else {
      block.~select_block();
      free_block(&block, sizeof(select_block), alignof(select_block));
    }
  }
};

/// The cases of a call of select().
///
/// Protocol    attempt each case in order; if all are blocked, list a watch for each source, attempt each again, and
///             sleep until a watch or the time wakes the thread. Between a list() and the attempt that follows, no
///             change of a queue is missed, see event_count; of a future, see result_word.
/// A case      attempt() says done, blocked, or closed (it will never take effect); source() is what its watch looks
///             at, or null; finish() calls the handler; hint() says whether an attempt is worthwhile; time() is the
///             moment of a limit, null: never.
template <class... Cases>
class selection {
 public:
  static constexpr std::size_t nothing_left = static_cast<std::size_t>(-1);
  static constexpr std::size_t pending = static_cast<std::size_t>(-2);

  explicit selection(Cases&... cases) noexcept : cases_(cases...) {}

  /// The index of the case that has taken effect; nothing_left; or pending.
  std::size_t try_all() { return try_in_order<watches_type>(nullptr, all_indices()); }
  /// The same with a watch for each case, whose look() is called before the attempt, and attempted() after it.
  template <class Watches>
  std::size_t try_all(Watches* watches) {
    return try_in_order(watches, all_indices());
  }

  /// Waits by sleep(parker, deadline), which returns at the deadline or sooner. Throws std::bad_alloc and what attempts
  /// throw.
  template <class Sleep>
  std::size_t wait(Sleep sleep) {
    std::size_t found = pending;
    while (is_worth_another_try(nullptr, [this] { return has_hint(); })) {
      if ((found = try_all()) != pending) return found;
    }
    const listing here(*this);
    for (;;) {
      here.list_all();
      if ((found = try_all(&here.block.watches)) != pending) return found;
      sleep(here.block.parker, deadline());
      if ((found = try_all(&here.block.watches)) != pending) return found;
    }
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
  /// For the cases that nothing has to be watched for.
  struct no_watch {
    explicit no_watch(select_thread&) noexcept {}
  };
  template <class Case>
  struct watch_of {
    using type = no_watch;
  };
  template <class Case>
    requires(Case::kind == case_kind::source)
  struct watch_of<Case> {
    using type = typename Case::watch;
  };
  using block_type = select_block<typename watch_of<Cases>::type...>;
  using watches_type = std::tuple<typename watch_of<Cases>::type...>;
  using all_indices = std::index_sequence_for<Cases...>;

  static constexpr bool has_sources = ((Cases::kind == case_kind::source) || ...);

  struct listing {
    explicit listing(selection& s) : owner(s), block(block_type::make()) {}
    ~listing() {
      owner.for_each_source(block.watches, [](auto& watch, auto& source) { watch.leave(source); }, all_indices());
      block.release();
    }
    listing(const listing&) = delete;
    listing& operator=(const listing&) = delete;
    void list_all() const noexcept {
      owner.for_each_source(block.watches, [](auto& watch, auto& source) { watch.list(source); }, all_indices());
    }

    selection& owner;
    block_type& block;
  };

  template <class F, std::size_t... I>
  void for_each_source(watches_type& watches, F f, std::index_sequence<I...>) noexcept {
    const auto one = [&f](auto& each, auto& watch) {
      if constexpr (std::remove_reference_t<decltype(each)>::kind == case_kind::source) {
        if (auto* const source = each.source()) f(watch, *source);
      }
    };
    (one(std::get<I>(cases_), std::get<I>(watches)), ...);
  }

  template <class Watches, std::size_t... I>
  std::size_t try_in_order(Watches* watches, std::index_sequence<I...>) {
    std::size_t found = pending;
    bool is_open = !has_sources;
    if ((try_one<I>(watches, found, is_open) || ...)) return found;
    if (!is_open) return nothing_left;
    static_cast<void>(((Cases::kind == case_kind::otherwise && (found = I, true)) || ...));
    return found;
  }
  /// True: this case takes effect.
  template <std::size_t I, class Watches>
  bool try_one(Watches* watches, std::size_t& found, bool& is_open) {
    auto& each = std::get<I>(cases_);
    constexpr bool is_source = std::remove_reference_t<decltype(each)>::kind == case_kind::source;
    if constexpr (is_source) {
      if (watches != nullptr) std::get<I>(*watches).look();
    }
    const queue_result result = each.attempt();
    if constexpr (is_source) {
      if (watches != nullptr) std::get<I>(*watches).attempted();
      if (result == queue_result::blocked) is_open = true;
    }
    if (result == queue_result::done) found = I;
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

}  // namespace async::detail
