// SPDX-License-Identifier: BSL-1.0
//
// Constructors that throw in calls of async::bounded_queue: what they cost, and when elements are constructed.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "async/bounded_queue.hpp"
#include "support/live_count.hpp"
#include "support/stopped_thread.hpp"

using async::bounded_queue;
using testing::stopped_thread;
using namespace std::chrono_literals;

namespace {

struct number {
  int value;
};
/// Throws for negative numbers. Made from a constant number before a slot is claimed, from others afterwards.
struct item : testing::live_count<item> {
  static inline int made = 0;
  static inline int moved = 0;
  explicit item(int v) : value(v) {
    ++made;
    stopped_thread::stop_here(0);
    if (v < 0) throw std::runtime_error("negative");
  }
  explicit item(number v) : item(v.value) {}
  explicit item(std::unique_ptr<int> v) : item(*v) {}
  item(item&& other) noexcept : live_count(other), value(other.value) { ++moved; }
  item& operator=(item&&) = default;
  int value;
};
/// Can be moved only with exceptions.
struct stuck {
  explicit stuck(int v) : value(v) {
    if (v < 0) throw std::runtime_error("negative");
  }
  stuck(stuck&& other) noexcept(false) : value(other.value) {}
  stuck& operator=(stuck&&) = default;
  int value;
};
/// Owns what its argument counts, and releases it.
struct owner {
  explicit owner(int& count) : released(&count) { stopped_thread::stop_here(0); }
  explicit owner(int* count) : owner(*count) {}
  owner(owner&& other) noexcept : released(std::exchange(other.released, nullptr)) {}
  owner& operator=(owner&&) = delete;
  ~owner() {
    if (released != nullptr) ++*released;
  }
  int* released;
};
struct safe {
  static inline int moved = 0;
  explicit safe(int v) noexcept : value(v) {}
  safe(safe&& other) noexcept : value(other.value) { ++moved; }
  int value;
};

const number bad{-1};

template <class T>
void fill(bounded_queue<T>& q, int elements) {
  for (int i = 0; i < elements; ++i) REQUIRE(q.enqueue(i));
}
/// Exactly `room` more go in, and all come out in order.
template <class T>
void check(bounded_queue<T>& q, int inside, int room) {
  CHECK(q.approx_size() == static_cast<std::size_t>(inside));
  for (int i = inside; i < inside + room; ++i) CHECK(q.enqueue(i));
  CHECK_FALSE(q.enqueue(0));
  for (int i = 0; i < inside + room; ++i) CHECK(q.dequeue()->value == i);
  CHECK(q.empty());
}

}  // namespace

TEST_CASE("a constructor that throws takes no slot, whatever is inside") {
  for (int inside = 0; inside < 4; ++inside) {
    for (int failures = 1; failures < 6; ++failures) {
      bounded_queue<item> q(4);
      bounded_queue<stuck> other(4);
      fill(q, inside);
      fill(other, inside);
      for (int i = 0; i < failures; ++i) {
        CHECK_THROWS_AS(q.enqueue(-1), std::runtime_error);
        CHECK_THROWS_AS(q.enqueue(bad), std::runtime_error);
        CHECK_THROWS_AS(q.enqueue(std::make_unique<int>(-1)), std::runtime_error);
        CHECK_THROWS_AS(q.blocking_enqueue(bad), std::runtime_error);
        CHECK_THROWS_AS(q.enqueue_for(1s, std::make_unique<int>(-1)), std::runtime_error);
        CHECK_THROWS_AS(other.enqueue(-1), std::runtime_error);
        CHECK_THROWS_AS(other.blocking_enqueue(-1), std::runtime_error);
      }
      check(q, inside, 4 - inside);
      check(other, inside, 4 - inside);
    }
  }
  CHECK(item::live() == 0);
}

TEST_CASE("a constructor that throws in a bulk takes no slot, and the elements before it are inside") {
  for (int good = 0; good < 4; ++good) {
    bounded_queue<item> q(4);
    int values[] = {0, 1, 2, 3};
    values[good] = -1;
    CHECK_THROWS_AS(q.bulk_enqueue(values, 4), std::runtime_error);
    check(q, good, 4 - good);
  }
}

