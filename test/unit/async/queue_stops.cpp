// SPDX-License-Identifier: BSL-1.0
//
// Threads that stop in the worst places of async::queue: nobody waits for them, and nothing is lost, repeated or out of
// order when they go on, however often the segment that they stopped in has been used since.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <vector>

#include "async/queue.hpp"
#include "support/live_count.hpp"
#include "support/stopped_thread.hpp"

using testing::stopped_thread;

namespace {

enum place { claimed, published, marking, looked, passing, assigned };

/// Segments of two slots: nothing shares a line with these elements.
struct stops : async::queue_traits {
  static constexpr unsigned slot_bits = 2;
  static constexpr std::size_t segment_bytes = 1;
  static constexpr unsigned stall_rounds = 1;
  static void claimed() noexcept { stopped_thread::stop_here(place::claimed); }
  static void published() noexcept { stopped_thread::stop_here(place::published); }
  static void marking() noexcept { stopped_thread::stop_here(place::marking); }
  static void looked() noexcept { stopped_thread::stop_here(place::looked); }
  static void passing() noexcept { stopped_thread::stop_here(place::passing); }
};

struct alignas(128) item : testing::live_count<item> {
  explicit item(int v) noexcept : value(v) {}
  item(const item&) noexcept = default;
  item& operator=(const item& other) noexcept {
    stopped_thread::stop_here(assigned);
    value = other.value;
    return *this;
  }
  int value;
};
using queue = async::queue<item, stops>;

/// A thread that enqueues 1 and stops twice: when it has claimed its slot, and when it has published or, if the
/// constructor throws, given the slot up.
class twice_stopped {
 public:
  struct traits : stops {
    static void claimed() noexcept { stop(1); }
    static void published() noexcept { stop(2); }
  };
  using queue = async::queue<item, traits>;

  template <class T>
  explicit twice_stopped(async::queue<T, traits>& q)
      : thread_((reset(), [&q] {
          here = true;
          try {
            q.enqueue(1);
          } catch (const std::runtime_error&) {
          }
        })) {
    wait_for(1);
  }
  twice_stopped(const twice_stopped&) = delete;
  twice_stopped& operator=(const twice_stopped&) = delete;
  ~twice_stopped() { thread_.join(); }
  /// Lets it publish, or give up.
  void go_on() {
    may_pass_.store(1);
    wait_for(2);
  }
  /// Lets it look for a mark, and waits for its end.
  void end() {
    may_pass_.store(2);
    thread_.join();
    thread_ = std::thread([] {});
  }

 private:
  static void reset() noexcept {
    at_.store(0);
    may_pass_.store(0);
  }
  static void stop(int place) noexcept {
    if (!here) return;
    at_.store(place);
    while (may_pass_.load() < place) std::this_thread::yield();
  }
  static void wait_for(int place) noexcept {
    while (at_.load() != place) std::this_thread::yield();
  }
  static inline thread_local bool here = false;
  static inline std::atomic<int> at_{0};
  static inline std::atomic<int> may_pass_{0};
  std::thread thread_;
};
/// 1 cannot be made.
struct alignas(128) fallible {
  explicit fallible(int v) : value(v) {
    if (v == 1) throw std::runtime_error("1");
  }
  int value;
};
/// Segments of whole pages, which trim() discards.
struct alignas(4096) page {
  explicit page(int v) noexcept : value(v) {}
  int value;
};

std::vector<int> drain(queue& q) {
  std::vector<int> out;
  while (const auto i = q.dequeue()) out.push_back(i->value);
  return out;
}

/// Moves both words to the first slot of the segment at which they stand, in a later use.
void use_again(queue& q) {
  for (int i = 0; i < 3; ++i) {
    q.enqueue(-1);
    REQUIRE(q.dequeue()->value == -1);
  }
}

/// Whether `call` ends in time.
template <class Call>
bool ends(Call call, stopped_thread& otherwise) {
  std::atomic<bool> done{false};
  std::thread thread([&] {
    call();
    done = true;
  });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  const bool in_time = done;
  if (!in_time) otherwise.release();
  thread.join();
  return in_time;
}

using words = std::vector<int>;

template <std::size_t Size>
struct large {
  explicit large(int v) noexcept { std::memset(bytes, v, Size); }
  char bytes[Size];
};
/// Takes elements of any size, and keeps their last byte.
struct last_byte {
  template <std::size_t Size>
  last_byte& operator=(const large<Size>& from) noexcept {
    value = from.bytes[Size - 1];
    return *this;
  }
  char value = 0;
};

}  // namespace

TEST_CASE("a consumer that stops before it marks a stalled producer's slot undoes no later mark of that slot") {
  queue q;
  stopped_thread first(claimed, [&] { q.enqueue(1); });
  stopped_thread late(marking, [&] { CHECK_FALSE(q.dequeue()); });
  REQUIRE(late.is_stopped());
  CHECK_FALSE(q.dequeue());
  first.release();
  CHECK(drain(q) == words{1});
  q.enqueue(-1);
  q.dequeue();
  q.enqueue(-1);
  q.dequeue();
  stopped_thread second(claimed, [&] { q.enqueue(2); });
  CHECK_FALSE(q.dequeue());  // has passed over the slot, in the segment's second use
  late.release();
  second.release();
  CHECK(drain(q) == words{2});
}

