// SPDX-License-Identifier: BSL-1.0
//
// async::select(): which case takes effect, and what becomes of the others.
#include "async/select.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/future.hpp"
#include "async/queue.hpp"

namespace {

using async::after;
using async::nothing_left;
using async::on_pop;
using async::on_push;
using async::on_ready;
using async::otherwise;
using async::select;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

const auto ignore = [](auto&&...) {};

/// Throws when it is moved or copied while it has the value that is set.
struct fragile {
  static inline int bad = -1;
  int value;
  explicit fragile(int v) : value(v) {}
  fragile(fragile&& other) : value(other.value) { fail(); }
  fragile(const fragile& other) : value(other.value) { fail(); }
  fragile& operator=(fragile&&) = default;

 private:
  void fail() const {
    if (value == bad) throw std::runtime_error("fragile");
  }
};

}  // namespace

TEST_CASE("one case takes effect: its handler is called on this thread and its index is returned") {
  async::queue<std::string> a, b;
  async::bounded_queue<int> c(2);
  b.enqueue("b");
  std::string log;
  const auto choose = [&] {
    return select(on_pop(a, [&](std::string s) { log += s + "0"; }),
                  on_pop(b, [&](std::string&& s) { log += s + "1"; }),
                  on_pop(c, [&](const int& n) { log += std::to_string(n); }));
  };
  CHECK(choose() == 1);
  CHECK(log == "b1");
  c.enqueue(7);
  CHECK(choose() == 2);
  CHECK(log == "b17");
  std::thread::id where;
  a.enqueue("a");
  CHECK(select(on_pop(a, [&](const std::string&) { where = std::this_thread::get_id(); })) == 0);
  CHECK(where == std::this_thread::get_id());
}

TEST_CASE("when several are ready, the first takes effect, and the elements of the others stay") {
  async::queue<int> a, b;
  async::future<int> ready = async::make_ready_future(1);
  std::vector<int> got;
  for (int i : {1, 2}) a.enqueue(i), b.enqueue(10 * i);
  const auto keep = [&got](int n) { got.push_back(n); };
  for (const std::size_t expected : {0U, 0U, 1U, 1U, 2U, 2U}) {
    CHECK(select(on_pop(a, keep), on_pop(b, keep), on_ready(ready), after(0s)) == expected);
  }
  CHECK(got == std::vector<int>{1, 2, 10, 20});
  CHECK(ready.get() == 1);
  a.enqueue(3);
  CHECK(select(after(0s), on_pop(a, keep)) == 0);
  CHECK(a.approx_size() == 1);
}

TEST_CASE("eight cases of all kinds are looked at in their order") {
  async::queue<int> a, b;
  async::bounded_queue<int> c(1), d(1), e(1);
  async::promise<int> p;
  async::future<int> f = p.get_future();
  const async::shared_future<int> g = f.share();
  d.enqueue(0);
  e.enqueue(0);
  const auto choose = [&] {
    return select(on_pop(a, ignore), on_pop(b, ignore), on_pop(c, ignore), on_push(d, 1), on_push(e, 1), on_ready(g),
                  after(1h), otherwise());
  };
  CHECK(choose() == 7);
  p.set_value(1);
  CHECK(choose() == 5);
  e.dequeue();
  CHECK(choose() == 4);
  d.dequeue();
  CHECK(choose() == 3);
  c.enqueue(1);
  CHECK(choose() == 2);
  b.enqueue(1);
  CHECK(choose() == 1);
  a.enqueue(1);
  CHECK(choose() == 0);
  CHECK(choose() == 5);
}

TEST_CASE("otherwise() takes effect when no other case does, wherever it stands") {
  async::queue<int> q;
  int calls = 0;
  CHECK(select(otherwise([&] { ++calls; }), on_pop(q, ignore)) == 0);
  q.enqueue(1);
  CHECK(select(otherwise([&] { ++calls; }), on_pop(q, ignore)) == 1);
  CHECK(select(otherwise([&] { ++calls; }), after(0s)) == 1);
  CHECK(calls == 1);
  CHECK(select(otherwise()) == 0);
}

