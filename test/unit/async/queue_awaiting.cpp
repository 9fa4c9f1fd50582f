// SPDX-License-Identifier: BSL-1.0
//
// co_await of queues in coroutines of any kind. In steps: interop_coroutine_queues.cpp.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/walker.hpp"

using testing::walker;

namespace {

/// Queues of either kind with room for `capacity` elements.
template <class T>
struct unbounded : async::queue<T> {
  explicit unbounded(std::size_t) {}
};
#define EITHER_QUEUE(T) unbounded<T>, async::bounded_queue<T>

using ints = std::vector<int>;
constexpr int closed = -1;

template <class Queue>
walker pop_one(Queue& q, ints& to, int mark = 0) {
  const std::optional<int> got = co_await q.pop();
  to.push_back(got ? *got + mark : closed);
}
template <class Queue>
walker pop_all(Queue& q, ints& to) {
  while (const std::optional<int> got = co_await q.pop()) to.push_back(*got);
  to.push_back(closed);
}
template <class Queue>
walker push_one(Queue& q, int value, ints& to) {
  const bool is_in = co_await q.push(value);
  to.push_back(is_in ? value : closed);
}

}  // namespace

TEST_CASE_TEMPLATE("pop() takes an element that is there without suspending", Queue, EITHER_QUEUE(int)) {
  Queue q(4);
  ints got;
  q.enqueue(1);
  const walker w = pop_one(q, got);
  CHECK(got == ints{1});
  CHECK(w.is_done());
}

TEST_CASE_TEMPLATE("pop() waits for an element, and resumes in the call that enqueues it", Queue, EITHER_QUEUE(int)) {
  Queue q(4);
  ints got;
  const walker w = pop_all(q, got);
  CHECK(got.empty());
  q.enqueue(1);
  CHECK(got == ints{1});
  q.enqueue(2);
  const int more[] = {3, 4, 5};
  q.bulk_enqueue(more, 3);
  CHECK(got == ints{1, 2, 3, 4, 5});
  CHECK(q.empty());
  CHECK(!w.is_done());
}

TEST_CASE_TEMPLATE("pop() resumes on the thread that enqueues", Queue, EITHER_QUEUE(int)) {
  Queue q(4);
  std::thread::id where;
  const walker w = [](Queue& from, std::thread::id& to) -> walker {
    co_await from.pop();
    to = std::this_thread::get_id();
  }(q, where);
  std::thread other([&q] { q.enqueue(1); });
  const std::thread::id expected = other.get_id();
  other.join();
  CHECK(where == expected);
}

TEST_CASE_TEMPLATE("close() resumes all that wait, and what is inside is taken first", Queue, EITHER_QUEUE(int)) {
  Queue q(4);
  ints got;
  const walker a = pop_all(q, got), b = pop_all(q, got);
  q.close();
  CHECK(got == ints{closed, closed});

  Queue filled(4);
  ints rest;
  filled.enqueue(1);
  filled.enqueue(2);
  filled.close();
  const walker c = pop_all(filled, rest);
  CHECK(rest == ints{1, 2, closed});
  CHECK(c.is_done());
}

TEST_CASE("push() of a bounded queue waits for room") {
  async::bounded_queue<int> q(1);
  ints sent;
  const walker a = push_one(q, 1, sent), b = push_one(q, 2, sent), c = push_one(q, 3, sent);
  CHECK(sent == ints{1});
  CHECK(q.dequeue() == 1);
  CHECK(sent == ints{1, 2});
  int out = 0;
  CHECK(q.blocking_dequeue(out));
  CHECK(out == 2);
  CHECK(sent == ints{1, 2, 3});
  CHECK(q.bulk_dequeue(&out, 1) == 1);
  CHECK(out == 3);
  CHECK(q.empty());
}

TEST_CASE("close() ends push(): the element is not enqueued") {
  async::bounded_queue<int> q(1);
  ints sent;
  const walker a = push_one(q, 1, sent), b = push_one(q, 2, sent);
  q.close();
  CHECK(sent == ints{1, closed});
  CHECK(q.dequeue() == 1);
  CHECK(!q.dequeue());
  const walker c = push_one(q, 3, sent);
  CHECK(sent == ints{1, closed, closed});
}

TEST_CASE("push() of an unbounded queue never waits") {
  async::queue<int> q;
  ints sent;
  const walker a = push_one(q, 1, sent), b = push_one(q, 2, sent);
  CHECK(sent == ints{1, 2});
  CHECK(q.approx_size() == 2);
  q.close();
  const walker c = push_one(q, 3, sent);
  CHECK(sent == ints{1, 2, closed});
}

