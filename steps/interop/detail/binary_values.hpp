// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <array>        // for array
#include <cstddef>      // for byte, size_t
#include <cstdint>      // for uint32_t
#include <cstring>      // for memcpy
#include <limits>       // for numeric_limits
#include <memory>       // for destroy_at
#include <new>          // for placement new
#include <optional>     // for optional
#include <string>       // for string, u16string, u32string, char_traits
#include <type_traits>  // for is_floating_point_v, is_signed_v
#include <utility>      // for exchange, move
#include <vector>       // for vector

#include "async/detail/base/block_cache.hpp"    // for allocate_block, free_block
#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_SHARED
#include "steps/detail/engine/step_record.hpp"  // for passed_results
#include "steps/errors.hpp"                     // for Error
#include "steps/interop/binary.h"               // for FutoInBinaryValue, FutoInArgs

/// Results of steps between C++, where a type is a template argument, and C, where it is a flag (FTN12 2.7.1).
namespace steps::inline v0_1::interop {

/// The owner of a value in C's form, for results without a C++ type of their own: a custom object with its cleanup.
///
///   asi.add([](IAsyncSteps& inner, binary_value handle) { use(handle.get().p); });
///
/// Use it as the parameter of a step behind a step in C, and for what success() passes to a step in C. Do not use it
/// for numbers, strings and vectors of numbers: these are converted.
///
/// Threads     as a plain object.            Exceptions  none.
class binary_value {
 public:
  /// No value.
  binary_value() noexcept : value_{} {}
  /// Takes over what the value owns.
  explicit binary_value(const FutoInBinaryValue& value) noexcept : value_(value) {}
  binary_value(binary_value&& other) noexcept : value_(other.release()) {}
  binary_value& operator=(binary_value&& other) noexcept {
    if (this != &other) {
      futoin_reset_binval(&value_);
      value_ = other.release();
    }
    return *this;
  }
  ~binary_value() { futoin_reset_binval(&value_); }

  /// The value; its type is null if there is none.
  const FutoInBinaryValue& get() const noexcept { return value_; }
  /// Gives the value up: the caller frees what it owns.
  FutoInBinaryValue release() noexcept { return std::exchange(value_, FutoInBinaryValue{}); }

