// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <array>        // for array
#include <cstddef>      // for nullptr_t, size_t
#include <cstdint>      // for uintptr_t
#include <functional>   // for function, bind, ref
#include <future>       // for future, packaged_task
#include <memory>       // for unique_ptr
#include <numeric>      // for accumulate
#include <optional>     // for optional
#include <stdexcept>    // for runtime_error
#include <string>       // for string
#include <string_view>  // for string_view
#include <thread>       // for yield
#include <tuple>        // for tuple
#include <utility>      // for pair, move
#include <vector>       // for vector

/// Calls of std::async, each as its arguments, and what they need. A program that has defined CALL(name, arguments...)
/// writes ASYNCSTEPS_CALLS_OF_FUNCTIONS(CALL) and so on, and gets each call as text, to compile with whatever function
/// it likes.
namespace calls {

inline int twice(int x) { return 2 * x; }
inline int twice_noexcept(int x) noexcept { return 2 * x; }
inline double sum(int a, long b, double c) { return a + static_cast<double>(b) + c; }
inline std::string join(std::string a, const std::string& b, std::string_view c, const char* d) {
  return std::move(a) + b + std::string(c) + d;
}
inline void nothing() {}
inline void touch(int& x) { ++x; }
inline int& pass(int& x) { return ++x; }
inline const int& pass_const(const int& x) { return x; }
inline int take(std::unique_ptr<int> p) { return *p; }
inline int take_rvalue(std::unique_ptr<int>&& p) { return *p; }
inline std::unique_ptr<int> give(int x) { return std::make_unique<int>(x); }
inline int overloaded(int x) { return x + 1; }
inline int overloaded(const std::string& x) { return static_cast<int>(x.size()); }
inline std::size_t first_of(const int* numbers) { return static_cast<std::size_t>(*numbers); }
inline std::size_t of_null(std::nullptr_t) { return 5; }
inline int by_default(int a, int b = 4) { return a + b; }
[[noreturn]] inline int throws(int x) { throw std::runtime_error("thrown " + std::to_string(x)); }
[[noreturn]] inline void throws_number() { throw 42; }
inline const std::string constant() { return "constant"; }
inline std::future<int> future_of(int x) {
  std::promise<int> p;
  p.set_value(x);
  return p.get_future();
}
template <class It>
int total(It first, It last) {
  return std::accumulate(first, last, 0);
}
enum class colour { red = 3, green };
inline colour next(colour c) { return static_cast<colour>(static_cast<int>(c) + 1); }

struct base {
  virtual ~base() = default;
  virtual std::string name() const { return "base"; }
  int common = 11;
  int in_base() const noexcept { return common; }
};
struct object : base {
  explicit object(int v) noexcept : value(v) {}
  std::string name() const override { return "object"; }
  int get() const { return value; }
  int add(int x) { return value += x; }
  int add_noexcept(int x) noexcept { return value += x; }
  int of_lvalue() & { return value; }
  int of_rvalue() && { return -value; }
  static int of_class(int x) { return x * 3; }
  int value;
};
inline object shared_object{20};
inline const auto owned_object = std::make_shared<object>(44);
inline int shared_number = 0;
inline int fixed_number = 9;
inline const int numbers[4] = {4, 5, 6, 7};

struct functor {
  int operator()() const { return 1; }
  int operator()(int x) const { return x; }
  std::string operator()(const std::string& s) const { return s + "!"; }
};
struct rvalue_functor {
  std::unique_ptr<int> value = std::make_unique<int>(33);
  int operator()() && { return *value; }
};
struct both_functor {
  std::string operator()() & { return "lvalue"; }
  std::string operator()() const& { return "const lvalue"; }
  std::string operator()() && { return "rvalue"; }
};
struct mutable_functor {
  int calls = 0;
  int operator()() { return ++calls; }
};
struct copy_only_functor {
  copy_only_functor() = default;
  copy_only_functor(const copy_only_functor&) = default;
  copy_only_functor& operator=(const copy_only_functor&) = delete;
  int operator()() const { return 3; }
};
struct immovable_functor {
  immovable_functor() = default;
  immovable_functor(const immovable_functor&) {}
  immovable_functor(immovable_functor&&) = delete;
  int operator()() const { return 4; }
};
struct final_functor final {
  int operator()() const { return 6; }
};
struct with_function_pointer {
  using pointer = int (*)(int);
  operator pointer() const { return &twice; }  // NOLINT: called through the conversion
};
struct throwing_functor {
  std::string operator()(int x) const {
    if (x > 0) throw std::invalid_argument("positive");
    return "fine";
  }
};
struct alignas(64) aligned_functor {
  bool operator()() const { return reinterpret_cast<std::uintptr_t>(this) % 64 == 0; }
};
struct large_functor {
  std::array<int, 1000> values{};
  int operator()() const { return std::accumulate(values.begin(), values.end(), 1); }
};
/// Explicit conversion only, and no default constructor: what a decayed copy may need, and a result may lack.
struct explicit_number {
  explicit explicit_number(int v) : value(v) {}
  int value;
};
inline explicit_number plus_one(explicit_number n) { return explicit_number(n.value + 1); }
struct copied_argument {
  copied_argument() = default;
  copied_argument(const copied_argument& other) : copies(other.copies + 1) {}
  copied_argument(copied_argument&& other) noexcept : copies(other.copies) {}
  int copies = 0;
};
inline int copies_of(const copied_argument& a) { return a.copies; }

inline const functor a_functor;
inline const both_functor a_both_functor;
inline const copy_only_functor a_copy_only_functor;
inline const immovable_functor an_immovable_functor;
inline mutable_functor a_mutable_functor;
inline copied_argument a_copied_argument;
inline const std::function<int(int)> a_function = &twice;
inline const auto a_lambda = [] { return 12; };
inline int (*const a_function_pointer)(int) = &twice;
inline int object::* const a_member = &object::value;

}  // namespace calls

