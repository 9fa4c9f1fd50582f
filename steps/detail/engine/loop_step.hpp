// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for uint16_t, uint32_t
#include <cstring>      // for memcpy
#include <iterator>     // for begin, end, iterator_traits
#include <new>          // for bad_alloc
#include <optional>     // for optional
#include <string>       // for string
#include <string_view>  // for string_view
#include <type_traits>  // for is_invocable_v
#include <utility>      // for forward

#include "steps/detail/engine/step_record.hpp"  // for call_function

/// The steps of loop(), repeat(), forEach() and every(): one record each, which runs again until the loop ends.
namespace steps::inline v0_1 {

/// The name of a loop, given to the loop, break or continue. Without a text: the innermost loop.
class LoopLabel {
 public:
  constexpr LoopLabel() noexcept = default;
  constexpr LoopLabel(std::nullptr_t) noexcept {}  // NOLINT: implicit by contract
  /// The label with that text, of which a loop keeps a copy.
  constexpr LoopLabel(const char* text) noexcept : text_(text == nullptr ? "" : text) {}  // NOLINT
  constexpr LoopLabel(std::string_view text) noexcept : text_(text) {}                    // NOLINT
  LoopLabel(const std::string& text) noexcept : text_(text) {}                            // NOLINT
  /// The text.
  constexpr std::string_view view() const noexcept { return text_; }

 private:
  std::string_view text_;
};

namespace detail {

/// A loop without a label keeps nothing; one with a label keeps a copy, behind the step in the arena.
struct no_label {
  std::string_view view() const noexcept { return {}; }
  std::size_t bytes() const noexcept { return 0; }
};
struct kept_label {
  struct source {
    flow& of;
    std::string_view text;
    std::size_t bytes() const noexcept { return round_up(sizeof(record) + text.size(), granule); }
  };
  /// Throws std::bad_alloc.
  explicit kept_label(const source& from) {
    if (from.text.size() > largest_record) throw std::bad_alloc();
    auto* const head = ::new (allocate(from.of, from.bytes())) record{static_cast<std::uint32_t>(from.bytes()), 0, 0};
    text = {static_cast<const char*>(std::memcpy(head + 1, from.text.data(), from.text.size())), from.text.size()};
  }
  std::string_view view() const noexcept { return text; }

  std::string_view text;
};

/// Access to the label in front of the functor, for a break, which does not know the loop's type.
template <class Face>
struct loop_head : Face {
  std::string_view (*label_of)(const loop_head&) noexcept;
};

template <class Face, class Label, class Body>
struct loop_step final : loop_head<Face> {
  template <class L, class... A>
  explicit loop_step(const L& l, A&&... a) : label(l), body(std::forward<A>(a)...) {
    this->label_of = [](const loop_head<Face>& self) noexcept {
      return static_cast<const loop_step&>(self).label.view();
    };
  }
  /// Bytes in the arena behind the step.
  template <class L, class... A>
  static std::size_t bytes_behind(const L& l, const A&...) noexcept {
    return l.bytes();
  }

  static void run(step& s) {
    auto& self = static_cast<loop_step&>(s);
    s.flags_ |= record_flag::begun;
    if constexpr (requires { self.body.waits(s); }) {
      if (self.body.waits(s)) return;
    }
    if (self.body.next(*s.flow_)) {
      self.body.call(*s.flow_, static_cast<Face&>(s));
    } else {
      s.flags_ &= static_cast<std::uint16_t>(~record_flag::again);
    }
  }

  [[no_unique_address]] Label label;
  Body body;
};

/// loop(): iterates until a break.
template <class F>
struct endless {
  template <class G>
  explicit endless(G&& g) : function(std::forward<G>(g)) {}

  bool next(flow&) noexcept { return true; }
  template <class Face>
  void call(flow& f, Face& asi) {
    call_function<Face>(f, asi, function, typename wanted_results<F>::type());
  }

  F function;
};

/// repeat(): passes the number of the iteration.
template <class F>
struct counted {
  template <class G>
  counted(std::size_t n, G&& g) : count(n), function(std::forward<G>(g)) {}

