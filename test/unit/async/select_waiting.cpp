// SPDX-License-Identifier: BSL-1.0
//
// async::select() while it waits: on a thread, in tasks of a pool, in callbacks of an event loop.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "async/bounded_queue.hpp"
#include "async/event.hpp"
#include "async/event_loop.hpp"
#include "async/future.hpp"
#include "async/queue.hpp"
#include "async/select.hpp"
#include "async/threadpool.hpp"
#include "support/process_cpu_time.hpp"
#include "support/scale.hpp"
#include "support/wait_while.hpp"
#include "support/watched_thread.hpp"

namespace {

using async::after;
using async::nothing_left;
using async::on_pop;
using async::on_push;
using async::on_ready;
using async::on_set;
using async::otherwise;
using async::select;
using namespace std::chrono_literals;
using testing::watched_thread;

const auto ignore = [](auto&&...) {};

/// Calls `event` while a thread is inside `call`, most likely asleep, and returns the thread's result.
template <class Call, class Event>
std::size_t result_of(Call call, Event event) {
  std::size_t result = 0;
  watched_thread waiting([&] { result = call(); });
  std::this_thread::sleep_for(5ms);
  CHECK_FALSE(waiting.is_done());
  event();
  waiting.join();
  return result;
}

/// The same as select(), but sets `is_listed` before it sleeps.
template <class... Cases>
std::size_t select_and_tell(std::atomic<bool>& is_listed, Cases&&... cases) {
  async::detail::selection<Cases...> all(cases...);
  const std::size_t found = all.wait([&is_listed](auto& parker, const auto* deadline) {
    is_listed = true;
    async::detail::sleep_in_select(parker, deadline);
  });
  all.finish(found, async::detail::thread_call());
  return found;
}

template <class F>
bool refuses(F&& f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.code() == std::errc::resource_deadlock_would_occur;
  }
  return false;
}

/// Calls a function as it is moved out of a queue.
struct calling {
  std::function<void()> call;
  explicit calling(std::function<void()> f) : call(std::move(f)) {}
  calling(calling&& other) noexcept(false) : call(std::move(other.call)) {
    if (call) call();
    call = nullptr;
  }
  calling& operator=(calling&&) = default;
};

}  // namespace

TEST_CASE("it waits until one of the cases can take effect") {
  async::queue<int> a;
  async::bounded_queue<int> b(1), full(1);
  full.enqueue(0);
  async::promise<int> p;
  async::future<int> f = p.get_future();
  const auto wait = [&] {
    return select(on_pop(a, ignore), on_pop(b, ignore), on_push(full, 1), on_ready(f), after(1h));
  };
  CHECK(result_of(wait, [&] { a.enqueue(1); }) == 0);
  CHECK(result_of(wait, [&] { b.enqueue(1); }) == 1);
  CHECK(result_of(wait, [&] { full.dequeue(); }) == 2);
  CHECK(result_of(wait, [&] { p.set_value(1); }) == 3);
  CHECK(full.dequeue() == 1);
  CHECK(a.empty());
  CHECK(b.empty());
}

TEST_CASE("it waits without using the CPU") {
  async::queue<int> a, b;
  async::promise<int> p;
  async::future<int> f = p.get_future();
  const auto before = testing::process_cpu_time();
  CHECK(select(on_pop(a, ignore), on_pop(b, ignore), on_ready(f), after(300ms)) == 3);
  CHECK(testing::process_cpu_time() - before < 50ms);
}

TEST_CASE("beside closed queues it waits without using the CPU") {
  async::queue<int> closed, open;
  async::bounded_queue<int> closed_ring(1);
  closed.enqueue(1);
  closed.dequeue();
  closed.close();
  closed_ring.close();
  const auto before = testing::process_cpu_time();
  CHECK(select(on_pop(closed, ignore), on_pop(open, ignore), after(300ms)) == 2);
  CHECK(select(on_pop(closed_ring, ignore), on_pop(open, ignore), after(300ms)) == 2);
  CHECK(select(on_push(closed_ring, 1), on_pop(open, ignore), after(300ms)) == 2);
  CHECK(testing::process_cpu_time() - before < 50ms);
}