// clang-format off
#define ASYNCSTEPS_CALLS_OF_FUNCTIONS(CALL)                                                                                 \
  CALL("a function", calls::twice, 21)                                                                                 \
  CALL("a pointer to a function", &calls::twice, 21)                                                                   \
  CALL("a variable that points to a function", calls::a_function_pointer, 21)                                          \
  CALL("a function that does not throw", calls::twice_noexcept, 21)                                                    \
  CALL("a static member function", &calls::object::of_class, 5)                                                        \
  CALL("a function of several types, with conversions", calls::sum, 'a', 2, 3)                                         \
  CALL("a function without a result", calls::nothing)                                                                  \
  CALL("one of several functions, by a cast", static_cast<int (*)(int)>(&calls::overloaded), 6)                        \
  CALL("one of several functions, by a lambda", [](auto&& x) { return calls::overloaded(x); }, std::string("four"))    \
  CALL("a function with a default argument, by a lambda", [](int x) { return calls::by_default(x); }, 3)               \
  CALL("an instance of a function template", calls::total<const int*>, std::begin(calls::numbers),                     \
       std::end(calls::numbers))                                                                                       \
  CALL("strings and arrays of characters", calls::join, "one", std::string("two"), "three", "four")                    \
  CALL("an array, which decays", calls::first_of, calls::numbers)                                                      \
  CALL("a null pointer", calls::of_null, nullptr)                                                                      \
  CALL("an enumerator", calls::next, calls::colour::red)                                                               \
  CALL("a reference", calls::touch, std::ref(calls::shared_number))                                                    \
  CALL("a reference as the result", calls::pass, std::ref(calls::shared_number))                                       \
  CALL("a constant reference as the result", calls::pass_const, std::cref(calls::fixed_number))                        \
  CALL("a reference as a lambda's result", []() -> int& { return calls::fixed_number; })                               \
  CALL("a constant as the result", calls::constant)                                                                    \
  CALL("a move-only argument", calls::take, std::make_unique<int>(7))                                                  \
  CALL("a move-only argument by reference", calls::take_rvalue, std::make_unique<int>(8))                              \
  CALL("a move-only result", calls::give, 9)                                                                           \
  CALL("a result without a default constructor", calls::plus_one, calls::explicit_number(4))                           \
  CALL("a conversion in the call only", calls::copies_of, calls::copied_argument{})                                    \
  CALL("one copy of an argument", calls::copies_of, calls::a_copied_argument)                                          \
  CALL("no copy of a reference", calls::copies_of, std::ref(calls::a_copied_argument))                                 \
  CALL("a future as the result", calls::future_of, 10)                                                                 \
  CALL("a pair as the result", [] { return std::pair<int, std::string>(1, "x"); })                                     \
  CALL("a vector as an argument and the result", [](std::vector<int> v) { v.push_back(1); return v; },                 \
       std::vector<int>{5, 6})                                                                                         \
  CALL("an optional as the result", [](int x) { return std::optional<int>(x); }, 5)