TEST_CASE_TEMPLATE("coroutines are served in the order in which they began to wait", Queue, EITHER_QUEUE(int)) {
  Queue q(8);
  ints got;
  std::vector<walker> all;
  for (int i = 1; i <= 5; ++i) all.push_back(pop_one(q, got, 10 * i));
  for (int i = 1; i <= 3; ++i) q.enqueue(i);
  const int more[] = {4, 5};
  q.bulk_enqueue(more, 2);
  CHECK(got == ints{11, 22, 33, 44, 55});
}

TEST_CASE("producers get room in the order in which they began to wait") {
  async::bounded_queue<int> q(1);
  ints sent, got;
  std::vector<walker> all;
  for (int i = 0; i < 6; ++i) all.push_back(push_one(q, i, sent));
  while (const std::optional<int> next = q.dequeue()) got.push_back(*next);
  CHECK(got == ints{0, 1, 2, 3, 4, 5});
  CHECK(sent == got);
}

TEST_CASE_TEMPLATE("a coroutine whose element was taken by another stays in front", Queue, EITHER_QUEUE(int)) {
  Queue q(8);
  ints got;
  const auto greedy = [](Queue& from, ints& to) -> walker {
    to.push_back(*co_await from.pop());
    to.push_back(*from.dequeue());
  };
  const walker a = greedy(q, got), b = pop_one(q, got, 10), c = pop_one(q, got, 20);
  const int two[] = {1, 2};
  q.bulk_enqueue(two, 2);
  CHECK(got == ints{1, 2});
  q.enqueue(3);
  CHECK(got == ints{1, 2, 13});
  q.enqueue(4);
  CHECK(got == ints{1, 2, 13, 24});
}

TEST_CASE_TEMPLATE("elements may be move-only, also through push()", Queue, EITHER_QUEUE(std::unique_ptr<int>)) {
  Queue q(1);
  std::vector<int> got;
  const auto consumer = [](Queue& from, ints& to) -> walker {
    while (const std::optional<std::unique_ptr<int>> p = co_await from.pop()) to.push_back(**p);
  };
  const auto producer = [](Queue& to) -> walker {
    for (int i = 0; i < 3; ++i) CHECK(co_await to.push(std::make_unique<int>(i)));
    to.close();
  };
  const walker p = producer(q), c = consumer(q, got);
  CHECK(got == ints{0, 1, 2});
  CHECK(p.is_done());
  CHECK(c.is_done());
}

TEST_CASE("push() keeps copies of its arguments while it waits") {
  async::bounded_queue<std::string> q(1);
  q.enqueue("first");
  std::string text(40, 'a');
  const walker w = [](auto& to, std::string& s) -> walker {
    auto sent = to.push(s, std::size_t{1}, std::size_t{3});
    s = "gone";
    CHECK(co_await std::move(sent));
  }(q, text);
  CHECK(q.dequeue() == "first");
  CHECK(q.dequeue() == "aaa");
}

namespace {

struct fragile_move {
  explicit fragile_move(int v, bool c = false) : value(v) {
    if (c) throw std::runtime_error("made");
  }
  fragile_move(fragile_move&& other) noexcept(false) : value(other.value) {
    if (value < 0) throw std::runtime_error("moved");
  }
  fragile_move& operator=(fragile_move&&) = default;
  int value;
};

}  // namespace

TEST_CASE_TEMPLATE("an exception of an element's move is thrown in the coroutine", Queue, EITHER_QUEUE(fragile_move)) {
  Queue q(4);
  ints got;
  const auto consumer = [](Queue& from, ints& to) -> walker {
    for (int i = 0; i < 3; ++i) {
      try {
        const std::optional<fragile_move> x = co_await from.pop();
        to.push_back(x->value);
      } catch (const std::runtime_error&) {
        to.push_back(-100);
      }
    }
  };
  q.enqueue(-1);
  const walker c = consumer(q, got);
  CHECK(got == ints{-100});
  q.enqueue(-2);
  CHECK(got == ints{-100, -100});
  q.enqueue(3);
  CHECK(got == ints{-100, -100, 3});
}

TEST_CASE("an exception of a constructor is thrown in the coroutine that pushes, and the room goes to the next") {
  async::bounded_queue<fragile_move> q(1);
  q.enqueue(1);
  ints seen;
  const auto producer = [](auto& to, int value, bool fails, ints& notes) -> walker {
    try {
      const bool is_in = co_await to.push(value, fails);
      notes.push_back(is_in ? value : closed);
    } catch (const std::runtime_error&) {
      notes.push_back(-value);
    }
  };
  const walker a = producer(q, 2, true, seen), b = producer(q, 3, false, seen);
  CHECK(seen.empty());
  CHECK(q.dequeue()->value == 1);
  CHECK(seen == ints{-2, 3});
  CHECK(q.dequeue()->value == 3);
}

