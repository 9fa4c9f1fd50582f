// SPDX-License-Identifier: BSL-1.0
//
// async::async in the place of std::async: a list of calls (support/async_calls.hpp), each compiled and run both ways.
#include <doctest/doctest.h>

#include <exception>
#include <functional>
#include <future>
#include <string>
#include <type_traits>

#include "async/async.hpp"
#include "support/async_calls.hpp"

namespace {

std::string text(const std::string& value) { return value; }
std::string text(const calls::explicit_number& value) { return std::to_string(value.value); }
std::string text(calls::colour value) { return std::to_string(static_cast<int>(value)); }
std::string text(const std::unique_ptr<int>& value) { return "-> " + std::to_string(*value); }
std::string text(const std::optional<int>& value) { return "maybe " + std::to_string(value.value()); }
std::string text(const std::vector<int>& value) { return std::to_string(value.size()) + " numbers"; }
std::string text(const std::pair<int, std::string>& value) { return std::to_string(value.first) + value.second; }
std::string text(std::future<int> value) { return "later " + std::to_string(value.get()); }
template <class T>
  requires std::is_arithmetic_v<T>
std::string text(T value) {
  return std::to_string(value);
}

/// What a call comes to: its result, or what it throws.
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

template <class Std, class Plain, class WithPolicy>
[[gnu::noinline]] void compare(Std with_std, Plain plain, WithPolicy with_policy) {
  static_assert(std::is_same_v<decltype(with_std()), decltype(plain())>);
  static_assert(std::is_same_v<decltype(with_std()), decltype(with_policy(std::launch::async))>);
  const std::string expected = from_the_start(with_std);
  CHECK(from_the_start(plain) == expected);
  const std::launch either = std::launch::async | std::launch::deferred;
  for (const std::launch policy : {std::launch::async, std::launch::deferred, either}) {
    CAPTURE(static_cast<int>(policy));
    CHECK(from_the_start([&] { return with_policy(policy); }) == expected);
  }
  const std::function<std::string()> inside = [&] { return from_the_start(plain); };
  CHECK(async::async(inside).get() == expected);  // a call made by a task of the pool
}

}  // namespace

namespace {

struct call {
  const char* name;
  void (*check)();
};

#define CALL(name, ...)                                                                        \
  {name, [] {                                                                                  \
     compare([] { return std::async(__VA_ARGS__); }, [] { return async::async(__VA_ARGS__); }, \
             [](std::launch policy) { return async::async(policy, __VA_ARGS__); });            \
   }},
const call list[] = {ASYNC_CALLS(CALL)};

}  // namespace

TEST_CASE("each call has the type and the outcome that it has with std::async") {
  for (const call& each : list) {
    CAPTURE(each.name);
    each.check();
  }
}

TEST_CASE("the template arguments can be given as to std::async") {
  CHECK(std::async<int (*)(int), int>(&calls::twice, 21).get() == 42);
  CHECK(async::async<int (*)(int), int>(&calls::twice, 21).get() == 42);
}

namespace unqualified {

using async::async;  // hides nothing; std::async is found as well, through the arguments from namespace std

TEST_CASE("an unqualified call with arguments of namespace std means async::async, once it is named") {
  CHECK(async([](const std::string&) { return async::threadpool::current() != nullptr; }, std::string("x")).get());
  CHECK(async(std::launch::async, [] { return async::threadpool::current() != nullptr; }).get());
}

}  // namespace unqualified