TEST_CASE("a full or closed queue constructs nothing and leaves the arguments alone") {
  bounded_queue<item> q(1);
  fill(q, 1);
  item::made = 0;
  auto pointer = std::make_unique<int>(1);
  CHECK_FALSE(q.enqueue(-1));
  CHECK_FALSE(q.enqueue(std::move(pointer)));
  CHECK_FALSE(q.enqueue_for(1ms, -1));
  q.dequeue();
  q.close();
  CHECK_FALSE(q.enqueue(-1));
  CHECK_FALSE(q.blocking_enqueue(std::move(pointer)));
  CHECK(pointer != nullptr);
  CHECK(item::made == 0);
}

TEST_CASE("an element is constructed once, and in place unless its constructor may throw") {
  bounded_queue<item> q(2);
  item::made = item::moved = 0;
  const number one{1};
  q.enqueue(one);
  CHECK(item::made == 1);
  CHECK(item::moved == 1);
  q.enqueue(std::make_unique<int>(1));
  CHECK(item::made == 2);
  CHECK(item::moved == 1);
  bounded_queue<safe> other(1);
  other.enqueue(1);
  CHECK(safe::moved == 0);
}

TEST_CASE("arguments keep their kind: lvalues, constants and literals reach the constructor that they ask for") {
  struct which {
    explicit which(const std::string&) : kind(1) {}
    explicit which(std::string&&) : kind(2) {}
    explicit which(int&) : kind(3) {}
    explicit which(const int&) : kind(4) {}
    explicit which(int&&) : kind(5) {}
    int kind;
  };
  bounded_queue<which> q(8);
  std::string text;
  const std::string fixed;
  int number = 0;
  const int constant = 0;
  q.enqueue(text);
  q.enqueue(fixed);
  q.enqueue(std::move(text));
  q.enqueue(number);
  q.enqueue(constant);
  q.enqueue(1);
  for (const int kind : {1, 1, 2, 3, 4, 5}) CHECK(q.dequeue()->kind == kind);
}

TEST_CASE("a thread that stops in a constructor before its claim keeps no other thread waiting") {
  bounded_queue<item> q(2);
  stopped_thread slow(0, [&] { CHECK_THROWS_AS(q.enqueue(bad), std::runtime_error); });
  REQUIRE(slow.is_stopped());
  CHECK(q.enqueue(1));
  CHECK(q.enqueue(2));
  CHECK_FALSE(q.enqueue(3));
  CHECK(q.dequeue()->value == 1);
  slow.release();
  CHECK(q.enqueue(3));
  CHECK(q.dequeue()->value == 2);
}

TEST_CASE("an element that owns what a pointer or a variable stands for is made only if it goes in") {
  const auto race = [](auto call) {
    bounded_queue<owner> q(1);
    int others = 0;
    bool accepted = false;
    stopped_thread slow(0, [&] { accepted = call(q); });
    REQUIRE(slow.is_stopped());
    q.enqueue(others);
    slow.release();
    return accepted;
  };
  int released = 0;
  CHECK((race([&](auto& q) { return q.enqueue(&released); }) ? 1 : 0) == released);
  released = 0;
  CHECK((race([&](auto& q) { return q.enqueue(released); }) ? 1 : 0) == released);
}

TEST_CASE("a slot behind which another producer has claimed one becomes free with the elements before it") {
  bounded_queue<item> q(2);
  stopped_thread slow(0, [&] { CHECK_THROWS_AS(q.enqueue(std::make_unique<int>(-1)), std::runtime_error); });
  REQUIRE(slow.is_stopped());
  CHECK(q.enqueue(1));
  CHECK_FALSE(q.enqueue(2));
  slow.release();
  CHECK(q.dequeue()->value == 1);
  CHECK(q.enqueue(2));
  CHECK(q.enqueue(3));
  CHECK_FALSE(q.enqueue(4));
}