TEST_CASE("a late mark in a segment's later use does not make the producer of an earlier one enqueue again") {
  twice_stopped::queue q;
  const auto pair = [&q](int value) {
    q.enqueue(value);
    CHECK(q.dequeue()->value == value);
  };
  twice_stopped early(q);
  stopped_thread late(looked, [&q] { CHECK(q.dequeue()->value == 2); });
  REQUIRE(late.is_stopped());  // has seen the slot of `early` at the head, and empty
  early.go_on();
  CHECK(q.dequeue()->value == 1);
  pair(-1);  // the other slot
  pair(-2);
  pair(-2);
  q.enqueue(2);  // in the slot of `early`, in the segment's second use
  late.release();
  early.end();
  CHECK(q.empty());
  CHECK_FALSE(q.dequeue());
}

TEST_CASE("an enqueue that was passed over and has failed is not waited for once the queue is closed") {
  async::queue<fallible, twice_stopped::traits> q;
  twice_stopped early(q);
  q.enqueue(2);
  CHECK(q.dequeue()->value == 2);  // has passed over `early`
  early.go_on();                   // the slot has been given up
  for (int i = 0; i < 6; ++i) {    // the segment is used again, unless `early` is still inside
    q.enqueue(3);
    REQUIRE(q.dequeue()->value == 3);
  }
  early.end();
  q.close();
  std::atomic<bool> done{false};
  std::thread consumer([&] {
    CHECK_FALSE(q.dequeue());
    done = true;
  });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  REQUIRE_MESSAGE(done, "the dequeue does not end");
  consumer.join();
}

TEST_CASE("threads that stop in a segment go on when it has been trimmed meanwhile") {
  async::queue<page, stops> q;
  const int each = 20;
  const auto cycle = [&q] {
    for (int i = 0; i < each; ++i) q.enqueue(i);
    for (int i = 0; i < each; ++i) REQUIRE(q.dequeue()->value == i);
  };
  SUBCASE("a producer that has published") {
    stopped_thread early(published, [&q] { q.enqueue(1); });
    CHECK(q.dequeue()->value == 1);
    cycle();
    if (async::detail::can_discard_pages) CHECK(q.trim() > 0);
  }
  SUBCASE("a consumer that is about to mark a stalled producer's slot, or has not looked at the head again") {
    for (const place where : {marking, looked}) {
      stopped_thread early(claimed, [&q] { q.enqueue(1); });
      stopped_thread late(where, [&q] { q.dequeue(); });
      REQUIRE(late.is_stopped());
      early.release();
      CHECK(q.dequeue()->value == 1);
      cycle();
      q.trim();
      late.release();
    }
  }
  SUBCASE("a producer that is about to construct: its segment is left alone") {
    stopped_thread early(claimed, [&q] { q.enqueue(1); });
    CHECK_FALSE(q.dequeue());  // passes over it
    cycle();
    q.trim();
    early.release();
    CHECK(q.dequeue()->value == 1);
  }
  cycle();
  CHECK_FALSE(q.dequeue());
}

TEST_CASE("a consumer that stops before it passes over a stalled producer blocks no other thread") {
  queue q;
  stopped_thread producer(claimed, [&] { q.enqueue(1); });
  stopped_thread late(passing, [&] { q.dequeue(); });
  REQUIRE(late.is_stopped());
  SUBCASE("while the producer is still stopped") {
    q.enqueue(2);
    std::vector<int> out;
    CHECK(ends([&] { out = drain(q); }, late));
    CHECK(out == words{2});
    producer.release();
    CHECK(drain(q) == words{1});
  }
  SUBCASE("nor when the producer has taken its element back") {
    producer.release();
    std::vector<int> out;
    CHECK(ends([&] { out = drain(q); }, late));
    CHECK(out == words{1});
  }
  late.release();
  CHECK_FALSE(q.dequeue());
}

TEST_CASE("a consumer that stopped before it passed over a slot takes nothing out of order in a later use") {
  queue q;
  stopped_thread producer(claimed, [&] { q.enqueue(1); });
  stopped_thread late(passing, [&] { CHECK(q.dequeue()->value == 2); });
  CHECK_FALSE(q.dequeue());
  producer.release();
  CHECK(drain(q) == words{1});
  q.enqueue(-1);
  q.dequeue();
  q.enqueue(-1);
  q.dequeue();
  for (int i = 2; i < 6; ++i) q.enqueue(i);  // the first two where `late` stopped
  late.release();
  CHECK(drain(q) == words{3, 4, 5});
}