 private:
  FutoInBinaryValue value_;
};

namespace detail {

inline constexpr std::uint32_t most_args = 4;

constexpr bool is_text(FutoInTypeFlags flags) noexcept {
  return flags >= FTN_TYPE_STRING && flags <= FTN_TYPE_STRING32;
}
constexpr bool is_number(FutoInTypeFlags flags) noexcept { return flags >= FTN_TYPE_BOOL && flags <= FTN_TYPE_DOUBLE; }
constexpr bool is_array(FutoInTypeFlags flags) noexcept {
  return (flags & FTN_COMPLEX_TYPE_MASK) == FTN_TYPE_ARRAY &&
         is_number(static_cast<FutoInTypeFlags>(flags & FTN_BASE_TYPE_MASK));
}
constexpr std::size_t element_size(FutoInTypeFlags flags) noexcept {
  constexpr std::array<std::uint8_t, 16> sizes{0, 0, 1, 2, 4, sizeof(bool), 1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
  return sizes[flags & FTN_BASE_TYPE_MASK];
}

/// The types of values that own nothing, and of those that own a block of operator new, by flags.
inline void free_copy(FutoInBinaryValue* v) noexcept { ::operator delete(v->custom_data); }
inline const FutoInType* type_of(FutoInTypeFlags flags, bool owns) noexcept {
  static constexpr auto make = []<std::size_t... Index>(std::index_sequence<Index...>,
                                                        void (*cleanup)(FutoInBinaryValue*)) {
    return std::array<FutoInType, sizeof...(Index)>{FutoInType{static_cast<FutoInTypeFlags>(Index), cleanup}...};
  };
  static constexpr std::array<FutoInType, 32> lent = make(std::make_index_sequence<32>(), nullptr);
  static constexpr std::array<FutoInType, 32> owned = make(std::make_index_sequence<32>(), &free_copy);
  return owns ? &owned[flags] : &lent[flags];
}

/// The type of an object of C++ that has none in C, lent with its address for the time of a call.
ASYNCSTEPS_SHARED inline constexpr FutoInType lent_object{FTN_TYPE_CUSTOM_OBJECT, nullptr};

/// The number of characters of a text.
template <class C>
std::uint32_t length_of(const C* text, std::uint32_t given) {
  if (given != 0 || text == nullptr) return given;
  const std::size_t length = std::char_traits<C>::length(text);
  if (length > (std::numeric_limits<std::uint32_t>::max)()) throw std::bad_alloc();
  return static_cast<std::uint32_t>(length);
}
inline std::uint32_t length_of(const FutoInBinaryValue& v) {
  switch (v.type->flags) {
    case FTN_TYPE_STRING:
      return length_of(v.cstr, v.length);
    case FTN_TYPE_STRING16:
      return length_of(v.cstr16, v.length);
    case FTN_TYPE_STRING32:
      return length_of(v.cstr32, v.length);
    default:
      return v.length;
  }
}

/// A value that does not change what `v` owns and is valid without it, unless it is a custom object.
inline FutoInBinaryValue copy_of(const FutoInBinaryValue& v) {
  const FutoInTypeFlags flags = v.type->flags;
  FutoInBinaryValue copy = v;
  copy.custom_data = nullptr;
  if (is_number(flags)) {
    copy.type = type_of(flags, false);
  } else if (is_text(flags) || is_array(flags)) {
    copy.length = length_of(v);
    const std::size_t bytes = std::size_t{copy.length} * element_size(flags);
    auto* const memory = static_cast<std::byte*>(::operator new(bytes + sizeof(char32_t)));
    if (bytes != 0) std::memcpy(memory, v.p, bytes);
    std::memset(memory + bytes, 0, sizeof(char32_t));
    copy.p = copy.custom_data = memory;
    copy.type = type_of(flags, true);
  } else {
    copy.custom_data = v.custom_data;
  }
  return copy;
}

/// Results as a step in C has passed them to success(): one result of the flow, which becomes those that the next step
/// asks for.
class binary_results {
 public:
  binary_results() noexcept = default;
  /// Takes the values over; `args` is empty afterwards, also on an exception. `lent`: the results that the caller has
  /// got from its flow, whose custom objects may be among the values.
  explicit binary_results(FutoInArgs& args, binary_results* lent = nullptr) : binary_results() {
    struct rest {
      FutoInArgs& args;
      ~rest() {
        for (FutoInBinaryValue& v : args.args) futoin_reset_binval(&v);
      }
    } const left{args};
    if (lent != nullptr && lent->values_ != nullptr) lent->disown_all_in(args);
    reserve();
    for (std::uint32_t i = 0; i != most_args && args.args[i].type != nullptr; ++i) take(args.args[i]);
  }
  binary_results(binary_results&& other) noexcept : values_(std::exchange(other.values_, nullptr)) {}
  binary_results& operator=(binary_results&&) = delete;
  ~binary_results() {
    if (values_ == nullptr) return;
    for (FutoInBinaryValue& v : values_->args) futoin_reset_binval(&v);
    async::detail::free_block(values_, sizeof(FutoInArgs), alignof(FutoInArgs));
  }

  /// The results of a step in C++, valid without it. Throws Error when C has no type for one of them.
  static binary_results of(const steps::detail::passed_results& results);

  bool empty() const noexcept { return values_ == nullptr; }
  std::uint32_t count() const noexcept {
    std::uint32_t n = 0;
    while (values_ != nullptr && n != most_args && values_->args[n].type != nullptr) ++n;
    return n;
  }
  FutoInBinaryValue& at(std::uint32_t i) const noexcept { return values_->args[i]; }
  void add(const FutoInBinaryValue& v) {
    reserve();
    values_->args[count()] = v;
  }
  /// add() does not throw afterwards.
  void reserve() {
    if (values_ != nullptr) return;
    values_ = ::new (async::detail::allocate_block(sizeof(FutoInArgs), alignof(FutoInArgs))) FutoInArgs{};
  }
  /// Whether `v`, with its cleanup, is among the values.
  bool owns(const FutoInBinaryValue& v) const noexcept {
    if (values_ == nullptr) return false;
    for (const FutoInBinaryValue& own : values_->args) {
      if (are_same(own, v)) return true;
    }
    return false;
  }
  /// The values as a step in C gets them: those that were copied have no cleanup for it to call.
  FutoInArgs lend() const noexcept {
    FutoInArgs args{};
    for (std::uint32_t i = 0; i != count(); ++i) {
      args.args[i] = at(i);
      const FutoInTypeFlags flags = at(i).type->flags;
      if (is_number(flags) || is_text(flags) || is_array(flags)) args.args[i].type = type_of(flags, false);
    }
    return args;
  }
  /// Gives the values up.
  FutoInArgs release() noexcept { return values_ != nullptr ? std::exchange(*values_, FutoInArgs{}) : FutoInArgs{}; }

  static bool convert_results(steps::detail::flow& f, const steps::detail::pack_tag& wanted);

 private:
  static bool are_same(const FutoInBinaryValue& own, const FutoInBinaryValue& v) noexcept {
    return own.type != nullptr && own.type->cleanup != nullptr && own.type == v.type && own.p == v.p &&
           own.custom_data == v.custom_data;
  }
  void take(FutoInBinaryValue& v) {
    if (v.type == &lent_object) {
      throw Error(errors::InternalError, "an object of C++ is lent until the function returns: pass a binary_value");
    }
    const bool keeps =
        v.type->cleanup != nullptr || !(is_number(v.type->flags) || is_text(v.type->flags) || is_array(v.type->flags));
    const FutoInBinaryValue taken = keeps ? v : copy_of(v);
    add(taken);
    v = FutoInBinaryValue{};
  }
  /// What is among `args` has one owner: not these results.
  void disown_all_in(const FutoInArgs& args) noexcept {
    for (FutoInBinaryValue& own : values_->args) {
      for (const FutoInBinaryValue& v : args.args) {
        if (are_same(own, v)) own = FutoInBinaryValue{};
      }
    }
  }

  FutoInArgs* values_ = nullptr;
};

/// A C++ type that values in C's form are converted from and to.
struct known_type {
  const steps::detail::type_tag* tag;
  FutoInTypeFlags flags;                                // 0: binary_value
  FutoInBinaryValue (*lend)(void* object);              // valid as long as the object
  void (*make)(void* memory, FutoInBinaryValue& from);  // takes it over or copies it
  void (*destroy)(void* object) noexcept;
};

template <class T>
struct number_type {
  static constexpr FutoInTypeFlags flags = [] {
    if constexpr (std::is_same_v<T, bool>) {
      return FTN_TYPE_BOOL;
    } else if constexpr (std::is_floating_point_v<T>) {
      return sizeof(T) == 4 ? FTN_TYPE_FLOAT : FTN_TYPE_DOUBLE;
    } else {
      constexpr int power = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
      return static_cast<FutoInTypeFlags>((std::is_signed_v<T> ? FTN_TYPE_INT8 : FTN_TYPE_UINT8) + power);
    }
  }();
  static FutoInBinaryValue lend(void* object) {
    FutoInBinaryValue v{};
    v.type = type_of(flags, false);
    std::memcpy(&v.u64, object, sizeof(T));
    return v;
  }
  static void make(void* memory, FutoInBinaryValue& from) { std::memcpy(memory, &from.u64, sizeof(T)); }
};
template <class List, FutoInTypeFlags Flags>
struct list_type {
  using element = typename List::value_type;
  static constexpr FutoInTypeFlags flags = Flags;
  static FutoInBinaryValue lend(void* object) {
    auto& list = *static_cast<List*>(object);
    if (list.size() > (std::numeric_limits<std::uint32_t>::max)()) {
      throw Error(errors::InternalError, "a result is too long for a step in C");
    }
    FutoInBinaryValue v{};
    v.type = type_of(flags, false);
    v.p = list.data();
    v.length = static_cast<std::uint32_t>(list.size());
    return v;
  }
  static void make(void* memory, FutoInBinaryValue& from) {
    const auto* const first = static_cast<const element*>(from.p);
    ::new (memory) List(first, first + length_of(from));
  }
};
struct value_type {
  static constexpr FutoInTypeFlags flags = 0;
  static FutoInBinaryValue lend(void* object) { return static_cast<binary_value*>(object)->get(); }
  static void make(void* memory, FutoInBinaryValue& from) {
    ::new (memory) binary_value(std::exchange(from, FutoInBinaryValue{}));
  }
};

template <class T, class How>
constexpr known_type known_as() {
  return {&steps::detail::type_tag_of<T>, How::flags, &How::lend, &How::make,
          [](void* object) noexcept { std::destroy_at(static_cast<T*>(object)); }};
}
template <class... N>
struct number_types {
  static constexpr std::array<known_type, 2 * sizeof...(N)> table{
      known_as<N, number_type<N>>()...,
      known_as<std::vector<N>, list_type<std::vector<N>, FTN_TYPE_ARRAY | number_type<N>::flags>>()...};
};

/// Null: C has no type for it.
inline const known_type* known(const steps::detail::type_tag* tag) noexcept {
  using numbers = number_types<char, signed char, unsigned char, short, unsigned short, int, unsigned, long,
                               unsigned long, long long, unsigned long long, float, double>;
  static constexpr std::array<known_type, 5> others{
      known_as<bool, number_type<bool>>(), known_as<std::string, list_type<std::string, FTN_TYPE_STRING>>(),
      known_as<std::u16string, list_type<std::u16string, FTN_TYPE_STRING16>>(),
      known_as<std::u32string, list_type<std::u32string, FTN_TYPE_STRING32>>(), known_as<binary_value, value_type>()};
  for (const known_type& k : numbers::table) {
    if (k.tag == tag) return &k;
  }
  for (const known_type& k : others) {
    if (k.tag == tag) return &k;
  }
  for (const known_type& k : numbers::table) {
    if (same_type(k.tag, tag)) return &k;
  }
  for (const known_type& k : others) {
    if (same_type(k.tag, tag)) return &k;
  }
  return nullptr;
}

inline binary_results binary_results::of(const steps::detail::passed_results& results) {
  binary_results made;
  const steps::detail::pack_tag* const tag = results.tag();
  for (std::uint32_t i = 0; tag != nullptr && i != tag->count; ++i) {
    if (same_type(tag->types[i], &steps::detail::type_tag_of<binary_results>)) {
      return std::move(*static_cast<binary_results*>(results.at(i)));
    }
    const known_type* const k = known(tag->types[i]);
    if (k == nullptr || i == most_args) {
      throw Error(errors::InternalError, k == nullptr ? "a result has a type that C has not: pass a binary_value"
                                                      : "more than four results for a step in C");
    }
    if (k->flags == 0) {
      made.reserve();
      made.add(static_cast<binary_value*>(results.at(i))->release());
    } else {
      made.add(copy_of(k->lend(results.at(i))));
    }
  }
  return made;
}

/// The results of the step before, for the call of a step in C.
class lent_results {
 public:
  explicit lent_results(const steps::detail::passed_results& results) : args_{} {
    const steps::detail::pack_tag* const tag = results.tag();
    for (std::uint32_t i = 0; tag != nullptr && i != tag->count; ++i) {
      if (same_type(tag->types[i], &steps::detail::type_tag_of<binary_results>)) {
        owned_.emplace(std::move(*static_cast<binary_results*>(results.at(i))));
        args_ = owned_->lend();
        return;
      }
      if (i == most_args) throw Error(errors::InternalError, "more than four results for a step in C");
      const known_type* const k = known(tag->types[i]);
      FutoInBinaryValue& v = args_.args[i];
      if (k == nullptr) {
        v.type = &lent_object;
        v.p = results.at(i);
      } else if (k->flags == 0) {
        if (!owned_) owned_.emplace();
        owned_->reserve();
        v = static_cast<binary_value*>(results.at(i))->release();
        owned_->add(v);
      } else {
        v = k->lend(results.at(i));
      }
    }
  }

  const FutoInArgs& args() const noexcept { return args_; }
  binary_results* owned() noexcept { return owned_ ? &*owned_ : nullptr; }

 private:
  FutoInArgs args_;
  std::optional<binary_results> owned_;
};

inline bool binary_results::convert_results(steps::detail::flow& f, const steps::detail::pack_tag& wanted) {
  auto& present = *static_cast<binary_results*>(steps::detail::results_of(f));
  if (wanted.count > present.count()) return false;
  std::array<const known_type*, most_args> types{};
  for (std::uint32_t i = 0; i != wanted.count; ++i) {
    types[i] = known(wanted.types[i]);
    if (types[i] == nullptr) return false;
    if (types[i]->flags != 0 && types[i]->flags != present.at(i).type->flags) return false;
  }
  const binary_results taken(std::move(present));
  steps::detail::clear_results(f);
  void* const memory =
      wanted.is_boxed() ? steps::detail::allocate_box(f, wanted.size, wanted.align) : static_cast<void*>(f.slot);
  std::uint32_t made = 0;
  try {
    for (; made != wanted.count; ++made) {
      types[made]->make(static_cast<std::byte*>(memory) + wanted.offsets[made], taken.at(made));
    }
  } catch (...) {
    while (made-- != 0) types[made]->destroy(static_cast<std::byte*>(memory) + wanted.offsets[made]);
    if (wanted.is_boxed()) steps::detail::free_box(f, memory, wanted.size, wanted.align);
    throw;
  }
  if (wanted.is_boxed()) ::new (static_cast<void*>(f.slot)) void*(memory);
  f.tag = &wanted;
  return true;
}

}  // namespace detail
}  // namespace steps::inline v0_1::interop
