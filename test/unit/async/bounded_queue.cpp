// SPDX-License-Identifier: BSL-1.0
//
// The non-blocking calls of async::bounded_queue.
#include "async/bounded_queue.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/live_count.hpp"
#include "support/scale.hpp"

using async::bounded_queue;
using testing::live_count;

namespace {

/// Turns of slots wrap after a few elements.
struct about_to_wrap : async::bounded_queue_traits {
  static constexpr std::uint64_t first_ticket = (std::uint64_t{1} << 30) - 5;
};
/// Tickets are about to reach the top bit that marks a closed queue, less what a program could ever use up.
struct old : async::bounded_queue_traits {
  static constexpr std::uint64_t first_ticket = (std::uint64_t{1} << 62) - 3;
};

/// Runs a function once, while an enqueue looks for room.
struct interrupted : async::bounded_queue_traits {
  static inline std::function<void()> act;
  static void looking() noexcept {
    if (const auto once = std::exchange(act, nullptr)) once();
  }
};

template <class Queue, class... Args>
concept takes = requires(Queue& q, Args&&... args) { q.enqueue(std::forward<Args>(args)...); };
template <class Queue, class Out>
concept gives = requires(Queue& q, Out& out) { q.dequeue(out); };

template <class Queue>
std::vector<int> drain(Queue& queue) {
  std::vector<int> all;
  for (int value = 0; queue.dequeue(value);) all.push_back(value);
  return all;
}

}  // namespace

TEST_CASE("elements come out in the order they went in") {
  bounded_queue<int> q(8);
  for (int i = 0; i < 5; ++i) CHECK(q.enqueue(i));
  CHECK(drain(q) == std::vector<int>{0, 1, 2, 3, 4});
}

TEST_CASE("dequeue on an empty queue returns false and leaves its argument alone") {
  bounded_queue<int> q(8);
  int value = 42;
  for (int i = 0; i < 100; ++i) CHECK_FALSE(q.dequeue(value));
  CHECK(value == 42);
  CHECK_FALSE(q.dequeue().has_value());
}

