// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <array>        // for array
#include <cstddef>      // for byte, size_t
#include <cstdint>      // for uint32_t
#include <memory>       // for destroy_at
#include <string>       // for basic_string
#include <string_view>  // for string_view
#include <tuple>        // for tuple
#include <type_traits>  // for decay_t
#include <typeinfo>     // for type_info
#include <utility>      // for index_sequence

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_SHARED

/// Results between success() and the parameters of the next step: values one behind the other in raw memory, described
/// by one static table for each list of types.
namespace steps::inline v0_1::detail {

/// The identity of a type at run time: the tag's address and, between shared libraries, the type_info. `info` is null
/// in code built without RTTI. The layout is the same with and without, since one program may contain both.
struct type_tag {
  std::string_view name;
  const std::type_info* info;
};

template <class T>
constexpr std::string_view type_name() noexcept {
#if defined(_MSC_VER) && !defined(__clang__)
  std::string_view text = __FUNCSIG__;  // "… type_name<int>(void) noexcept"
  text.remove_prefix(text.find("type_name<") + 10);
  return text.substr(0, text.rfind(">(void)"));
#else
  std::string_view text = __PRETTY_FUNCTION__;  // "… [with T = int; …]" or "… [T = int]"
  text.remove_prefix(text.find("T = ") + 4);
  const std::size_t end = text.find("; std::string_view");
  return text.substr(0, end == std::string_view::npos ? text.size() - 1 : end);
#endif
}

template <class T>
ASYNCSTEPS_SHARED inline constexpr type_tag type_tag_of{type_name<T>(),
#if defined(__cpp_rtti)
                                                        &typeid(T)
#else
                                                        nullptr
#endif
};

inline bool same_type(const type_tag* a, const type_tag* b) noexcept {
  return a == b || (a->info != nullptr && b->info != nullptr && *a->info == *b->info);
}

/// The type that a result is stored as: its value; for a pointer to characters a string that owns the text.
template <class T>
struct stored {
  using type = T;
};
template <class T>
  requires(std::is_same_v<std::remove_const_t<T>, char> || std::is_same_v<std::remove_const_t<T>, wchar_t> ||
           std::is_same_v<std::remove_const_t<T>, char16_t> || std::is_same_v<std::remove_const_t<T>, char32_t>)
struct stored<T*> {
  using type = std::basic_string<std::remove_const_t<T>>;
};
#if defined(__cpp_char8_t)
template <class T>
  requires std::is_same_v<std::remove_const_t<T>, char8_t>
struct stored<T*> {
  using type = std::basic_string<char8_t>;
};
#endif
template <class T>
using stored_t = typename stored<std::decay_t<T>>::type;

struct flow;

/// Describes a list of values. A shorter list that begins with the same types has the same offsets.
struct pack_tag {
  std::uint32_t count;
  std::uint32_t size;
  std::uint32_t align;
  const type_tag* const* types;
  const std::uint32_t* offsets;
  void (*destroy)(void* values) noexcept;  // null: trivial
  void (*move)(void* to, void* from);      // null: copy the bytes
  /// Results whose types are only known at run time: makes them those of `wanted`, or returns false. Null: cannot.
  bool (*convert)(flow& f, const pack_tag& wanted);

  bool is_boxed() const noexcept;  // too large for the slot inside the flow
};

inline constexpr std::size_t slot_size = 24;
inline constexpr std::size_t slot_align = 8;

constexpr bool needs_box(std::size_t size, std::size_t align) noexcept {
  return size > slot_size || align > slot_align;
}
inline bool pack_tag::is_boxed() const noexcept { return needs_box(size, align); }

/// The conversion of a result whose type has one.
template <class... T>
inline constexpr bool (*conversion_of)(flow& f, const pack_tag& wanted) = nullptr;
template <class T>
  requires requires { &T::convert_results; }
inline constexpr bool (*conversion_of<T>)(flow& f, const pack_tag& wanted) = &T::convert_results;

/// The layout of a list of stored types.
template <class... T>
struct pack {
  static constexpr std::size_t count = sizeof...(T);
  static constexpr std::size_t align = [] {
    std::size_t most = 1;
    ((most = alignof(T) > most ? alignof(T) : most), ...);
    return most;
  }();
  static constexpr std::array<std::uint32_t, count + 1> offsets = [] {
    std::array<std::uint32_t, count + 1> result{};
    std::size_t at = 0;
    std::size_t i = 0;
    ((at = (at + alignof(T) - 1) / alignof(T) * alignof(T), result[i++] = static_cast<std::uint32_t>(at),
      at += sizeof(T)),
     ...);
    result[count] = static_cast<std::uint32_t>(at);
    return result;
  }();
  static constexpr std::size_t size = offsets[count];
  static constexpr bool boxed = needs_box(size, align);
  static constexpr std::array<const type_tag*, count> types{&type_tag_of<T>...};

  template <std::size_t Index>
  using element = std::tuple_element_t<Index, std::tuple<T...>>;
  template <std::size_t Index>
  static element<Index>* at(void* values) noexcept {
    return reinterpret_cast<element<Index>*>(static_cast<std::byte*>(values) + offsets[Index]);
  }

  static void destroy(void* values) noexcept {
    [values]<std::size_t... Index>(std::index_sequence<Index...>) {
      (std::destroy_at(at<Index>(values)), ...);
    }(std::index_sequence_for<T...>());
  }

  /// Constructs the values at `memory`. On an exception it holds none.
  template <class... Args>
  static void construct(void* memory, Args&&... args) {
    std::size_t done = 0;
    try {
      [&]<std::size_t... Index>(std::index_sequence<Index...>) {
        ((::new (static_cast<void*>(at<Index>(memory))) element<Index>(std::forward<Args>(args)), ++done), ...);
      }(std::index_sequence_for<T...>());
    } catch (...) {
      [&]<std::size_t... Index>(std::index_sequence<Index...>) {
        ((Index < done ? std::destroy_at(at<Index>(memory)) : void()), ...);
      }(std::index_sequence_for<T...>());
      throw;
    }
  }

  static constexpr bool is_copied = (std::is_trivially_copyable_v<T> && ...);  // its tag has no move

  /// Moves the values out, into a tuple on the caller's stack.
  static std::tuple<T...> move_out(void* values) {
    return [values]<std::size_t... Index>(std::index_sequence<Index...>) {
      return std::tuple<T...>(std::move(*at<Index>(values))...);
    }(std::index_sequence_for<T...>());
  }

  /// The same from the values at `from`, which are still to be destroyed.
  static void move(void* memory, void* from) {
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      construct(memory, std::move(*at<Index>(from))...);
    }(std::index_sequence_for<T...>());
  }

  ASYNCSTEPS_SHARED static constexpr pack_tag tag{static_cast<std::uint32_t>(count),
                                                  static_cast<std::uint32_t>(size),
                                                  static_cast<std::uint32_t>(align),
                                                  types.data(),
                                                  offsets.data(),
                                                  (std::is_trivially_destructible_v<T> && ...) ? nullptr : &destroy,
                                                  (std::is_trivially_copyable_v<T> && ...) ? nullptr : &move,
                                                  conversion_of<T...>};
};

/// True when values described by `given` begin with those of `wanted`.
inline bool begins_with(const pack_tag& given, const pack_tag& wanted) noexcept {
  if (given.count < wanted.count) return false;
  for (std::uint32_t i = 0; i < wanted.count; ++i) {
    if (!same_type(given.types[i], wanted.types[i])) return false;
  }
  return true;
}

}  // namespace steps::inline v0_1::detail