TEST_CASE("beside a closed queue it lets a stand-in run the task that ends its wait") {
  async::queue<int> closed, open;
  closed.close();
  async::threadpool pool(1);
  async::future<std::size_t> found = pool.post([&] {
    pool.execute([&] { open.enqueue(1); });
    return select(on_pop(closed, ignore), on_pop(open, ignore), after(10s));
  });
  CHECK(found.get() == 1);
}

TEST_CASE("closing queues ends a wait when no other case is left") {
  async::queue<int> a;
  async::bounded_queue<int> b(1), c(1);
  c.enqueue(0);
  const auto wait = [&] { return select(on_pop(a, ignore), on_pop(b, ignore), on_push(c, 1), after(1h)); };
  CHECK(result_of(wait, [&] {
          a.close();
          c.close();
          std::this_thread::sleep_for(2ms);
          b.close();
        }) == nothing_left);
  async::queue<int> d;
  bool is_called = false;
  CHECK(result_of([&] { return select(on_pop(a, ignore), on_pop(d, ignore, [&] { is_called = true; })); },
                  [&] { d.close(); }) == 1);
  CHECK(is_called);
}

TEST_CASE("a wait goes on when another thread takes the element that has ended its sleep") {
  async::queue<int> a, b;
  for (std::size_t round = 0; round != testing::rounds(2'000); ++round) {
    std::atomic<int> taken{0};
    std::size_t result = 9;
    watched_thread waiting([&] { result = select(on_pop(a, [&](int) { ++taken; }), on_pop(b, ignore)); });
    a.enqueue(1);
    if (a.dequeue()) ++taken;
    b.enqueue(1);
    waiting.join();
    REQUIRE(taken + static_cast<int>(a.approx_size()) == 1);
    REQUIRE(result + b.approx_size() == 1);
    while (a.dequeue() || b.dequeue()) {
    }
  }
}

TEST_CASE("the same queue in several cases: the first one gets each element") {
  async::queue<int> q;
  for (int i = 0; i < 3; ++i) {
    CHECK(result_of([&] { return select(on_pop(q, ignore), on_pop(q, ignore), on_pop(q, ignore)); },
                    [&] { q.enqueue(1); }) == 0);
  }
}

TEST_CASE("a thread that is woken for an element and takes another case wakes the next waiter of that element") {
  for (const bool throws : {false, true}) {
    async::queue<calling> a;
    async::queue<int> b;
    std::size_t first = 9, second = 9;
    bool has_thrown = false;
    std::atomic<bool> is_first_listed{false}, is_second_listed{false};
    watched_thread chosen([&] {
      try {
        first = select_and_tell(is_first_listed, on_pop(a, ignore), on_pop(b, ignore));
      } catch (const std::runtime_error&) {
        has_thrown = true;
      }
    });
    testing::wait_while(is_first_listed, false);
    watched_thread next([&] { second = select_and_tell(is_second_listed, on_pop(b, ignore)); });
    testing::wait_while(is_second_listed, false);
    // The first thread takes from a. While it does, an element comes into b, for which it is chosen.
    a.enqueue([&b, throws] {
      b.enqueue(1);
      if (throws) throw std::runtime_error("moved");
    });
    chosen.join();
    next.join();
    CHECK(first == (throws ? 9 : 0));
    CHECK(has_thrown == throws);
    CHECK(second == 0);
  }
}

TEST_CASE("waiters of a queue are served in their order") {
  async::queue<int> q;
  std::array<std::atomic<int>, 3> got{};
  std::atomic<int> count{0};
  std::array<std::atomic<bool>, 3> is_listed{};
  std::array<std::thread, 3> threads;
  for (std::size_t i = 0; i != 3; ++i) {
    threads[i] = std::thread([&, i] {
      select_and_tell(is_listed[i], on_pop(q, [&, i](int n) {
                        got[i] = n;
                        ++count;
                      }));
    });
    testing::wait_while(is_listed[i], false);
  }
  for (int n = 1; n <= 3; ++n) {
    q.enqueue(n);
    testing::wait_while(count, n - 1);
  }
  for (std::thread& t : threads) t.join();
  for (std::size_t i = 0; i != 3; ++i) CHECK(got[i] == static_cast<int>(i) + 1);
}

TEST_CASE("a thread that takes another case does not wait for the actions of a future that has become ready") {
  async::queue<int> q;
  async::promise<int> p;
  const async::shared_future<int> f = p.get_future();
  std::atomic<bool> is_listed{false};
  watched_thread waiting([&] { select_and_tell(is_listed, on_pop(q, ignore), on_ready(f)); });
  testing::wait_while(is_listed, false);
  auto next = f.then([&](const auto&) {  // added later, so it runs first
    q.enqueue(1);
    waiting.join();
  });
  p.set_value(1);
  next.get();
}

TEST_CASE("a future may become ready while a thread begins to wait for it, or takes another case") {
  for (std::size_t round = 0; round != testing::rounds(2'000); ++round) {
    async::queue<int> q;
    async::promise<int> p;
    const async::shared_future<int> f = p.get_future();
    watched_thread waiting([&] { select(on_pop(q, ignore), on_ready(f)); });
    p.set_value(1);
    q.enqueue(1);
    waiting.join();
  }
}

TEST_CASE("in a task a stand-in runs the tasks that the wait needs, on one worker") {
  async::threadpool pool(1);
  async::queue<int> q;
  int got = 0;
  pool.post([&] {
        pool.execute([&q] { q.enqueue(5); });
        CHECK(select(on_pop(q, [&](int n) { got = n; })) == 0);
        async::future<int> f = pool.post([] { return 6; });
        CHECK(select(on_pop(q, ignore), on_ready(f, [&](auto& ready) { got += ready.get(); }), after(1h)) == 1);
        CHECK(select(on_pop(q, ignore), after(1ms)) == 1);
      })
      .get();
  CHECK(got == 11);
}

TEST_CASE("in a task its worker runs the event loop that the wait needs") {
  async::queue<int> q, other;
  int got = 0;
  bool is_busy = true;
  std::function<void()> again;
  async::threadpool pool(1);  // last: its loop may call again() until it ends
  again = [&] {
    if (is_busy) pool.loop(0).post(again);
  };
  pool.post([&] {
        pool.loop(0).post([&q] { q.enqueue(5); });
        CHECK(select(on_pop(other, ignore), on_pop(q, [&](int n) { got = n; }), after(1h)) == 1);
        again();
        CHECK(select(on_pop(q, ignore), after(20ms)) == 1);  // beside a loop that always has work
        is_busy = false;
      })
      .get();
  CHECK(got == 5);
}

TEST_CASE("tasks that wait for each other by select() do not block a small pool") {
  async::threadpool pool(2);
  constexpr int count = 20;
  std::array<async::queue<int>, count + 1> chain;
  for (std::size_t i = 0; i != count; ++i) {
    pool.execute([&chain, i] { select(on_pop(chain[i], [&](int n) { chain[i + 1].enqueue(n + 1); })); });
  }
  pool.execute([&chain] { chain[0].enqueue(0); });
  int got = 0;
  select(on_pop(chain[count], [&](int n) { got = n; }));
  CHECK(got == count);
  pool.wait_idle();
}

TEST_CASE("an event ends a thread's wait; one that is set already ends it at once") {
  async::event ready, other;
  async::queue<int> queue;
  int calls = 0;
  const auto wait = [&] {
    return select(on_pop(queue, ignore), on_set(other, ignore), on_set(ready, [&] { ++calls; }));
  };
  CHECK(result_of(wait, [&] { ready.set(); }) == 2);
  CHECK(calls == 1);
  ready.set();
  CHECK(wait() == 2);
  CHECK(calls == 2);
  CHECK(queue.enqueue(7));
  CHECK(wait() == 0);  // the first case that is ready
  CHECK(calls == 2);
}

TEST_CASE("in a callback of an event loop it throws instead of waiting") {
  async::event_loop loop;
  async::queue<int> q;
  int checks = 0;
  loop.post([&] {
    CHECK(refuses([&] { select(on_pop(q, ignore)); }));
    CHECK(refuses([&] { select(on_pop(q, ignore), after(1ms)); }));
    CHECK(select(on_pop(q, ignore), after(0s)) == 1);
    CHECK(select(on_pop(q, ignore), otherwise()) == 1);
    q.enqueue(1);
    CHECK(select(on_pop(q, ignore)) == 0);
    q.close();
    CHECK(select(on_pop(q, ignore)) == nothing_left);
    ++checks;
    loop.stop();
  });
  loop.run();
  CHECK(checks == 1);
}
