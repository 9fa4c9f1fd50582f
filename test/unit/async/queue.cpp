// SPDX-License-Identifier: BSL-1.0
#include "async/queue.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/alloc_counter.hpp"
#include "support/live_count.hpp"
#include "support/wait_while.hpp"

namespace {

/// Counts living objects; can be told to throw.
struct tracked {
  static inline int alive = 0;
  static inline int throw_at = -1;  // the number of the construction from an int that throws
  explicit tracked(int v) : value(v) {
    if (throw_at >= 0 && throw_at-- == 0) throw std::runtime_error("constructor");
    ++alive;
  }
  tracked(tracked&& other) noexcept : value(other.value) { ++alive; }
  tracked& operator=(tracked&& other) {
    value = other.value;
    if (value < 0) throw std::runtime_error("assignment");
    return *this;
  }
  ~tracked() { --alive; }
  int value;
};

struct tiny : async::queue_traits {
  static constexpr unsigned slot_bits = 6;
  static constexpr std::size_t segment_bytes = 128;
};

/// Stops producers between claim and publish for as long as a test wants.
struct stalling : tiny {
  static constexpr unsigned stall_rounds = 1;
  static inline std::atomic<bool> stop{false};
  static inline std::atomic<int> stopped{0};
  static void claimed() noexcept {
    if (!stop.exchange(false)) return;
    stopped.fetch_add(1);
    while (stopped.load() != 0) std::this_thread::yield();
  }
};

template <class Q>
std::vector<int> drain(Q& q) {
  std::vector<int> out;
  while (auto v = q.dequeue()) out.push_back(static_cast<int>(*v));
  return out;
}

}  // namespace

TEST_CASE("dequeue on an empty queue returns false, as often as asked") {
  async::queue<int> q;
  int out = 7;
  for (int i = 0; i < 5000; ++i) REQUIRE_FALSE(q.dequeue(out));
  CHECK(out == 7);
  CHECK_FALSE(q.dequeue());
  CHECK(q.empty());
  q.enqueue(1);
  CHECK(q.dequeue(out));
  CHECK(out == 1);
}

TEST_CASE("elements come out in the order in which they went in, over many segments and their reuse") {
  async::queue<std::uint64_t> q;
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 5000 + 100 * round; ++i) q.enqueue(in++);
    for (std::uint64_t v = 0; q.dequeue(v);) REQUIRE(v == out++);
  }
  CHECK(in == out);
}

TEST_CASE("approx_size is exact when no other thread uses the queue") {
  async::queue<std::uint16_t> q;
  for (std::size_t i = 0; i < 20000; ++i) {
    REQUIRE(q.approx_size() == i);
    q.enqueue(static_cast<std::uint16_t>(i));
  }
  for (std::size_t i = 20000; i != 0; --i) {
    REQUIRE(q.approx_size() == i);
    q.dequeue();
  }
  CHECK(q.empty());
}

TEST_CASE("dequeue assigns to any type that an element can be assigned to") {
  async::queue<int> q;
  q.enqueue(5);
  double d = 0;
  CHECK(q.dequeue(d));
  CHECK(d == 5.0);
  async::queue<std::unique_ptr<int>> pointers;
  pointers.enqueue(new int(6));
  std::shared_ptr<int> shared;
  CHECK(pointers.dequeue(shared));
  CHECK(*shared == 6);
}

TEST_CASE("move-only and over-aligned elements, and strings, keep their value") {
  async::queue<std::unique_ptr<int>> pointers;
  for (int i = 0; i < 5000; ++i) pointers.enqueue(std::make_unique<int>(i));
  for (int i = 0; i < 5000; ++i) REQUIRE(**pointers.dequeue() == i);

  struct alignas(128) wide {
    int value;
    const void* self = this;
  };
  async::queue<wide> wides;
  for (int i = 0; i < 500; ++i) wides.enqueue(wide{i});
  for (int i = 0; i < 500; ++i) {
    wide w{-1};
    REQUIRE(wides.dequeue(w));
    REQUIRE(w.value == i);
    REQUIRE(reinterpret_cast<std::uintptr_t>(w.self) % 128 == 0);
  }

  async::queue<std::string> strings;
  strings.enqueue(std::size_t{40}, 'x');
  CHECK(*strings.dequeue() == std::string(40, 'x'));
}