  bool next(flow& f) noexcept {
    if (count == 0) clear_results(f);
    return done != count;
  }
  template <class Face>
  void call(flow& f, Face& asi) {
    const std::size_t i = done++;
    if constexpr (!std::is_invocable_v<F&, Face&, std::size_t> && std::is_invocable_v<F&, Face&>) {
      call_function<Face>(f, asi, function, type_list<>());
    } else {
      call_function<Face>(f, asi, function, typename wanted_results<F, std::size_t>::type(), index_for<F>(i));
    }
  }

  std::size_t count;
  std::size_t done = 0;
  F function;
};

template <class C>
concept map_like = requires { typename C::mapped_type; };

/// The arguments that a forEach() body gets in front of the results.
template <class C>
struct element_arguments {
  using iterator = decltype(std::begin(std::declval<C&>()));
  using first = std::size_t;
  using second = decltype(*std::declval<iterator&>());
};
template <map_like C>
struct element_arguments<C> {
  using iterator = decltype(std::begin(std::declval<C&>()));
  using first = decltype((std::declval<iterator&>()->first));
  using second = decltype((std::declval<iterator&>()->second));
};

/// forEach(): over a container that the step owns or borrows. Iteration starts when the loop does, so steps before it
/// may fill the container.
template <class C, class F>
struct each {
  using container = std::remove_reference_t<std::unwrap_reference_t<C>>;
  using arguments = element_arguments<container>;

  template <class D, class G>
  each(D&& d, G&& g) : elements(std::forward<D>(d)), function(std::forward<G>(g)) {}

  container& all() noexcept { return elements; }

  /// Numbered elements are looked up by index, so that the body may append to a borrowed vector.
  static constexpr bool numbered = !map_like<container> && requires(container& c, std::size_t i) {
    c.size();
    c[i];
  };

  /// Views number their elements by a signed type.
  static constexpr auto to_index(std::size_t i) noexcept {
    using traits = std::iterator_traits<typename arguments::iterator>;
    if constexpr (requires { typename container::size_type; } || !requires { typename traits::difference_type; }) {
      return i;
    } else {
      return static_cast<typename traits::difference_type>(i);
    }
  }

  bool next(flow& f) {
    if constexpr (numbered) {
      if (index == 0 && all().size() == 0) clear_results(f);
      return index < all().size();
    } else if (!at.has_value()) {
      at.emplace(std::begin(all()));
      if (*at == std::end(all())) clear_results(f);
    } else {
      ++*at;
    }
    if constexpr (!numbered) return *at != std::end(all());
  }
  template <class Face>
  void call(flow& f, Face& asi) {
    using wanted = typename wanted_results<F, typename arguments::first, typename arguments::second>::type;
    if constexpr (map_like<container>) {
      call_function<Face>(f, asi, function, wanted(), (*at)->first, (*at)->second);
    } else if constexpr (numbered) {
      const std::size_t i = index++;
      call_function<Face>(f, asi, function, wanted(), index_for<F>(i), all()[to_index(i)]);
    } else {
      call_function<Face>(f, asi, function, wanted(), index_for<F>(index++), **at);
    }
  }

  C elements;
  std::optional<typename arguments::iterator> at;
  std::size_t index = 0;
  F function;
};

/// Adds a loop with a label.
template <class Step, class... A>
void append_labelled(step& parent, std::uint16_t flags, LoopLabel label, A&&... args) {
  append_step<Step>(parent, flags | record_flag::is_step, kept_label::source{*parent.flow_, label.view()},
                    std::forward<A>(args)...);
}

/// The loop that a break or continue at `s` is for; null: there is none. A loop around a parallel() is found from its
/// branches, too.
template <class Face>
step* find_loop(step* s, LoopLabel label) noexcept {
  for (; s != nullptr; s = s->parent_) {
    if ((s->flags_ & record_flag::is_loop) == 0) continue;
    if (label.view().empty()) return s;
    const auto& head = static_cast<const loop_head<Face>&>(*s);
    if (head.label_of(head) == label.view()) return s;
  }
  return nullptr;
}

}  // namespace detail
}  // namespace steps::inline v0_1