TEST_CASE("after() takes effect when its time is up and never before, the shortest of several first") {
  async::queue<int> q;
  for (const auto limit : {-5ms, 0ms, 1ms, 20ms}) {
    bool is_called = false;
    const auto start = clock_type::now();
    CHECK(select(on_pop(q, ignore), after(limit, [&] { is_called = true; })) == 1);
    CHECK(clock_type::now() - start >= limit);
    CHECK(is_called);
  }
  const auto start = clock_type::now();
  CHECK(select(after(1h), on_pop(q, ignore), after(5ms), after(10h)) == 2);
  CHECK(select(after(std::chrono::duration<double>(0.001))) == 0);
  CHECK(select(after(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN()))) == 0);
  CHECK(clock_type::now() - start < 1h);
}

TEST_CASE("huge limits never pass") {
  async::queue<int> q;
  std::thread later([&q] {
    std::this_thread::sleep_for(5ms);
    q.enqueue(1);
  });
  CHECK(select(after((std::chrono::nanoseconds::max)()), after(std::chrono::hours::max()),
               after(std::chrono::duration<double>(std::numeric_limits<double>::infinity())), on_pop(q, ignore)) == 3);
  later.join();
}

TEST_CASE("elements may be move-only") {
  async::queue<std::unique_ptr<int>> q;
  q.enqueue(std::make_unique<int>(1));
  std::unique_ptr<int> got;
  CHECK(select(on_pop(q, [&](std::unique_ptr<int> p) { got = std::move(p); })) == 0);
  CHECK(*got == 1);
  async::bounded_queue<std::unique_ptr<int>> full(1), empty(1);
  full.enqueue(nullptr);
  CHECK(select(on_push(full, std::move(got)), otherwise()) == 1);
  REQUIRE(got != nullptr);  // untouched
  CHECK(select(on_push(full, std::move(got)), on_push(empty, std::move(got))) == 1);
  CHECK(got == nullptr);
  CHECK(**empty.dequeue() == 1);
}

TEST_CASE("on_push() makes an element of its item, which it copies from an lvalue") {
  async::bounded_queue<std::string> q(3);
  const std::string text = "text";
  std::string other = "other";
  bool is_called = false;
  CHECK(select(on_push(q, text, [&] { is_called = true; })) == 0);
  CHECK(select(on_push(q, other)) == 0);
  CHECK(select(on_push(q, "literal")) == 0);
  CHECK(is_called);
  CHECK(other == "other");
  CHECK(q.dequeue() == "text");
  CHECK(q.dequeue() == "other");
  CHECK(q.dequeue() == "literal");
}

TEST_CASE("closed and drained queues are passed over, and nothing_left says that there is no other case") {
  async::queue<int> a;
  async::bounded_queue<int> b(1);
  a.enqueue(1);
  a.close();
  int calls = 0;
  const auto count = [&](auto&&...) { ++calls; };
  CHECK(select(on_pop(a, count), on_pop(b, count), otherwise()) == 0);
  CHECK(select(on_pop(a, count), on_pop(b, count), otherwise()) == 2);
  b.close();
  calls = 0;
  CHECK(select(on_pop(a, count), on_pop(b, count)) == nothing_left);
  CHECK(select(on_pop(a, count), on_push(b, 1, count), after(1h, count)) == nothing_left);
  CHECK(select(on_pop(a, count), on_pop(b, count), otherwise(count)) == nothing_left);
  CHECK(select(on_pop(a, count), on_pop(b, count), after(0s, count)) == nothing_left);
  CHECK(select(on_pop(a, count), after(0s, count), after(-1s, count), otherwise(count)) == nothing_left);
  CHECK(select(after(0s), on_pop(a, count)) == 0);  // in the order of the cases
  CHECK(select(on_pop(a, count), after(0s), on_pop(b, count)) == 1);
  CHECK(calls == 0);
}