#define ASYNCSTEPS_CALLS_OF_LAMBDAS_AND_MEMBERS(CALL)                                                                       \
  CALL("a lambda", [] { return 11; })                                                                                  \
  CALL("a lambda in a variable", calls::a_lambda)                                                                      \
  CALL("a lambda that owns", [p = std::make_unique<int>(13)] { return *p; })                                           \
  CALL("a lambda that changes what it owns", [n = 1]() mutable { return ++n; })                                        \
  CALL("a lambda that gives away what it owns", [p = std::make_unique<int>(14)]() mutable { return std::move(p); })    \
  CALL("a lambda that does not throw", []() noexcept { return 15; })                                                   \
  CALL("a generic lambda", [](auto a, auto b) { return a + b; }, 1, 2.5)                                               \
  CALL("a variadic lambda", [](auto... x) { return (0 + ... + x); }, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)                    \
  CALL("a lambda with a template parameter", []<class T>(T x) { return x * x; }, 12L)                                  \
  CALL("a lambda as a pointer to a function", +[](int x) { return x + 1; }, 1)                                         \
  CALL("a lambda that takes a lambda", [](auto f) { return f(3); }, [](int x) { return x * 5; })                       \
  CALL("a member function and a pointer to the object", &calls::object::get, &calls::shared_object)                    \
  CALL("a member function with an argument", &calls::object::add, &calls::shared_object, 0)                            \
  CALL("a member function that does not throw", &calls::object::add_noexcept, &calls::shared_object, 0)                \
  CALL("a member function and a reference wrapper", &calls::object::get, std::ref(calls::shared_object))               \
  CALL("a member function and a constant reference wrapper", &calls::object::get, std::cref(calls::shared_object))     \
  CALL("a member function and a copy of the object", &calls::object::add, calls::shared_object, 5)                     \
  CALL("a member function and a temporary", &calls::object::add, calls::object(40), 2)                                 \
  CALL("a member function of lvalues", &calls::object::of_lvalue, std::ref(calls::shared_object))                      \
  CALL("a member function of rvalues", &calls::object::of_rvalue, calls::object(41))                                   \
  CALL("a member function and a unique_ptr", &calls::object::get, std::make_unique<calls::object>(42))                 \
  CALL("a member function and a shared_ptr", &calls::object::get, std::make_shared<const calls::object>(43))           \
  CALL("a virtual member function", &calls::base::name, static_cast<const calls::base*>(&calls::shared_object))        \
  CALL("a member function of a base", &calls::base::in_base, &calls::shared_object)                                    \
  CALL("a member function of the standard library", &std::string::length, std::string("seven.."))                      \
  CALL("a data member and a pointer to the object", &calls::object::value, &calls::shared_object)                      \
  CALL("a data member and a reference wrapper", calls::a_member, std::ref(calls::shared_object))                       \
  CALL("a data member and a shared_ptr", &calls::object::value, calls::owned_object)                                   \
  CALL("a data member of a base", &calls::base::common, &calls::shared_object)

#define ASYNCSTEPS_CALLS_OF_FUNCTORS(CALL)                                                                                  \
  CALL("a functor", calls::functor{})                                                                                  \
  CALL("a constant functor with an argument", calls::a_functor, 8)                                                     \
  CALL("a functor with several call operators", calls::a_functor, std::string("hey"))                                  \
  CALL("a functor that is called as an rvalue only", calls::rvalue_functor{})                                          \
  CALL("a functor that tells how it is called", calls::both_functor{})                                                 \
  CALL("a copy of a functor that tells how it is called", calls::a_both_functor)                                       \
  CALL("a functor by reference", std::ref(calls::a_functor), 9)                                                        \
  CALL("a copy of a functor that counts", calls::a_mutable_functor)                                                    \
  CALL("a functor that can be copied and not assigned", calls::a_copy_only_functor)                                    \
  CALL("a functor that can be copied and not moved", calls::an_immovable_functor)                                      \
  CALL("a functor of a final class", calls::final_functor{})                                                           \
  CALL("a functor with a conversion to a function pointer", calls::with_function_pointer{}, 5)                         \
  CALL("an over-aligned functor", calls::aligned_functor{})                                                            \
  CALL("a large functor", calls::large_functor{})                                                                      \
  CALL("a std::function", calls::a_function, 4)                                                                        \
  CALL("a bound function", std::bind(&calls::twice, 23))                                                               \
  CALL("a bound function with a placeholder", std::bind(&calls::sum, std::placeholders::_1, 1L, 2.0), 3)               \
  CALL("an empty std::function", std::function<int()>())                                                               \
  CALL("std::mem_fn", std::mem_fn(&calls::object::get), calls::object(45))                                             \
  CALL("std::plus", std::plus<>{}, std::string("a"), "b")                                                              \
  CALL("a packaged task", std::packaged_task<int()>([] { return 5; }))                                                 \
  CALL("a function that throws", calls::throws, 3)                                                                     \
  CALL("a function that throws a number", calls::throws_number)                                                        \
  CALL("a functor that throws", calls::throwing_functor{}, 1)                                                          \
  CALL("a functor that throws for other arguments", calls::throwing_functor{}, -1)                                     \
  CALL("a lambda that throws", []() -> int { throw std::out_of_range("no such thing"); })                              \
  CALL("a function of the standard library", [](double x) { return std::to_string(x); }, 1.5)                          \
  CALL("a constructor", [](auto&&... x) { return std::string(std::forward<decltype(x)>(x)...); }, 3U, 'x')             \
  CALL("a tuple to apply", [](auto f, auto t) { return std::apply(f, t); }, &calls::twice, std::tuple<int>(8))         \
  CALL("yield, which has no result", std::this_thread::yield)
// clang-format on
