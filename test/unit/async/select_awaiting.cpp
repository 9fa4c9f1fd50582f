// SPDX-License-Identifier: BSL-1.0
//
// co_await async::selection() in coroutines of any kind. In steps: interop_coroutine_select.cpp.
#include <doctest/doctest.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "async/manual_clock.hpp"
#include "async/select.hpp"
#include "support/alloc_counter.hpp"
#include "support/walker.hpp"

using testing::walker;

namespace {

using async::after;
using async::nothing_left;
using async::on_pop;
using async::on_push;
using async::on_ready;
using async::on_set;
using async::otherwise;
using async::selection;
using namespace std::chrono_literals;
using indices = std::vector<std::size_t>;
using ints = std::vector<int>;

/// A coroutine that another thread may end, which frees it.
struct unowned {
  struct promise_type {
    unowned get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

/// Notes what one selection() of two queues gives.
template <class First, class Second>
walker one_of(First& a, Second& b, ints& got, int mark = 0) {
  const auto keep = [&got, mark](int n) { got.push_back(n + mark); };
  if (co_await selection(on_pop(a, keep), on_pop(b, keep)) == nothing_left) got.push_back(-1);
}
walker pop_one(async::queue<int>& q, ints& got) {
  if (const auto n = co_await q.pop()) got.push_back(*n);
}
/// Wakes the coroutine that waits for `q`, and destroys it before it resumes.
walker wake_and_destroy(async::queue<int>& start, async::queue<int>& q, walker& victim) {
  co_await start.pop();
  q.enqueue(1);
  victim.destroy();
}

/// Runs what can run without time passing.
void drain(async::event_loop& loop) {
  for (;;) {
    const auto next = loop.iterate();
    if (!next.have_work || next.delay != 0ns) return;
  }
}

/// Throws when it is moved while it has the value that is set.
struct fragile {
  static inline int bad = -1;
  int value;
  explicit fragile(int v) : value(v) {}
  fragile(fragile&& other) : value(other.value) {
    if (value == bad) throw std::runtime_error("fragile");
  }
  fragile& operator=(fragile&&) = default;
};

}  // namespace

TEST_CASE("selection() takes what is ready without suspending: the first case in the list, and only that") {
  async::queue<int> a;
  async::bounded_queue<int> b(2);
  a.enqueue(1);
  b.enqueue(2);
  ints got;
  const walker w = one_of(a, b, got);
  CHECK(w.is_done());
  CHECK(got == ints{1});
  CHECK(a.empty());
  CHECK(b.approx_size() == 1);
}

TEST_CASE("selection() waits, and resumes in the call that brings the element, on its thread") {
  async::queue<int> a;
  async::bounded_queue<int> b(2);
  ints got;
  SUBCASE("of one queue") {
    const walker w = one_of(a, b, got);
    CHECK(got.empty());
    a.enqueue(1);
    CHECK(got == ints{1});
    CHECK(w.is_done());
  }
  SUBCASE("of the other one") {
    const walker w = one_of(a, b, got);
    b.enqueue(2);
    CHECK(got == ints{2});
    b.enqueue(3);
    CHECK(b.approx_size() == 1);
  }
  SUBCASE("on another thread") {
    std::thread::id where;
    const walker w = [](auto& from, auto& or_from, std::thread::id& to) -> walker {
      const auto note = [&to](int) { to = std::this_thread::get_id(); };
      co_await selection(on_pop(from, note), on_pop(or_from, note));
    }(a, b, where);
    std::thread other([&b] { b.enqueue(1); });
    const std::thread::id expected = other.get_id();
    other.join();
    CHECK(where == expected);
  }
}

TEST_CASE("selection() can be awaited again and again, and gives the index of the case") {
  async::queue<int> a, b;
  indices which;
  const walker w = [](auto& from, auto& or_from, indices& to) -> walker {
    const auto ignore = [](int) {};
    std::size_t found = 0;
    do {
      to.push_back(found = co_await selection(on_pop(from, ignore), on_pop(or_from, ignore)));
    } while (found != nothing_left);
  }(a, b, which);
  b.enqueue(1);
  a.enqueue(1);
  b.enqueue(1);
  a.close();
  b.enqueue(1);
  CHECK_FALSE(w.is_done());
  b.close();
  CHECK(w.is_done());
  CHECK(which == indices{1, 0, 1, 1, nothing_left});
}

TEST_CASE("a loop of selection() with after(0s) behind its queue ends when the queue is closed and drained") {
  async::queue<int> q;
  q.enqueue(1);
  q.close();
  indices which;
  const walker w = [](auto& from, indices& to) -> walker {
    for (int rounds = 0; rounds != 3; ++rounds) {
      to.push_back(co_await selection(on_pop(from, [](int) {}), after(0s)));
      if (to.back() == nothing_left) break;
    }
  }(q, which);
  CHECK(w.is_done());
  CHECK(which == indices{0, nothing_left});
}

TEST_CASE("on_push() waits for room, and leaves an item that does not go in as it was") {
  async::bounded_queue<std::unique_ptr<int>> a(1), b(1);
  a.enqueue(std::make_unique<int>(1));
  b.enqueue(std::make_unique<int>(2));
  auto item = std::make_unique<int>(3);
  std::size_t which = 9;
  const walker w = [](auto& to, auto& or_to, auto& what, std::size_t& index) -> walker {
    index = co_await selection(on_push(to, std::move(what)), on_push(or_to, std::move(what)), otherwise());
    if (index != 2 || what == nullptr) co_return;
    index = co_await selection(on_push(to, std::move(what)), on_push(or_to, std::move(what)));
  }(a, b, item, which);
  CHECK(which == 2);
  REQUIRE(item != nullptr);
  CHECK(**b.dequeue() == 2);
  CHECK(which == 1);
  CHECK(item == nullptr);
  CHECK(**b.dequeue() == 3);
}

TEST_CASE("a handler for closing makes the case take effect") {
  async::queue<int> a, b;
  std::string log;
  const walker w = [](auto& from, auto& or_from, std::string& to) -> walker {
    const auto ignore = [](int) {};
    co_await selection(on_pop(from, ignore), on_pop(or_from, ignore, [&to] { to += "closed"; }));
    to += ".";
  }(a, b, log);
  a.close();
  CHECK(log.empty());
  b.close();
  CHECK(log == "closed.");
}

TEST_CASE("a future ends the wait when it is ready, and stays the coroutine's") {
  async::queue<int> q;
  async::promise<int> p;
  async::future<int> f = p.get_future();
  int value = 0;
  const walker w = [](auto& from, async::future<int>& ready, int& to) -> walker {
    co_await selection(on_pop(from, [](int) {}), on_ready(ready, [&to](async::future<int>& r) { to = r.get(); }));
  }(q, f, value);
  p.set_value(7);
  CHECK(value == 7);
  CHECK_FALSE(f.valid());
  q.enqueue(1);
  CHECK(q.approx_size() == 1);
}

TEST_CASE("an event ends the wait when it is set, also if it is reset at once, and before the wait") {
  async::queue<int> q;
  async::event e;
  indices which;
  const auto wait = [](auto& from, async::event& set, indices& to) -> walker {
    to.push_back(co_await selection(on_pop(from, [](int) {}), on_set(set)));
  };
  const walker first = wait(q, e, which), second = wait(q, e, which);
  CHECK(which.empty());
  e.set();
  e.reset();
  CHECK(which == indices{1, 1});
  walker third = wait(q, e, which);
  q.enqueue(1);
  CHECK(which == indices{1, 1, 0});
  e.set();
  walker fourth = wait(q, e, which);
  CHECK(which == indices{1, 1, 0, 1});
}

TEST_CASE("after() counts from the wait on, by the loop whose callback the coroutine is in") {
  async::manual_clock clock;
  async::event_loop loop{clock};
  async::queue<int> q;
  indices which;
  ints got;
  const auto wait = [&](std::chrono::milliseconds limit) -> walker {
    which.push_back(co_await selection(after(10h), on_pop(q, [&](int n) { got.push_back(n); }), after(limit)));
  };
  std::vector<walker> all;
  loop.post([&] {
    all.push_back(wait(20ms));
    all.push_back(wait(30ms));
    all.push_back(wait(0ms));
  });
  drain(loop);
  CHECK(which == indices{2});
  clock.advance(21ms);
  drain(loop);
  CHECK(which == indices{2, 2});
  q.enqueue(5);
  CHECK(which == indices{2, 2, 1});
  CHECK(got == ints{5});
  clock.advance(20ms);
  drain(loop);
  CHECK(which.size() == 3);
}

TEST_CASE("after() uses a loop of the shared pool where there is no other") {
  async::promise<std::size_t> end;
  async::future<std::size_t> which = end.get_future();
  async::queue<int> q;
  [](auto& from, async::promise<std::size_t> to) -> unowned {
    const std::size_t found = co_await selection(on_pop(from, [](int) {}), after(1ms));
    to.set_value(found);
  }(q, std::move(end));
  CHECK(which.get() == 1);
}

TEST_CASE("while the shared pool is paused, after() waits, and the queue does not") {
  async::threadpool& shared = async::threadpool::shared();
  const std::size_t size = shared.size();
  async::queue<int> q;
  const auto wait = [&q](std::chrono::milliseconds limit, async::promise<std::size_t> to) -> unowned {
    const std::size_t found = co_await selection(on_pop(q, [](int) {}), after(limit));
    to.set_value(found);
  };
  shared.configurepool(0);
  async::promise<std::size_t> first;
  async::future<std::size_t> element = first.get_future(), time;
  wait(1h, std::move(first));
  for (bool is_at_rest = false; !is_at_rest;) {  // a worker may be on its way out
    async::promise<std::size_t> second;
    time = second.get_future();
    wait(1ms, std::move(second));
    is_at_rest = time.wait_for(20ms) == std::future_status::timeout;
  }
  q.enqueue(1);
  CHECK(element.get() == 0);
  shared.configurepool(size);
  CHECK(time.get() == 1);
}

TEST_CASE("a coroutine whose loop ends while it waits gets broken_promise") {
  async::queue<int> q;
  std::vector<walker> all;
  {
    async::event_loop loop;
    loop.post([&] {
      all.push_back([](auto& from) -> walker { co_await selection(on_pop(from, [](int) {}), after(1h)); }(q));
    });
    loop.iterate();
    CHECK_FALSE(all[0].is_done());
  }
  REQUIRE(all[0].is_done());
  CHECK_THROWS_AS(all[0].rethrow(), std::future_error);
  q.enqueue(1);
  CHECK(q.approx_size() == 1);
}

TEST_CASE("waiters of a queue are served first come, first served, whether they select or not") {
  async::queue<int> a, b;
  ints got;
  const walker first = one_of(a, b, got, 10), second = pop_one(b, got), third = one_of(b, a, got, 30);
  b.enqueue(1);
  CHECK(got == ints{11});
  b.enqueue(2);
  CHECK(got == ints{11, 2});
  a.enqueue(3);
  CHECK(got == ints{11, 2, 33});
}

TEST_CASE("a coroutine that is woken by two queues takes one element, and the other one goes to the next waiter") {
  async::queue<int> start, a, b;
  ints got;
  const walker waker = [](auto& go, auto& x, auto& y) -> walker {
    co_await go.pop();
    x.enqueue(1);  // both wake it before it can look
    y.enqueue(2);
  }(start, a, b);
  const walker both = one_of(a, b, got, 10), next = pop_one(b, got);
  start.enqueue(0);
  CHECK(got == ints{11, 2});
  CHECK(a.empty());
  CHECK(b.empty());
}

TEST_CASE("a coroutine that is destroyed while it waits leaves all queues") {
  async::queue<int> a, b;
  ints got;
  walker gone = one_of(a, b, got, 10);
  const walker next = one_of(b, a, got, 20);
  gone.destroy();
  a.enqueue(1);
  CHECK(got == ints{21});
  b.enqueue(2);
  CHECK(b.approx_size() == 1);
}

TEST_CASE("a coroutine that is destroyed after it was woken passes the wake-up on") {
  async::queue<int> start, a, b;
  ints got;
  walker gone = one_of(a, b, got, 10);
  const walker next = pop_one(b, got);
  const walker waker = wake_and_destroy(start, b, gone);
  start.enqueue(0);
  CHECK(got == ints{1});
}

TEST_CASE("a coroutine that is destroyed after it was woken leaves no memory behind") {
  const auto once = [] {
    async::queue<int> start, a, b;
    ints got;
    walker gone = one_of(a, b, got);
    const walker waker = wake_and_destroy(start, b, gone);
    start.enqueue(0);
    CHECK(got.empty());
  };
  once();
  const testing::alloc_counter counter;
  for (int i = 0; i < 100; ++i) once();
  CHECK(counter.live() < 100);
}

TEST_CASE("exceptions of handlers and elements come out of co_await; no other element is gone") {
  async::queue<fragile> a, b;
  const auto wait = [](auto& from, auto& or_from) -> walker {
    co_await selection(on_pop(from, [](fragile) { throw std::logic_error("handler"); }),
                       on_pop(or_from, [](const fragile&) {}));
  };
  const walker first = wait(a, b);
  a.enqueue(1);
  CHECK_THROWS_AS(first.rethrow(), std::logic_error);
  const walker second = wait(a, b);
  fragile::bad = 2;
  b.enqueue(2);
  CHECK_THROWS_WITH_AS(second.rethrow(), "fragile", std::runtime_error);
  fragile::bad = -1;
  b.enqueue(3);
  CHECK(a.empty());
  CHECK(b.approx_size() == 1);
}

TEST_CASE(
    "without memory co_await throws std::bad_alloc, and nothing has happened; in the steady state it takes none") {
  async::queue<int> a, b;
  const auto wait = [](auto& from, auto& or_from) -> walker {
    co_await selection(on_pop(from, [](int) {}), on_pop(or_from, [](int) {}), after(1h));
  };
  const auto run = [&](auto&& f) {
    async::manual_clock clock;
    async::event_loop loop{clock};
    loop.post(f);
    drain(loop);
  };
  std::size_t failed = 0, thrown = 0;
  for (bool has_failed = true; has_failed;) {
    static_cast<void>(async::threadpool::trim());
    bool is_done = false;
    std::thread fresh([&] {  // without recycled memory
      run([&] {
        testing::fail_alloc failing(failed);
        try {
          const walker w = wait(a, b);
          is_done = w.is_done();
          if (is_done) CHECK_THROWS_AS(w.rethrow(), std::bad_alloc);
        } catch (const std::bad_alloc&) {  // of the frame
          is_done = true;
        }
        has_failed = failing.has_failed();
      });
    });
    fresh.join();
    if (has_failed) ++failed;
    if (is_done) ++thrown;  // else what failed was the cache of blocks, which can do without
    CHECK((has_failed || !is_done));
    REQUIRE(failed < 100);
  }
  CHECK(thrown == 3);  // of the frame, the wait and the timer

  run([&] {
    const auto round = [&] {
      const walker w = wait(a, b);
      b.enqueue(1);
    };
    round();
    const testing::alloc_counter counter;
    for (int i = 0; i < 100; ++i) round();
    CHECK(counter.calls() <= 100);  // the frames
  });
  CHECK(b.empty());
}