TEST_CASE("a producer that stops after it has published is not mistaken for one that was skipped later") {
  queue q;
  stopped_thread early(published, [&] { q.enqueue(1); });
  CHECK(drain(q) == words{1});
  use_again(q);
  stopped_thread later(claimed, [&] { q.enqueue(2); });
  CHECK_FALSE(q.dequeue());
  early.release();
  CHECK_FALSE(q.dequeue());
  later.release();
  CHECK(drain(q) == words{2});
}

TEST_CASE("a producer that stops before or after it has published can be skipped again and again") {
  queue q;
  for (int round = 0; round < 100; ++round) {
    const bool before = round % 2 == 0;
    stopped_thread producer(before ? claimed : published, [&] { q.enqueue(round); });
    const int other = 1000 + round;
    q.enqueue(other);
    CHECK(drain(q) == (before ? words{other} : words{round, other}));
    producer.release();
    CHECK(drain(q) == (before ? words{round} : words{}));
  }
  CHECK(item::live() == 0);
}

TEST_CASE("a bulk that stops and is skipped keeps its order, and other threads do not wait for it") {
  queue q;
  const int values[] = {1, 2, 3, 4, 5};
  stopped_thread producer(claimed, [&] { q.bulk_enqueue(values, 5); });
  q.enqueue(9);
  CHECK(drain(q) == words{9});
  producer.release();
  CHECK(drain(q) == words{1, 2, 3, 4, 5});
}

TEST_CASE("a bulk enqueues the rest after a skipped element") {
  queue q;
  const int values[] = {1, 2, 3, 4, 5};
  stopped_thread producer(claimed, [&] { q.bulk_enqueue(values, 5); });
  stopped_thread consumer(passing, [&] { CHECK(q.dequeue()->value == 1); });  // has skipped the first
  producer.release();
  consumer.release();
  CHECK(drain(q) == words{2, 3, 4, 5});
}

TEST_CASE("a consumer that stops with its element blocks no other thread, and its slot is not reused meanwhile") {
  queue q;
  for (int i = 1; i <= 3; ++i) q.enqueue(i);
  item out(0);
  stopped_thread consumer(assigned, [&] { q.dequeue(out); });
  REQUIRE(consumer.is_stopped());
  CHECK(drain(q) == words{2, 3});
  for (int i = 0; i < 100; ++i) {
    q.enqueue(i);
    CHECK(q.dequeue()->value == i);
  }
  CHECK(item::live() == 2);  // `out`, and the one that it is assigned from
  consumer.release();
  CHECK(out.value == 1);
  CHECK(item::live() == 1);
}

TEST_CASE("a skipped element moves from slot to slot, so it may be larger than a stack") {
  struct alignas(128) moved {
    explicit moved(int v) noexcept : value(v) {}
    moved(moved&& other) noexcept : value(other.value), moves(other.moves + 1) {}
    int value;
    int moves = 0;
  };
  async::queue<moved, stops> q;
  for (int round = 0; round < 10; ++round) {  // in both slots of a segment
    stopped_thread producer(claimed, [&] { q.enqueue(round); });
    CHECK_FALSE(q.dequeue());
    producer.release();
    const auto out = q.dequeue();
    REQUIRE(out);
    CHECK(out->value == round);
    CHECK(out->moves == 2);  // the other one out of the queue
  }
}

TEST_CASE("a dequeue waits longer before it passes over a large element, which takes longer to be moved") {
  const auto wait = []<std::size_t Size>(std::integral_constant<std::size_t, Size>) {
    using clock = std::chrono::steady_clock;
    clock::duration shortest = (clock::duration::max)();
    for (int i = 0; i < 5; ++i) {
      async::queue<large<Size>, stops> q;
      stopped_thread producer(claimed, [&] { q.enqueue(i); });
      last_byte out;
      const auto start = clock::now();
      CHECK_FALSE(q.dequeue(out));
      shortest = (std::min)(shortest, clock::now() - start);
      producer.release();
      CHECK(q.dequeue(out));
      CHECK(out.value == i);
    }
    return shortest;
  };
  const auto small = wait(std::integral_constant<std::size_t, 64>{});
  CHECK(wait(std::integral_constant<std::size_t, std::size_t{4} << 20>{}) > 5 * small);
}

TEST_CASE("if elements cannot be taken back, consumers wait for a stopped producer: nothing is lost or out of order") {
  struct alignas(128) throws_when_moved {
    explicit throws_when_moved(int v) : value(v) {}
    throws_when_moved(throws_when_moved&& other) noexcept(false) : value(other.value) {}
    throws_when_moved& operator=(throws_when_moved&&) = default;
    int value;
  };
  async::queue<throws_when_moved, stops> q;
  static_assert(!decltype(q)::is_always_lock_free && queue::is_always_lock_free);
  stopped_thread producer(claimed, [&] { q.enqueue(1); });
  q.enqueue(2);
  std::atomic<int> got{0};
  std::thread consumer([&] { got = q.dequeue()->value; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(got == 0);
  producer.release();
  consumer.join();
  CHECK(got == 1);
  CHECK(q.dequeue()->value == 2);
}