TEST_CASE_TEMPLATE("an element may ask for any alignment", Alignment, std::integral_constant<std::size_t, 64>,
                   std::integral_constant<std::size_t, 256>, std::integral_constant<std::size_t, 4096>) {
  struct alignas(Alignment::value) wide {
    explicit wide(int v) : value(v) { REQUIRE(reinterpret_cast<std::uintptr_t>(this) % Alignment::value == 0); }
    int value;
  };
  async::queue<wide> q;
  for (int i = 0; i < 20; ++i) q.enqueue(i);
  for (int i = 0; i < 20; ++i) CHECK(q.dequeue()->value == i);
}

TEST_CASE("an overloaded operator& of an element is never called") {
  struct shy : testing::live_count<shy> {
    void operator&() const = delete;
  };
  async::queue<shy> q;
  q.enqueue();
  q.enqueue(shy{});
  CHECK(q.dequeue());
  CHECK(shy::live() == 1);
}

TEST_CASE("elements of every size from 1 to 200 bytes survive a trip") {
  const auto trip = []<std::size_t N>(std::integral_constant<std::size_t, N>) {
    async::queue<std::array<unsigned char, N>> q;
    for (unsigned i = 0; i < 3000; ++i) {
      std::array<unsigned char, N> a;
      a.fill(static_cast<unsigned char>(i));
      q.enqueue(a);
    }
    for (unsigned i = 0; i < 3000; ++i) {
      const auto a = q.dequeue();
      for (const unsigned char c : *a) REQUIRE(c == static_cast<unsigned char>(i));
    }
  };
  trip(std::integral_constant<std::size_t, 1>{});
  trip(std::integral_constant<std::size_t, 3>{});
  trip(std::integral_constant<std::size_t, 20>{});
  trip(std::integral_constant<std::size_t, 31>{});
  trip(std::integral_constant<std::size_t, 32>{});
  trip(std::integral_constant<std::size_t, 63>{});
  trip(std::integral_constant<std::size_t, 64>{});
  trip(std::integral_constant<std::size_t, 200>{});
}

TEST_CASE("the destructor destroys each remaining element once") {
  {
    async::queue<tracked> q;
    for (int i = 0; i < 5000; ++i) q.enqueue(i);
    for (int i = 0; i < 100; ++i) q.dequeue();
    CHECK(tracked::alive == 4900);
  }
  CHECK(tracked::alive == 0);
}

TEST_CASE("a throwing constructor enqueues nothing, and later elements pass") {
  async::queue<tracked> q;
  q.enqueue(1);
  tracked::throw_at = 0;
  CHECK_THROWS_AS(q.enqueue(2), std::runtime_error);
  q.enqueue(3);
  CHECK(q.dequeue()->value == 1);
  CHECK(q.dequeue()->value == 3);
  CHECK_FALSE(q.dequeue());
  CHECK(tracked::alive == 0);
}

TEST_CASE("an element that has thrown does not count once the elements before it are out") {
  async::queue<tracked, tiny> q;
  const auto fail = [&q](int times) {
    for (int i = 0; i < times; ++i) {
      tracked::throw_at = 0;
      CHECK_THROWS_AS(q.enqueue(0), std::runtime_error);
    }
  };
  fail(1);
  CHECK(q.empty());
  CHECK(q.approx_size() == 0);
  fail(100);  // over several segments
  CHECK(q.empty());
  q.enqueue(1);
  CHECK(q.approx_size() == 1);
  fail(100);
  q.enqueue(2);
  CHECK(q.dequeue()->value == 1);
  CHECK(q.approx_size() == 1);
  CHECK(q.dequeue()->value == 2);
  CHECK(q.empty());
  tracked::throw_at = 3;
  const std::vector<int> in(50, 7);
  CHECK_THROWS_AS(q.bulk_enqueue(in.begin(), in.size()), std::runtime_error);
  CHECK(q.approx_size() >= 3);
  for (int i = 0; i < 3; ++i) CHECK(q.dequeue()->value == 7);
  CHECK(q.empty());
}

TEST_CASE("elements that have thrown take no memory, however many, without a dequeue") {
  async::queue<tracked, tiny> q;
  const std::vector<int> in(50, 7);
  testing::alloc_counter counted;
  for (int i = 0; i < 1000; ++i) {
    tracked::throw_at = 0;
    CHECK_THROWS_AS((i % 2 == 0 ? q.enqueue(0) : q.bulk_enqueue(in.begin(), in.size())), std::runtime_error);
  }
  CHECK(counted.live() <= 3);  // segments
  CHECK(q.empty());
  q.enqueue(1);
  CHECK(q.dequeue()->value == 1);
}

