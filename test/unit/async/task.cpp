// SPDX-License-Identifier: BSL-1.0
#include "async/task.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

namespace {

/// Counts how many objects live, and can be told to throw when copied or moved.
struct tracked {
  static inline int alive = 0;
  explicit tracked(int* calls) : calls_(calls) { ++alive; }
  tracked(const tracked& other) : calls_(other.calls_) { ++alive; }
  tracked(tracked&& other) noexcept : calls_(std::exchange(other.calls_, nullptr)) { ++alive; }
  ~tracked() { --alive; }
  void operator()() const { ++*calls_; }
  int* calls_;
};

struct throws_on_move {
  throws_on_move() = default;
  throws_on_move(const throws_on_move&) { throw std::runtime_error("copied"); }
  throws_on_move(throws_on_move&&) noexcept(false) { throw std::runtime_error("moved"); }
  void operator()() const {}
};

struct rvalue_only {
  std::unique_ptr<int> value;
  int* out;
  void operator()() && { *out = *value; }
};

template <std::size_t Bytes>
void check_size() {
  int calls = 0;
  std::array<unsigned char, Bytes> padding{};
  padding.fill(7);
  {
    async::task first([padding, t = tracked(&calls)] {
      for (unsigned char byte : padding) REQUIRE(byte == 7);
      t();
    });
    CHECK(tracked::alive == 1);
    async::task second(std::move(first));
    CHECK_FALSE(first);
    CHECK(tracked::alive == 1);
    second();
    async::task third;
    third = std::move(second);
    third();
  }
  CHECK(calls == 2);
  CHECK(tracked::alive == 0);
}

int free_calls = 0;
void free_function() { ++free_calls; }

}  // namespace

TEST_CASE("a task is 56 bytes, so that a queue cell with its state byte is one cache line") {
  CHECK(sizeof(async::task) == 48 + sizeof(void*));
}

TEST_CASE("an empty task is false and throws bad_function_call when called") {
  async::task t;
  CHECK_FALSE(t);
  CHECK_THROWS_AS(t(), std::bad_function_call);
  async::task from_null(static_cast<void (*)()>(nullptr));
  CHECK_FALSE(from_null);
}

TEST_CASE("nullptr is an empty task") {
  async::task t(nullptr);
  CHECK(t == nullptr);
  t = [] {};
  CHECK(t != nullptr);
  t = nullptr;
  CHECK(nullptr == t);
  t = {};
  CHECK_FALSE(t);
}

TEST_CASE("a task runs its callable, inline or in a block, and destroys it exactly once") {
  check_size<1>();
  check_size<32>();
  check_size<40>();
  check_size<48>();
  check_size<200>();
  check_size<5000>();
}

TEST_CASE("a task takes function pointers, move-only and rvalue-only callables and discards results") {
  free_calls = 0;
  async::task function(&free_function);
  function();
  CHECK(free_calls == 1);

  int out = 0;
  async::task move_only([p = std::make_unique<int>(5), &out] {
    out = *p;
    return out;
  });
  move_only();
  CHECK(out == 5);

  async::task once(rvalue_only{std::make_unique<int>(6), &out});
  once();
  CHECK(out == 6);
}

TEST_CASE("an over-aligned callable keeps its alignment across moves") {
  struct alignas(128) wide {
    int* ok;
    void operator()() const { *ok += reinterpret_cast<std::uintptr_t>(this) % 128 == 0 ? 1 : 0; }
  };
  int ok = 0;
  async::task a(wide{&ok});
  a();
  async::task b(std::move(a));
  b();
  CHECK(ok == 2);
}

TEST_CASE("a task makes a callable in its place, also one that cannot be moved") {
  struct immovable {
    immovable(int& o, int v) : out(o), value(v) {}
    immovable(immovable&&) = delete;
    void operator()() const { out = value; }
    int& out;
    int value;
  };
  int out = 0;
  async::task made(std::in_place_type<immovable>, out, 7);
  async::task moved(std::move(made));
  moved();
  CHECK(out == 7);
  CHECK_THROWS_AS(async::task(std::in_place_type<throws_on_move>, throws_on_move{}), std::runtime_error);
  static_assert(!std::is_constructible_v<async::task, std::in_place_type_t<immovable>, int&>);
}

TEST_CASE("a callable whose move throws is kept in a block, so that moving the task cannot throw") {
  CHECK_THROWS_AS(async::task(throws_on_move{}), std::runtime_error);
  static_assert(std::is_nothrow_move_constructible_v<async::task>);
  static_assert(std::is_nothrow_move_assignable_v<async::task>);
  static_assert(!std::is_copy_constructible_v<async::task>);
}

TEST_CASE("a task passes on exceptions and can be called again") {
  int calls = 0;
  async::task t([&calls] {
    if (++calls == 1) throw std::runtime_error("once");
  });
  CHECK_THROWS_AS(t(), std::runtime_error);
  t();
  CHECK(calls == 2);
}

TEST_CASE("reset and assignment destroy the old callable") {
  int calls = 0;
  async::task t{tracked(&calls)};
  CHECK(tracked::alive == 1);
  t = async::task([] {});
  CHECK(tracked::alive == 0);
  t = async::task{tracked(&calls)};
  t.reset();
  CHECK(tracked::alive == 0);
  CHECK_FALSE(t);
}

TEST_CASE("only callables without arguments make a task") {
  static_assert(std::is_constructible_v<async::task, void (*)()>);
  static_assert(!std::is_constructible_v<async::task, void (*)(int)>);
  static_assert(!std::is_constructible_v<async::task, int>);
  static_assert(std::is_same_v<decltype(async::task{}), async::task>);
}

TEST_CASE("a task may be assigned from one that its own callable owns") {
  struct link {
    async::task next;
  };
  int called = 0;
  auto owned = std::make_shared<link>();
  owned->next = [&called] { called += 10; };
  link* const at = owned.get();
  async::task t([owned = std::move(owned), &called] { ++called; });
  t();
  t = std::move(at->next);
  t();
  CHECK(called == 11);
}