TEST_CASE_TEMPLATE("a coroutine that is destroyed while it waits leaves the queue", Queue, EITHER_QUEUE(int)) {
  Queue q(4);
  ints got;
  walker a = pop_one(q, got, 10), b = pop_one(q, got, 20), c = pop_one(q, got, 30);
  b.destroy();
  q.enqueue(1);
  q.enqueue(2);
  q.enqueue(3);
  CHECK(got == ints{11, 32});
  CHECK(q.dequeue() == 3);
}

TEST_CASE("a producer that is destroyed while it waits leaves the queue, and its element is gone") {
  async::bounded_queue<int> q(1);
  ints sent;
  walker a = push_one(q, 1, sent), b = push_one(q, 2, sent), c = push_one(q, 3, sent);
  b.destroy();
  CHECK(q.dequeue() == 1);
  CHECK(q.dequeue() == 3);
  CHECK(sent == ints{1, 3});
}

TEST_CASE_TEMPLATE("a coroutine destroys another that was chosen in the same call: its element goes to the next", Queue,
                   EITHER_QUEUE(int)) {
  Queue q(4);
  ints got;
  walker victim;
  const auto killer = [](Queue& from, ints& to, walker& other) -> walker {
    to.push_back(*co_await from.pop());
    other.destroy();
  };
  const walker a = killer(q, got, victim);
  victim = pop_one(q, got, 10);
  const walker c = pop_one(q, got, 20);
  const int two[] = {1, 2};
  q.bulk_enqueue(two, 2);
  CHECK(got == ints{1, 22});
}

TEST_CASE_TEMPLATE("a coroutine resumed by close() destroys others that were resumed with it", Queue,
                   EITHER_QUEUE(int)) {
  Queue q(4);
  ints got;
  std::vector<walker> others;
  const auto killer = [](Queue& from, ints& to, std::vector<walker>& all) -> walker {
    to.push_back(co_await from.pop() ? 0 : closed);
    all.clear();
  };
  const walker a = killer(q, got, others);
  for (int i = 0; i < 100; ++i) others.push_back(pop_one(q, got));
  q.close();
  CHECK(got == ints{closed});
}

TEST_CASE_TEMPLATE("a coroutine may wait for more than what a bulk has published so far", Queue, EITHER_QUEUE(int)) {
  Queue q(8);
  ints got;
  const walker w = pop_all(q, got);
  const std::list<int> some{1, 2, 3, 4};  // no contiguous range: each element is published and told at once
  q.bulk_enqueue(some.begin(), some.size());
  CHECK(got == ints{1, 2, 3, 4});
}

TEST_CASE("a coroutine may dequeue while a bulk gives back what it could not construct") {
  async::bounded_queue<fragile_move> q(8);
  ints got;
  const auto consumer = [](auto& from, ints& to) -> walker {
    while (const std::optional<fragile_move> x = co_await from.pop()) to.push_back(x->value);
  };
  const walker w = consumer(q, got);
  struct maker {
    operator fragile_move() const { return fragile_move(value, value == 3); }
    int value;
  };
  const std::list<maker> some{{1}, {2}, {3}, {4}};
  CHECK_THROWS_AS(q.bulk_enqueue(some.begin(), some.size()), std::runtime_error);
  q.enqueue(5);
  CHECK(got == ints{1, 2, 5});
}

TEST_CASE("100,000 coroutines that hand an element on from queue to queue need no stack") {
  constexpr std::size_t count = 100'000;
  std::deque<async::bounded_queue<int>> queues;
  for (std::size_t i = 0; i <= count; ++i) queues.emplace_back(1U);
  std::vector<walker> all;
  const auto link = [](auto& from, auto& to) -> walker {
    while (const std::optional<int> x = co_await from.pop()) {
      if (!co_await to.push(*x + 1)) co_return;
    }
    to.close();
  };
  for (std::size_t i = 0; i != count; ++i) all.push_back(link(queues[i], queues[i + 1]));
  queues[0].enqueue(0);
  CHECK(queues[count].dequeue() == static_cast<int>(count));
  queues[0].close();
  CHECK(queues[count].is_closed());
}

TEST_CASE("100,000 coroutines that pass an element on in one queue need no stack") {
  constexpr int count = 100'000;
  async::queue<int> q;
  std::vector<walker> all;
  const auto link = [](auto& ring) -> walker { ring.enqueue(*co_await ring.pop() + 1); };
  for (int i = 0; i != count; ++i) all.push_back(link(q));
  q.enqueue(0);
  CHECK(q.dequeue() == count);
}