TEST_CASE("an exception of an assignment on the way out passes, and the element is gone") {
  async::queue<tracked> q;
  q.enqueue(-1);
  q.enqueue(2);
  {
    tracked out(0);
    CHECK_THROWS_AS(q.dequeue(out), std::runtime_error);
    CHECK(q.dequeue(out));
    CHECK(out.value == 2);
  }
  CHECK(tracked::alive == 0);
}

TEST_CASE("bulk operations keep the order and take any iterator") {
  async::queue<int> q;
  std::vector<int> in(10000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i);
  q.bulk_enqueue(in.begin(), 3000);
  q.bulk_enqueue(in.data() + 3000, 7000);
  std::vector<int> out;
  CHECK(q.bulk_dequeue(std::back_inserter(out), 10) == 10);
  CHECK(q.bulk_dequeue(std::back_inserter(out), 20000) == 9990);
  CHECK(out == in);
  std::istringstream text("1 2 3");
  q.bulk_enqueue(std::istream_iterator<int>(text), 3);
  std::array<int, 3> three{};
  CHECK(q.bulk_dequeue(three.begin(), 3) == 3);
  CHECK(three == std::array<int, 3>{1, 2, 3});
}

TEST_CASE("a bulk_enqueue reads exactly the requested number of elements from a stream") {
  std::istringstream stream("1 2 3 4");
  async::queue<int> q;
  q.bulk_enqueue(std::istream_iterator<int>(stream), 2);
  int next = 0;
  stream >> next;
  CHECK(next == 3);
  CHECK(drain(q) == std::vector<int>{1, 2});
}

TEST_CASE("a bulk_enqueue of no elements changes nothing: later elements are not lost") {
  async::queue<int> q;
  const std::list<int> none;
  q.bulk_enqueue(none.begin(), 0);
  q.enqueue(4);
  std::vector<int> out;
  CHECK(q.bulk_dequeue(std::back_inserter(out), 0) == 0);
  CHECK(drain(q) == std::vector<int>{4});
}

TEST_CASE("a bulk_enqueue that throws has enqueued the elements before") {
  {
    async::queue<tracked> q;
    const std::vector<int> in{1, 2, 3, 4};
    tracked::throw_at = 2;
    CHECK_THROWS_AS(q.bulk_enqueue(in.begin(), 4), std::runtime_error);
    q.enqueue(9);
    CHECK(q.dequeue()->value == 1);
    CHECK(q.dequeue()->value == 2);
    CHECK(q.dequeue()->value == 9);
    CHECK_FALSE(q.dequeue());
  }
  CHECK(tracked::alive == 0);
}

TEST_CASE("a producer that stops inside an enqueue does not hide elements that were enqueued after") {
  for (int round = 0; round < 200; ++round) {
    async::queue<int, stalling> q;
    for (int i = 0; i < round % 7; ++i) q.enqueue(100 + i);
    stalling::stop = true;
    std::thread producer([&q] { q.enqueue(1); });
    testing::wait_while(stalling::stopped, 0);
    q.enqueue(2);
    q.enqueue(3);
    std::vector<int> out = drain(q);
    out.erase(out.begin(), out.begin() + round % 7);
    REQUIRE(out == std::vector<int>{2, 3});
    stalling::stopped = 0;
    producer.join();
    REQUIRE(drain(q) == std::vector<int>{1});
  }
}

TEST_CASE("an element of a skipped producer is enqueued again, never lost and never twice") {
  async::queue<std::unique_ptr<int>, stalling> q;
  stalling::stop = true;
  std::thread producer([&q] { q.enqueue(std::make_unique<int>(1)); });
  testing::wait_while(stalling::stopped, 0);
  CHECK_FALSE(q.dequeue());  // passes over the slot, then the queue is empty
  stalling::stopped = 0;
  producer.join();
  CHECK(**q.dequeue() == 1);
  CHECK_FALSE(q.dequeue());
}

TEST_CASE("enqueue and dequeue allocate nothing in the steady state") {
  async::queue<std::uint64_t> q(100000);
  const auto fill_and_drain = [&q] {
    for (std::uint64_t i = 0; i < 50000; ++i) q.enqueue(i);
    while (q.dequeue()) {
    }
  };
  fill_and_drain();
  testing::alloc_counter counted;
  fill_and_drain();
  CHECK(counted.calls() == 0);
}