TEST_CASE("a loop of select() takes all that is in the queues and ends when all are closed") {
  async::queue<int> a, b;
  int sum = 0;
  const auto add = [&](int n) { sum += n; };
  std::thread producer([&] {
    for (int i = 1; i <= 100; ++i) (i % 2 == 0 ? a : b).enqueue(i);
    a.close();
    for (int i = 1; i <= 100; ++i) b.enqueue(i);
    b.close();
  });
  while (select(on_pop(a, add), on_pop(b, add)) != nothing_left) {
  }
  producer.join();
  CHECK(sum == 10'100);
}

TEST_CASE("with a handler for it, the end of a queue is a case that takes effect") {
  async::queue<int> q;
  async::bounded_queue<int> b(1);
  std::string log;
  const auto choose = [&] {
    return select(on_pop(
                      q, [&](int n) { log += std::to_string(n); }, [&] { log += 'e'; }),
                  on_push(b, 1, [&] { log += 'p'; }, [&] { log += 'c'; }));
  };
  q.enqueue(5);
  CHECK(choose() == 0);
  CHECK(choose() == 1);
  b.close();
  CHECK(choose() == 1);
  q.close();
  CHECK(choose() == 0);
  CHECK(choose() == 0);
  CHECK(log == "5pcee");
}

TEST_CASE("on_ready() leaves the future to the caller, and calls its handler with it") {
  async::future<std::string> f = async::make_ready_future(std::string("value"));
  CHECK(select(on_ready(f)) == 0);
  std::string got;
  CHECK(select(on_ready(f, [&](async::future<std::string>& ready) { got = ready.get(); })) == 0);
  CHECK(got == "value");
  async::future<void> v = async::make_ready_future();
  CHECK(select(on_ready(v, [](auto& ready) { ready.get(); })) == 0);
  const async::shared_future<int> s = async::make_ready_future(3).share();
  int number = 0;
  CHECK(select(on_ready(s, [&](const async::shared_future<int>& ready) { number = ready.get(); })) == 0);
  CHECK(number == 3);
}

TEST_CASE("a future that has failed is ready") {
  async::promise<int> p;
  async::future<int> f = p.get_future();
  p.set_exception(std::make_exception_ptr(std::runtime_error("failed")));
  CHECK_THROWS_AS(select(on_ready(f, [](auto& ready) { ready.get(); })), std::runtime_error);
  async::future<int> broken = async::promise<int>().get_future();
  CHECK(select(on_ready(broken)) == 0);
  CHECK_THROWS_AS(broken.get(), std::future_error);
}

TEST_CASE("a future without a state is passed over, so that a loop takes each result once") {
  async::future<int> a = async::make_ready_future(1), b = async::make_ready_future(2);
  int sum = 0;
  const auto add = [&](async::future<int>& f) { sum = 10 * sum + f.get(); };
  CHECK(select(on_ready(a, add), on_ready(b, add)) == 0);
  CHECK(select(on_ready(a, add), on_ready(b, add)) == 1);
  CHECK(select(on_ready(a, add), on_ready(b, add)) == nothing_left);
  CHECK(sum == 12);
}

TEST_CASE("an exception of a handler passes; the element has left the queue") {
  async::queue<int> q;
  q.enqueue(1);
  q.enqueue(2);
  CHECK_THROWS_AS(select(on_pop(q, [](int) { throw std::runtime_error("handler"); })), std::runtime_error);
  CHECK(q.dequeue() == 2);
}

TEST_CASE("an exception of an element's move passes: no handler is called, the element is gone, the queue goes on") {
  async::queue<fragile> q;
  async::bounded_queue<fragile> b(2);
  for (int i : {1, 2}) q.enqueue(i), b.enqueue(i);
  int calls = 0;
  const auto count = [&](const fragile& f) { calls += f.value; };
  fragile::bad = 1;
  CHECK_THROWS_AS(select(on_pop(q, count)), std::runtime_error);
  CHECK_THROWS_AS(select(on_pop(b, count)), std::runtime_error);
  CHECK(calls == 0);
  CHECK(select(on_pop(q, count)) == 0);
  CHECK(select(on_pop(b, count)) == 0);
  CHECK(calls == 4);
  const fragile item(1);
  CHECK_THROWS_AS(select(on_push(b, item, [&] { ++calls; })), std::runtime_error);
  fragile::bad = -1;
  CHECK(calls == 4);
  CHECK(b.empty());
  CHECK(select(on_push(b, item)) == 0);
  CHECK(select(on_push(b, item)) == 0);  // there is as much room as before
}

TEST_CASE("the same queue may be in several cases, also to take from and to add to") {
  async::bounded_queue<int> q(1);
  std::vector<std::size_t> log;
  for (int i = 0; i < 4; ++i) log.push_back(select(on_pop(q, ignore), on_pop(q, ignore), on_push(q, i)));
  CHECK(log == std::vector<std::size_t>{2, 0, 2, 0});
}

TEST_CASE("a handler may use the queue and select again") {
  async::queue<int> q;
  q.enqueue(1);
  int inner = 0;
  CHECK(select(on_pop(q, [&](int) {
          q.enqueue(2);
          CHECK(select(on_pop(q, [&](int n) { inner = n; })) == 0);
          q.close();
        })) == 0);
  CHECK(inner == 2);
}