TEST_CASE("enqueue on a full queue returns false and leaves its arguments alone") {
  bounded_queue<std::unique_ptr<int>> q(2);
  CHECK(q.enqueue(std::make_unique<int>(1)));
  CHECK(q.enqueue(std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  for (int i = 0; i < 100; ++i) CHECK_FALSE(q.enqueue(std::move(third)));
  REQUIRE(third != nullptr);
  CHECK(**q.dequeue() == 1);
  CHECK(q.enqueue(std::move(third)));
  CHECK(third == nullptr);
}

TEST_CASE("a queue that other threads fill and drain while an enqueue looks at it is not full") {
  bounded_queue<int, interrupted> q(1);
  q.enqueue(0);
  interrupted::act = [&q] {
    CHECK(q.dequeue());
    CHECK(q.enqueue(1));
    CHECK(q.dequeue());
  };
  CHECK(q.enqueue(2));
  CHECK(*q.dequeue() == 2);
}

TEST_CASE("the capacity is rounded up to a power of two, and that many fit") {
  for (const auto& [asked, got] : {std::array<std::size_t, 2>{1, 1}, {2, 2}, {3, 4}, {5, 8}, {8, 8}, {1000, 1024}}) {
    bounded_queue<int> q(asked);
    CHECK(q.capacity() == got);
    for (std::size_t i = 0; i < got; ++i) CHECK(q.enqueue(1));
    CHECK_FALSE(q.enqueue(1));
  }
}

TEST_CASE("a capacity of 0 is an invalid argument") { CHECK_THROWS_AS(bounded_queue<int>(0), std::invalid_argument); }

TEST_CASE("an impossible capacity is a length error, one that exceeds the memory bad_alloc") {
  constexpr std::size_t too_many = (std::numeric_limits<std::size_t>::max)();
  CHECK_THROWS_AS(bounded_queue<int>{too_many}, std::length_error);
  CHECK_THROWS_AS(bounded_queue<int>((std::numeric_limits<std::size_t>::max)() / 2 + 2), std::length_error);
  CHECK_THROWS_AS(bounded_queue<int>((std::size_t{1} << 28) + 1), std::length_error);
  struct huge {
    std::array<char, std::size_t{1} << 20> bytes;
  };
  if (testing::sanitized) return;                           // ends the program instead
  CHECK_THROWS(bounded_queue<huge>(std::size_t{1} << 28));  // bad_alloc, or length_error where size_t is too small
}

TEST_CASE("a queue of one slot alternates") {
  bounded_queue<int> q(1);
  for (int i = 0; i < 100; ++i) {
    CHECK(q.enqueue(i));
    CHECK_FALSE(q.enqueue(-1));
    CHECK(q.dequeue() == i);
    CHECK_FALSE(q.dequeue().has_value());
  }
}

TEST_CASE_TEMPLATE("nothing changes when turns wrap", Traits, about_to_wrap, old) {
  for (const std::size_t capacity : {1U, 2U, 4U, 16U}) {
    bounded_queue<int, Traits> q(capacity);
    int in = 0;
    int out = 0;
    for (int round = 0; round < 40; ++round) {
      while (q.enqueue(in)) ++in;
      CHECK(in - out == static_cast<int>(capacity));
      for (std::optional<int> value; (value = q.dequeue()); ++out) CHECK(*value == out);
      CHECK(in == out);
      CHECK(q.empty());
    }
  }
}

TEST_CASE("size counts elements, not slots") {
  bounded_queue<int> q(8);
  CHECK(q.approx_size() == 0);
  CHECK(q.empty());
  for (std::size_t i = 1; i <= 8; ++i) {
    q.enqueue(1);
    CHECK(q.approx_size() == i);
    CHECK_FALSE(q.empty());
  }
  q.enqueue(1);
  CHECK(q.approx_size() == 8);
  q.dequeue();
  CHECK(q.approx_size() == 7);
}

TEST_CASE("elements are constructed from the arguments in place") {
  bounded_queue<std::pair<std::string, std::unique_ptr<int>>> q(2);
  CHECK(q.enqueue("a", std::make_unique<int>(7)));
  const auto out = q.dequeue();
  REQUIRE(out.has_value());
  CHECK(out->first == "a");
  CHECK(*out->second == 7);
}

TEST_CASE("compilers do not warn of a variable that only a dequeue writes") {  // by g++ -O1 to -O3
  bounded_queue<int> q(4);
  for (int i = 1; i < 4; ++i) q.enqueue(i);
  q.close();
  int sum = 0;
  int a;
  if (q.dequeue(a)) sum += a;
  int b;
  if (q.dequeue_for(b, std::chrono::seconds(1))) sum += b;
  int c;
  while (q.blocking_dequeue(c)) sum += c;
  CHECK(sum == 6);
}

TEST_CASE("dequeue assigns to anything that can be assigned from the element") {
  bounded_queue<int> q(2);
  q.enqueue(7);
  q.enqueue(8);
  std::optional<long> out;
  CHECK(q.dequeue(out));
  CHECK(out == 7);
  double number = 0;
  CHECK(q.dequeue(number));
  CHECK(number == 8);
}

TEST_CASE("an element that is neither copyable nor movable goes in and is destroyed") {
  struct fixed : live_count<fixed> {
    explicit fixed(int v) : value(v) {}
    fixed(const fixed&) = delete;
    fixed& operator=(const fixed&) = delete;
    int value;
  };
  {
    bounded_queue<fixed> q(2);
    CHECK(q.enqueue(1));
    CHECK(fixed::live() == 1);
  }
  CHECK(fixed::live() == 0);
}

TEST_CASE("elements have the alignment of their type") {
  struct alignas(256) wide {
    int value;
  };
  bounded_queue<wide> q(4);
  for (int i = 0; i < 4; ++i) CHECK(q.enqueue(wide{i}));
  for (int i = 0; i < 4; ++i) {
    struct checked {
      checked& operator=(wide&& w) {
        aligned = reinterpret_cast<std::uintptr_t>(&w) % 256 == 0;
        value = w.value;
        return *this;
      }
      bool aligned = false;
      int value = -1;
    } out;
    CHECK(q.dequeue(out));
    CHECK(out.aligned);
    CHECK(out.value == i);
  }
}

TEST_CASE("the destructor destroys the elements that are left, and no others") {
  struct item : live_count<item> {};
  for (const std::size_t left : {0U, 1U, 3U, 4U}) {
    {
      bounded_queue<item, about_to_wrap> q(4);
      for (int i = 0; i < 7; ++i) {
        q.enqueue();
        q.dequeue();
      }
      for (std::size_t i = 0; i < left; ++i) q.enqueue();
      CHECK(item::live() == static_cast<int>(left));
    }
    CHECK(item::live() == 0);
  }
}

TEST_CASE("an element is destroyed as soon as it is out") {
  bounded_queue<std::shared_ptr<int>> q(4);
  auto shared = std::make_shared<int>(1);
  q.enqueue(shared);
  CHECK(shared.use_count() == 2);
  CHECK(q.dequeue() == shared);
  CHECK(shared.use_count() == 1);
}

TEST_CASE("bulk_enqueue enqueues as many as fit, in order, and returns how many") {
  bounded_queue<int> q(4);
  const std::vector<int> values{1, 2, 3, 4, 5, 6};
  CHECK(q.bulk_enqueue(values.begin(), 3) == 3);
  CHECK(q.bulk_enqueue(values.begin() + 3, 3) == 1);
  CHECK(q.bulk_enqueue(values.begin(), 6) == 0);
  CHECK(drain(q) == std::vector<int>{1, 2, 3, 4});
  CHECK(q.bulk_enqueue(values.begin(), 6) == 4);
}

TEST_CASE("a bulk of 0 does nothing, and nothing is lost after it") {
  bounded_queue<int> q(4);
  const int* const none = nullptr;
  CHECK(q.bulk_enqueue(none, 0) == 0);
  CHECK(q.enqueue(1));
  CHECK(q.bulk_enqueue(none, 0) == 0);
  CHECK(q.enqueue(2));
  int* const nowhere = nullptr;
  CHECK(q.bulk_dequeue(nowhere, 0) == 0);
  CHECK(drain(q) == std::vector<int>{1, 2});
}

TEST_CASE("bulk_dequeue takes the elements that are there, in order, and returns how many") {
  bounded_queue<int> q(8);
  for (int i = 0; i < 6; ++i) q.enqueue(i);
  std::array<int, 8> out{};
  CHECK(q.bulk_dequeue(out.begin(), 4) == 4);
  CHECK(out == std::array<int, 8>{0, 1, 2, 3, 0, 0, 0, 0});
  CHECK(q.bulk_dequeue(out.begin(), 100) == 2);
  CHECK(out[0] == 4);
  CHECK(q.bulk_dequeue(out.begin(), 1) == 0);
}

TEST_CASE("bulks take any iterator: lists, moves, inserters, proxies") {
  bounded_queue<std::string> q(8);
  std::list<std::string> from{"a", "b", "c"};
  CHECK(q.bulk_enqueue(std::make_move_iterator(from.begin()), 3) == 3);
  CHECK(from.front().empty());
  std::vector<std::string> to;
  CHECK(q.bulk_dequeue(std::back_inserter(to), 8) == 3);
  CHECK(to == std::vector<std::string>{"a", "b", "c"});
  bounded_queue<bool> bits(2);  // an iterator with a proxy
  std::vector<bool> flags{true, false, false};
  CHECK(bits.bulk_enqueue(flags.begin(), 2) == 2);
  CHECK(bits.bulk_dequeue(flags.begin() + 1, 2) == 2);
  CHECK(flags == std::vector<bool>{true, true, false});
}

TEST_CASE("a bulk reads no more of a stream than requested, or than it has room for") {
  std::istringstream stream("1 2 3 4 5");
  bounded_queue<int> q(8);
  CHECK(q.bulk_enqueue(std::istream_iterator<int>(stream), 2) == 2);
  int next = 0;
  stream >> next;
  CHECK(next == 3);
  CHECK(*q.dequeue() == 1);
  CHECK(*q.dequeue() == 2);
  CHECK_FALSE(q.dequeue());
  bounded_queue<int> one(1);
  CHECK(one.bulk_enqueue(std::istream_iterator<int>(stream), 2) == 1);
  CHECK(*one.dequeue() == 4);
  stream >> next;
  CHECK(next == 5);
}

TEST_CASE("bulks wrap around the end of the ring") {
  bounded_queue<int, about_to_wrap> q(4);
  int in = 0;
  int out = 0;
  for (int round = 0; round < 50; ++round) {
    std::array<int, 3> batch{in, in + 1, in + 2};
    in += static_cast<int>(q.bulk_enqueue(batch.begin(), 3));
    const std::size_t taken = q.bulk_dequeue(batch.begin(), round % 2 == 0 ? 2 : 3);
    for (std::size_t i = 0; i < taken; ++i) CHECK(batch[i] == out++);
  }
  for (const int value : drain(q)) CHECK(value == out++);
  CHECK(in == out);
}

TEST_CASE("a closed queue refuses elements and hands out those that it has") {
  bounded_queue<int> q(4);
  q.enqueue(1);
  q.enqueue(2);
  CHECK_FALSE(q.is_closed());
  q.close();
  q.close();
  CHECK(q.is_closed());
  CHECK_FALSE(q.enqueue(3));
  const int more[2] = {4, 5};
  CHECK(q.bulk_enqueue(more, 2) == 0);
  CHECK(q.approx_size() == 2);
  CHECK(q.capacity() == 4);
  CHECK(drain(q) == std::vector<int>{1, 2});
  CHECK(q.empty());
}

TEST_CASE("a queue that was polled while empty works like any other") {
  bounded_queue<int> q(4);
  for (int round = 0; round < 20; ++round) {
    int value = 0;
    for (int polls = 0; polls < round; ++polls) CHECK_FALSE(q.dequeue(value));
    CHECK(q.enqueue(round));
    CHECK(q.dequeue(value));
    CHECK(value == round);
  }
}

TEST_CASE("unsupported element types and arguments are rejected at compile time") {
  using q = bounded_queue<std::unique_ptr<int>>;
  static_assert(!std::is_copy_constructible_v<q> && !std::is_move_constructible_v<q> && !std::is_copy_assignable_v<q>);
  static_assert(std::is_same_v<q::value_type, std::unique_ptr<int>>);
  static_assert(takes<q, std::unique_ptr<int>> && takes<q, int*> && !takes<q, const std::unique_ptr<int>&>);
  static_assert(gives<q, std::unique_ptr<int>> && gives<q, std::shared_ptr<int>> && !gives<q, int>);
  static_assert(noexcept(std::declval<q&>().close()) && noexcept(std::declval<const q&>().is_closed()));
  CHECK(sizeof(q) <= 6 * 64 + 128);
}
