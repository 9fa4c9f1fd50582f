// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <memory>       // for addressof
#include <optional>     // for optional
#include <tuple>        // for apply, get, tuple
#include <type_traits>  // for conditional_t, decay_t, is_array_v, is_rvalue_reference_v, is_same_v, is_trivially_copyable_v, is_void_v, remove_cvref_t
#include <utility>      // for forward

#include "async/detail/select/select_case.hpp"  // for push_case

/// The items of on_push() cases that a step of select() keeps. Where two cases move the same object, as in
/// `on_push(a, std::move(x)), on_push(b, std::move(x))`, it keeps one item for both: the case that takes effect moves
/// it into its queue.
namespace steps::inline v0_1::detail {

/// The item of a case that is one of on_push().
template <class Case>
struct item_of {
  using type = void;
  static constexpr bool is_moved = false;
  using owner = typename Case::kept;
};
template <class Queue, class Item, class F, class Closed>
struct item_of<async::detail::push_case<Queue, Item, F, Closed>> {
  using type = std::remove_cvref_t<Item>;
  static constexpr bool is_moved =
      std::is_rvalue_reference_v<Item> && !std::is_trivially_copyable_v<type> && !std::is_array_v<type>;
  using owner = async::detail::push_case<Queue, std::decay_t<Item>, F, Closed>;
  using sharer = async::detail::push_case<Queue, type&&, F, Closed>;
};

template <class Case, class Other>
inline constexpr bool are_alike = !std::is_void_v<typename item_of<Case>::type> &&
                                  std::is_same_v<typename item_of<Other>::type, typename item_of<Case>::type>;

/// How a step keeps a case that stands among `All`.
template <class Case, class... All>
struct kept_among {
  using type = typename item_of<Case>::owner;
};
template <class Case, class... All>
  requires((std::size_t{are_alike<Case, All>} + ...) > 1 && ((are_alike<Case, All> && item_of<All>::is_moved) || ...))
struct kept_among<Case, All...> {
  using type = typename item_of<Case>::sharer;
};

struct no_item {};
/// The item of a case that may share it.
template <class T>
struct shared_item {
  const void* made_of = nullptr;  // null: there is none
  std::optional<T> value;
};
template <class Kept>
struct place_of_item {
  using type = no_item;
};
template <class Queue, class T, class F, class Closed>
struct place_of_item<async::detail::push_case<Queue, T&&, F, Closed>> {
  using type = shared_item<T>;
};

/// The item that case number Index is to refer to: its own, or that of another case with the same object.
template <std::size_t Index, class T, class Items, class From>
T& keep_item(Items& items, From&& object) {
  const void* const made_of = std::addressof(object);
  T* found = nullptr;
  const auto look = [made_of, &found](auto& each) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(each)>, shared_item<T>>) {
      if (each.made_of == made_of) found = std::addressof(*each.value);
    }
  };
  std::apply([&look](auto&... each) { (look(each), ...); }, items);
  if (found != nullptr) return *found;
  auto& own = std::get<Index>(items);
  own.value.emplace(std::forward<From>(object));
  own.made_of = made_of;
  return *own.value;
}

/// The items of cases; empty if none is shared, which a tuple need not be.
template <class... Kept>
using items_of = std::conditional_t<(std::is_same_v<typename place_of_item<Kept>::type, no_item> && ...), no_item,
                                    std::tuple<typename place_of_item<Kept>::type...>>;

/// What the kept case number Index is made of.
template <std::size_t Index, class Kept, class Items, class Case>
decltype(auto) keep_case([[maybe_unused]] Items& items, Case&& c) {
  if constexpr (std::is_same_v<typename place_of_item<Kept>::type, no_item>) {
    return std::forward<Case>(c);
  } else {
    using T = typename item_of<Kept>::type;
    return Kept(std::forward<Case>(c), keep_item<Index, T>(items, c.item()));
  }
}

}  // namespace steps::inline v0_1::detail
