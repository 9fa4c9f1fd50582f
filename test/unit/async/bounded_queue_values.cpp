// SPDX-License-Identifier: BSL-1.0
//
// Old values of a dequeue's target that use the async::bounded_queue when they die.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/event.hpp"
#include "async/future.hpp"
#include "support/coroutines.hpp"

using async::bounded_queue;
using namespace std::chrono_literals;

namespace {

/// Calls at_end(home) when its value dies.
template <void (*at_end)(void*) noexcept>
class last_words {
 public:
  last_words() = default;
  explicit last_words(int n, void* home = nullptr) noexcept : number(n), home_(home) {}
  last_words(last_words&& from) noexcept : number(from.number), home_(std::exchange(from.home_, nullptr)) {}
  last_words& operator=(last_words&& from) noexcept {
    last_words old(std::move(*this));
    number = from.number;
    home_ = std::exchange(from.home_, nullptr);
    return *this;
  }
  ~last_words() {
    if (home_ != nullptr) at_end(home_);
  }

  int number = 0;

 private:
  void* home_ = nullptr;
};

void put_nine(void* queue) noexcept;
using returned = last_words<&put_nine>;
using pool = bounded_queue<returned>;
void put_nine(void* queue) noexcept { CHECK(static_cast<pool*>(queue)->enqueue(9)); }

void set_event(void* e) noexcept { static_cast<async::event*>(e)->set(); }
using last_signal = last_words<&set_event>;

struct request {
  int number = 0;
  async::promise<int> done;
};

testing::other_coroutine push_when_set(async::event& e, bounded_queue<last_signal>& q, bool& is_in) {
  co_await e.on_set();
  is_in = co_await q.push(7);
}

/// Its assignment throws once.
struct fragile {
  int number = 0;
  bool fails = false;

  explicit fragile(int n = 0, bool f = false) noexcept : number(n), fails(f) {}
  fragile(fragile&&) noexcept = default;
  fragile& operator=(fragile&& from) {
    if (from.fails) throw std::runtime_error("assignment");
    number = from.number;
    return *this;
  }
};

}  // namespace

TEST_CASE_TEMPLATE("the old value of a dequeue's target may use the full queue", Capacity,
                   std::integral_constant<std::size_t, 1>, std::integral_constant<std::size_t, 4>) {
  pool queue(Capacity::value);
  const auto fill = [&queue] {
    int n = 0;
    while (queue.enqueue(++n)) continue;
  };
  const auto drain = [&queue] {
    std::vector<int> all;
    while (const auto value = queue.dequeue()) all.push_back(value->number);
    return all;
  };
  const auto check = [&](auto dequeue) {
    fill();
    returned out(0, &queue);
    CHECK(dequeue(out));
    CHECK(out.number == 1);
    const std::vector<int> rest = drain();
    CHECK(rest.size() == Capacity::value);
    CHECK(rest.back() == 9);
  };
  check([&](returned& out) { return queue.dequeue(out); });
  check([&](returned& out) { return queue.blocking_dequeue(out); });
  check([&](returned& out) { return queue.dequeue_for(out, 1h); });
  check([&](returned& out) { return queue.bulk_dequeue(&out, 1) == 1; });
}

TEST_CASE("old values that a bulk replaces may use the queue") {
  pool queue(4);
  for (int n = 1; n < 5; ++n) queue.enqueue(n);
  std::vector<returned> out(4);
  for (returned& value : out) value = returned(0, &queue);
  CHECK(queue.bulk_dequeue(out.begin(), 4) == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(out[i].number == static_cast<int>(i) + 1);
  CHECK(queue.approx_size() == 4);
  CHECK(queue.dequeue()->number == 9);
}

TEST_CASE("a dequeue that breaks the promise in its target may run a continuation that uses the queue") {
  bounded_queue<request> queue(1);
  request out{1, {}};
  auto retried = out.done.get_future().then([&](async::future<int> answer) {
    try {
      return answer.get();
    } catch (const std::exception&) {
      return queue.enqueue(request{2, {}}) ? 100 : -1;
    }
  });
  queue.enqueue(request{3, {}});
  CHECK(queue.dequeue(out));
  CHECK(out.number == 3);
  CHECK(retried.get() == 100);
  CHECK(queue.dequeue(out));
  CHECK(out.number == 2);
}

TEST_CASE("a dequeue whose target wakes a coroutine may find it in the queue") {
  async::event gone;
  bounded_queue<last_signal> queue(1);
  bool is_in = false;
  const testing::other_coroutine one = push_when_set(gone, queue, is_in);
  last_signal out(0, &gone);
  queue.enqueue(1);
  CHECK(queue.dequeue(out));
  CHECK(out.number == 1);
  CHECK(is_in);
  CHECK(queue.dequeue()->number == 7);
  one.handle.destroy();
}

TEST_CASE("an assignment that throws loses its element and no other, and the slot is free") {
  bounded_queue<fragile> queue(2);
  fragile out;
  queue.enqueue(1, true);
  queue.enqueue(2);
  CHECK_THROWS_AS(queue.dequeue(out), std::runtime_error);
  CHECK(queue.enqueue(3, true));
  CHECK(queue.blocking_dequeue(out));
  CHECK(out.number == 2);
  queue.enqueue(4);
  std::vector<fragile> all(2);
  CHECK_THROWS_AS(queue.bulk_dequeue(all.begin(), 2), std::runtime_error);
  CHECK(queue.bulk_dequeue(all.begin(), 2) == 1);
  CHECK(all[0].number == 4);
  CHECK(queue.empty());
}
