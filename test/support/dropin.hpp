// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <doctest/doctest.h>

#include <exception>    // for exception
#include <future>       // for async, future, launch
#include <string>       // for string, to_string
#include <type_traits>  // for is_same_v

#include "async/async.hpp"          // for async
#include "support/async_calls.hpp"  // for explicit_number, colour

/// Shared by tests that make calls of std::async with async::async as well. Each call is compiled in half a dozen
/// ways: what need not know its types is not a template.
namespace dropin {

inline std::string text(const std::string& value) { return value; }
inline std::string text(const calls::explicit_number& value) { return std::to_string(value.value); }
inline std::string text(calls::colour value) { return std::to_string(static_cast<int>(value)); }
inline std::string text(const std::unique_ptr<int>& value) { return "-> " + std::to_string(*value); }
inline std::string text(const std::optional<int>& value) { return "maybe " + std::to_string(value.value()); }
inline std::string text(const std::vector<int>& value) { return std::to_string(value.size()) + " numbers"; }
inline std::string text(const std::pair<int, std::string>& value) { return std::to_string(value.first) + value.second; }
inline std::string text(std::future<int> value) { return "later " + std::to_string(value.get()); }
template <class T>
  requires std::is_arithmetic_v<T>
std::string text(T value) {
  return std::to_string(value);
}

/// The outcome of a call: its result, or its exception.
template <class T>
std::string outcome(std::future<T> future) {
  try {
    if constexpr (std::is_void_v<T>) {
      future.get();
      return "nothing";
    } else {
      return text(future.get());
    }
  } catch (const std::exception& e) {
    return std::string("throws ") + e.what();
  } catch (int e) {
    return "throws the number " + std::to_string(e);
  }
}

/// Calls that change what they share start from the same values.
template <class Call>
std::string from_the_start(Call call) {
  calls::shared_number = 0;
  calls::shared_object.value = 20;
  return outcome(call());
}

/// One call, three ways, each from the start to its outcome.
struct call {
  const char* name;
  std::string (*with_std)();
  std::string (*plain)();
  std::string (*with_policy)(std::launch policy);
};

template <class Std, class Plain, class WithPolicy>
call make(const char* name, Std, Plain, WithPolicy) {
  using result = decltype(Std()());
  static_assert(std::is_same_v<result, decltype(Plain()())>);
  static_assert(std::is_same_v<result, decltype(WithPolicy()(std::launch::async))>);
  return {name, [] { return from_the_start(Std()); }, [] { return from_the_start(Plain()); },
          [](std::launch policy) { return from_the_start([policy] { return WithPolicy()(policy); }); }};
}

#define DROPIN_CALL(name, ...)                                                                \
  dropin::make(                                                                               \
      name, [] { return std::async(__VA_ARGS__); }, [] { return async::async(__VA_ARGS__); }, \
      [](std::launch policy) { return async::async(policy, __VA_ARGS__); }),

inline void compare(const call& each) {
  CAPTURE(each.name);
  const std::string expected = each.with_std();
  CHECK(each.plain() == expected);
  for (const std::launch policy :
       {std::launch::async, std::launch::deferred, std::launch::async | std::launch::deferred}) {
    CAPTURE(static_cast<int>(policy));
    CHECK(each.with_policy(policy) == expected);
  }
  CHECK(async::async(each.plain).get() == expected);  // a call made by a task of the pool
}

}  // namespace dropin