namespace {

using requests = async::queue<async::promise<int>>;

walker serve(requests& from) {
  while (auto asked = co_await from.pop()) asked->set_value(42);
}
/// The answer of the coroutine above; 0: none within a second.
int ask(requests& server) {
  async::promise<int> p;
  async::future<int> answer = p.get_future();
  server.enqueue(std::move(p));
  return answer.wait_for(std::chrono::seconds(1)) == std::future_status::ready ? answer.get() : 0;
}
/// The result of f(), called by a coroutine that resumes inside an enqueue().
template <class F>
int in_coroutine(F f) {
  async::queue<int> start;
  int result = 0;
  const walker w = [](async::queue<int>& from, F call, int& to) -> walker {
    co_await from.pop();
    to = call();
  }(start, f, result);
  start.enqueue(1);
  return result;
}

}  // namespace

TEST_CASE("while a resumed coroutine waits, the tasks of its wait are answered by coroutines that they wake") {
  requests server;
  const walker w = serve(server);
  async::threadpool pool(1);
  const auto asks = [&server] { return ask(server); };
  const auto posted = [&] { return pool.post(asks).get(); };
  const auto called = [&] { return async::async(asks).get(); };
  const auto grouped = [&] {
    int result = 0;
    async::task_group group(pool);
    group.run([&] { result = asks(); });
    group.wait();
    return result;
  };
  const auto in_turn = [&] {
    async::promise<int> p;
    async::future<int> answer = p.get_future();
    pool.loop(0).post([&] { server.enqueue(std::move(p)); });
    return answer.get();
  };
  CHECK(pool.post([&] { return in_coroutine(posted); }).get() == 42);
  CHECK(pool.post([&] { return in_coroutine(called); }).get() == 42);
  CHECK(pool.post([&] { return in_coroutine(grouped); }).get() == 42);
  CHECK(pool.post([&] { return in_coroutine(in_turn); }).get() == 42);
  CHECK(in_coroutine(grouped) == 42);
}

TEST_CASE("the functions of a fork and join in a resumed coroutine are answered by coroutines that they wake") {
  requests server;
  const walker w = serve(server);
  async::threadpool pool(1);
  const auto check = [&](auto call) {
    CHECK(pool.post([&] { return in_coroutine(call); }).get() == 42);
    CHECK(in_coroutine(call) == 42);
  };
  check([&] {
    int result = 0;
    async::parallel_for(pool, 0, 1, [&](int) { result = ask(server); });
    return result;
  });
  check([&] { return async::parallel_reduce(pool, 0, 1, 0, [&](int, int) { return ask(server); }, std::plus<>()); });
  check([&] {
    int a = 0, b = 0;
    async::parallel_invoke(pool, [&] { a = ask(server); }, [&] { b = ask(server); });
    CHECK(a == b);
    return a;
  });
  check([&] {
    int result = 0;
    async::task_group group(pool);
    group.run_and_wait([&] { result = ask(server); });
    return result;
  });
}

TEST_CASE("a resumed coroutine runs a task of a full or ending pool, which a coroutine answers") {
  requests server;
  const walker w = serve(server);
  async::threadpool_options options;
  options.threads = 0;
  options.max_queue = 1;
  options.when_full = async::threadpool_options::overflow::caller_runs;
  async::threadpool pool(std::move(options));
  int queued = 0, over = 0, late = 0;
  pool.execute([&] {
    queued = ask(server);
    pool.execute([&] { late = ask(server); });
  });
  in_coroutine([&] {
    pool.execute([&] { over = ask(server); });
    pool.stop();
    return 0;
  });
  CHECK(over == 42);
  CHECK(queued == 42);
  CHECK(late == 42);
}

TEST_CASE("a coroutine that wakes others resumes them when it ends, also after a wait for a task") {
  async::threadpool pool(1);
  async::queue<int> first, second, third;
  ints order;
  const walker a = [](async::threadpool& its, async::queue<int>& from, async::queue<int>& to, async::queue<int>& inside,
                      ints& seen) -> walker {
    co_await from.pop();
    to.enqueue(1);
    its.post([&] { inside.enqueue(1); }).get();
    seen.push_back(1);
  }(pool, first, second, third, order);
  const walker b = pop_one(second, order, 1), c = pop_one(third, order, 2);
  pool.post([&] { first.enqueue(1); }).get();
  CHECK(order == ints{3, 1, 2});
}

TEST_CASE("threads that sleep and coroutines that wait both get elements") {
  async::queue<int> q;
  ints got;
  std::vector<walker> all;
  int sum = 0;
  std::thread sleeper([&] {
    for (int x = 0; q.blocking_dequeue(x);) sum += x;
  });
  for (int i = 0; i < 100; ++i) {
    all.push_back(pop_one(q, got));
    q.enqueue(1);
    q.enqueue(1);
  }
  q.close();
  sleeper.join();
  int taken = 0;
  for (const int x : got) taken += x == closed ? 0 : x;
  CHECK(sum + taken == 200);
}
