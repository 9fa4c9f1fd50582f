// SPDX-License-Identifier: BSL-1.0
//
// Flows that wait for the first of several queues, futures and time limits. Rules 41 and 42 of steps/RULES.md.
#include "async/select.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <future>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "support/flows.hpp"
#include "support/live_count.hpp"

using async::after;
using async::on_pop;
using async::on_push;
using async::on_ready;
using async::otherwise;
using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using testing::noting;
using testing::noting_code;
using namespace std::chrono_literals;

namespace {

using numbers = async::queue<int>;
using ring = async::bounded_queue<int>;

/// A handler that notes a name and what the case brings.
auto note(lines& seen, const char* name) {
  return [&seen, name](IAsyncSteps&, int v) { seen.push_back(name + std::to_string(v)); };
}
auto note_call(lines& seen, const char* name) {
  return [&seen, name](IAsyncSteps&) { seen.emplace_back(name); };
}

struct large : testing::live_count<large> {
  explicit large(int n) : number(std::make_unique<int>(n)) {}
  std::unique_ptr<int> number;
  std::array<char, 100> more{};
};

/// Runs an action when it is moved, once.
struct meddler {
  static inline void (*action)(void*) = nullptr;
  static inline void* argument = nullptr;
  meddler() = default;
  meddler(meddler&&) {
    if (auto* const now = std::exchange(action, nullptr)) now(argument);
  }
};

}  // namespace

TEST_CASE_TEMPLATE("rule 41: the first case that can takes effect, in their order", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  numbers q;
  ring full(1), r(2);
  async::promise<int> p;
  async::future<int> f = p.get_future();
  full.enqueue(0);
  Flow flow{b.loop};
  const auto choose = [&] {
    flow.select(on_pop(q, note(seen, "q")), on_push(full, 9, note_call(seen, "full")), on_pop(r, note(seen, "r")),
                on_ready(f, [&](IAsyncSteps&,
                                async::future<int>& ready) { seen.push_back("f" + std::to_string(ready.get())); }),
                after(1h, note_call(seen, "after")), otherwise(note_call(seen, "otherwise")));
    flow.execute();
    b.drain();
    CHECK(static_cast<bool>(flow));
  };
  choose();
  CHECK(seen == lines{"otherwise"});
  seen.clear();
  p.set_value(7);
  r.enqueue(2);
  r.enqueue(3);
  full.dequeue();
  q.enqueue(1);
  for (int i = 0; i < 6; ++i) choose();
  CHECK(seen == lines{"q1", "full", "r2", "r3", "f7", "otherwise"});
  CHECK(full.dequeue() == 9);
  CHECK(b.unhandled.empty());
}

TEST_CASE_TEMPLATE("rule 41: a flow waits without a thread until a case can, whichever it is", Flow, STEPS_FLOWS) {
  for (int which = 0; which < 4; ++which) {
    CAPTURE(which);
    bench b;
    lines seen;
    numbers q;
    ring full(1);
    full.enqueue(0);
    async::promise<int> p;
    async::future<int> f = p.get_future();
    Flow flow{b.loop};
    flow.select(on_pop(q, note(seen, "q")), on_push(full, 9, note_call(seen, "full")),
                on_ready(f, note_call(seen, "f")), after(10ms, note_call(seen, "after")));
    flow.execute();
    b.pass(9ms);
    CHECK(seen.empty());
    CHECK(!flow);
    if (which == 0) q.enqueue(1);
    if (which == 1) full.dequeue();
    if (which == 2) p.set_value(1);
    if (which == 3) b.clock.advance(2ms);
    b.drain();
    CHECK(seen == lines{std::array{"q1", "full", "f", "after"}[static_cast<std::size_t>(which)]});
    CHECK(static_cast<bool>(flow));
    b.pass(20ms);
    CHECK(seen.size() == 1);
    CHECK(!b.loop.iterate().have_work);  // no timer is left
    CHECK(full.approx_size() == 1);
    CHECK(q.empty());
  }
}

TEST_CASE_TEMPLATE("rule 41: the handler is the step's function", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  numbers q;
  Flow flow{b.loop};
  const auto take = [&](auto f) {
    q.enqueue(1);
    flow.select(on_pop(q, f), noting_code(seen));
    flow.add([&](IAsyncSteps& asi) { seen.push_back(asi.state("none", std::string("next"))); });
    flow.execute();
    b.pass(20ms);
    CHECK(static_cast<bool>(flow));
  };
  take([&](IAsyncSteps& asi, int) { asi.error("Mine", "info"); });
  CHECK(seen == lines{"Mine", "next"});
  seen.clear();
  take([&](IAsyncSteps&, int) { throw std::runtime_error("thrown"); });
  CHECK(seen == lines{"thrown", "next"});
  seen.clear();
  take([&](IAsyncSteps& asi, int) {
    asi.add([&](IAsyncSteps&) { seen.push_back("inner"); });
    asi.select(after(1ms, note_call(seen, "after")));
  });
  CHECK(seen == lines{"inner", "after", "next"});
  seen.clear();
  take([&](IAsyncSteps& asi, int) { asi.setTimeout(5ms); });
  CHECK(seen == lines{"Timeout", "next"});
  seen.clear();
  take([&](IAsyncSteps& asi, int) {
    asi.setTimeout(5ms);
    asi.add([](IAsyncSteps& inner) { inner.waitExternal(); });
  });
  CHECK(seen == lines{"Timeout", "next"});
  seen.clear();
  take([&](IAsyncSteps& asi) { b.loop.post([done = asi.completion<>()] { done.success(); }); });
  CHECK(seen == lines{"next"});
  CHECK(q.empty());

  flow.select(after(0s, [](IAsyncSteps& asi) { asi.success(4, std::string("x")); }));
  flow.add([&](IAsyncSteps&, int n, const std::string& text) { seen.push_back(text + std::to_string(n)); });
  flow.execute();
  b.drain();
  CHECK(seen.back() == "x4");
}

TEST_CASE_TEMPLATE("rule 42: two cases that move the same object share it", Flow, STEPS_FLOWS) {
  const std::string text = "a text that is longer than the small string buffer";
  for (const int which : {0, 1, 2}) {  // the queue that gets room; 2: none
    bench b;
    using queue = async::bounded_queue<std::string>;
    queue q[] = {queue(1), queue(1)};
    async::bounded_queue<std::unique_ptr<int>> r[] = {async::bounded_queue<std::unique_ptr<int>>(1),
                                                      async::bounded_queue<std::unique_ptr<int>>(1)};
    for (auto& each : q) each.enqueue("full");
    for (auto& each : r) each.enqueue(nullptr);
    std::string item = text, other = "other";
    auto pointer = std::make_unique<int>(7);
    std::string copied = text;
    Flow flow{b.loop};
    flow.select(on_push(q[0], std::move(item)), on_push(q[1], std::move(item)), on_push(q[1], std::move(other)),
                after(5ms));
    flow.select(on_push(r[0], std::move(pointer)), on_push(r[1], std::move(pointer)), after(5ms));
    flow.select(on_push(q[0], std::as_const(copied)), on_push(q[1], std::move(copied)), after(5ms));
    CHECK(pointer == nullptr);
    flow.execute();
    b.drain();
    const auto make_room = [which, &b](auto& queues) {
      if (which != 2) {
        CHECK(queues[which].dequeue().has_value());
        b.drain();
      } else {
        b.pass(6ms);
      }
    };
    make_room(q);
    if (which != 2) CHECK(q[which].dequeue().value() == text);
    for (auto& each : q) static_cast<void>(each.enqueue("full"));
    make_room(r);
    if (which != 2) CHECK(*r[which].dequeue().value() == 7);
    make_room(q);
    CHECK(static_cast<bool>(flow));
    if (which != 2) CHECK(q[which].dequeue().value() == text);
  }
}

TEST_CASE_TEMPLATE("rule 41: elements of any size are moved, and items are kept until they are in", Flow, STEPS_FLOWS) {
  {
    bench b;
    std::vector<int> seen;
    async::bounded_queue<large> in(1), out(1);
    out.enqueue(0);
    Flow flow{b.loop};
    flow.select(on_push(out, large(5)), on_pop(in, [&](IAsyncSteps&, large&& v) { seen.push_back(*v.number); }));
    flow.select(on_push(out, large(6)), after(1ms));
    {
      large named(7);
      flow.select(on_pop(in, [&](IAsyncSteps&, const large& v) { seen.push_back(*v.number); }),
                  on_push(out, std::move(named)), otherwise());
    }
    in.enqueue(1);
    flow.execute();
    b.pass(2ms);
    CHECK(seen == std::vector<int>{1});
    CHECK(static_cast<bool>(flow));
    CHECK(*out.dequeue()->number == 0);
    flow.select(on_push(out, large(8)));
    flow.execute();
    b.drain();
    CHECK(*out.dequeue()->number == 8);
    CHECK(out.empty());
  }
  CHECK(large::live() == 0);
}

TEST_CASE_TEMPLATE("rule 41: results are not passed in, and a future may be the step's own", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  async::promise<int> mine, other;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps& asi) { asi.success(5); });
  {
    const async::shared_future<int> shared = other.get_future().share();
    flow.select(on_ready(mine.get_future(),
                         [&](IAsyncSteps&, async::future<int>& f) { seen.push_back(std::to_string(f.get())); }),
                on_ready(shared, [&](IAsyncSteps&, const async::shared_future<int>& f) {
                  seen.push_back("shared" + std::to_string(f.get()));
                }));
  }
  flow.add([](IAsyncSteps&, int) {}, noting_code(seen));
  flow.execute();
  b.drain();
  other.set_value(2);
  b.drain();
  CHECK(seen == lines{"shared2", "InternalError"});
  mine.set_value(1);
  b.drain();
  CHECK(seen.size() == 2);
}

TEST_CASE_TEMPLATE("rule 41: after() counts from the first wait on, the shortest first", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  numbers q, r;
  Flow flow{b.loop};
  flow.select(on_pop(q, note(seen, "q")), after(1h), after(10ms, note_call(seen, "10")), after(20ms),
              after(std::chrono::hours::max()));
  b.clock.advance(1h);
  flow.execute();
  b.pass(5ms);
  q.enqueue(1);
  CHECK(q.dequeue() == 1);  // the flow is called, finds nothing, and waits on
  b.pass(4ms);
  CHECK(seen.empty());
  b.pass(2ms);
  CHECK(seen == lines{"10"});
  for (const auto limit : {0ms, -5ms}) {
    flow.select(on_pop(q, note(seen, "q")), after(limit, note_call(seen, "now")));
    flow.execute();
    b.drain();
  }
  flow.select(after(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN()), note_call(seen, "nan")));
  flow.execute();
  b.drain();
  CHECK(seen == lines{"10", "now", "now", "nan"});
  flow.select(on_pop(q, note(seen, "q")), after(std::chrono::hours::max()));
  flow.execute();
  b.pass(5ms);
  CHECK(!b.loop.iterate().have_work);
  q.enqueue(2);
  b.drain();
  CHECK(seen.back() == "q2");
}

TEST_CASE_TEMPLATE("rule 41: on_set() waits from the first look on", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  async::event event;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.select(async::on_set(event, note_call(seen, "set")));
    event.set();
    event.reset();
  });
  flow.execute();
  b.drain();
  CHECK(seen.empty());
  event.set();
  b.drain();
  CHECK(seen == lines{"set"});
}

TEST_CASE_TEMPLATE("rule 42: closed queues and futures without a state are passed over, until nothing is left", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  numbers q, open;
  ring r(1);
  async::future<int> none;
  q.enqueue(1);
  q.close();
  Flow flow{b.loop};
  const auto choose = [&] {
    flow.select(on_pop(q, note(seen, "q")), on_pop(open, note(seen, "open")), on_push(r, 1, note_call(seen, "r")),
                on_ready(none, note_call(seen, "none")), after(1h), noting(seen));
    flow.execute();
    b.drain();
  };
  choose();
  CHECK(seen == lines{"q1"});
  choose();
  CHECK(seen == lines{"q1", "r"});
  choose();  // waits
  CHECK(!flow);
  r.close();
  b.drain();
  CHECK(!flow);
  open.close();
  b.drain();
  CHECK(static_cast<bool>(flow));
  CHECK(
      seen ==
      lines{
          "q1", "r",
          "QueueClosed: all queues of select() are closed and drained: only after() and otherwise() are left, if any"});
  seen.clear();
  flow.select(on_pop(open, note(seen, "open")), otherwise(note_call(seen, "otherwise")), noting_code(seen));
  flow.select(on_pop(open, note(seen, "open")), after(0s, note_call(seen, "after")), noting_code(seen));
  flow.select(on_pop(q, note(seen, "q")), on_pop(open, note(seen, "open"), note_call(seen, "closed")));
  flow.select(on_push(r, 1, note_call(seen, "in"), note_call(seen, "full closed")), noting_code(seen));
  flow.execute();
  b.drain();
  CHECK(seen == lines{"QueueClosed", "QueueClosed", "closed", "full closed"});
}

TEST_CASE("rule 42: waiting flows are served first come, first served, beside those of await()") {
  bench b;
  numbers q, other;
  lines seen;
  std::vector<std::unique_ptr<steps::AsyncSteps>> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(std::make_unique<steps::AsyncSteps>(b.loop));
    const auto keep = [&seen, i](IAsyncSteps&, int v) { seen.push_back(std::to_string(i) + ":" + std::to_string(v)); };
    if (i % 2 == 0) {
      all.back()->select(on_pop(other, keep), on_pop(q, keep));
    } else {
      all.back()->await(q).add(keep);
    }
    all.back()->execute();
    b.drain();
  }
  q.enqueue(9);
  CHECK(q.dequeue() == 9);  // before the flow that has been called runs: it stays first
  b.drain();
  for (int i = 0; i < 6; ++i) q.enqueue(i);
  b.drain();
  CHECK(seen == lines{"0:0", "1:1", "2:2", "3:3", "4:4", "5:5"});
}

TEST_CASE("rule 42: a flow that is called and takes another case calls the next") {
  bench b;
  numbers first, q;
  async::promise<void> p;
  async::future<void> f = p.get_future();
  for (const bool by_future : {false, true}) {
    lines seen;
    steps::AsyncSteps chooser{b.loop}, next{b.loop};
    chooser.select(on_pop(first, note(seen, "first")), on_ready(f, note_call(seen, "f")), on_pop(q, note(seen, "q")));
    next.select(on_pop(q, note(seen, "next")));
    chooser.execute();
    b.drain();
    next.execute();
    b.drain();
    q.enqueue(1);  // calls `chooser`
    by_future ? p.set_value() : static_cast<void>(first.enqueue(2));
    b.drain();
    CHECK(seen == lines{by_future ? "f" : "first2", "next1"});
    CHECK(q.empty());
  }
}

TEST_CASE_TEMPLATE("rule 42: cancel or timeout ends the wait, and nothing is taken", Flow, STEPS_FLOWS) {
  for (const bool cancels : {true, false}) {
    for (const bool called : {true, false}) {
      bench b;
      lines seen;
      numbers q;
      ring full(1);
      full.enqueue(0);
      async::promise<int> p;
      async::future<int> f = p.get_future();
      Flow flow{b.loop};
      flow.add(
          [&](IAsyncSteps& asi) {
            if (!cancels) asi.setTimeout(5ms);
            asi.select(on_pop(q, note(seen, "q")), on_push(full, 9), on_ready(f, note_call(seen, "f")), after(1h));
          },
          noting_code(seen));
      flow.execute();
      b.pass(1ms);
      CHECK(!flow);
      steps::AsyncSteps next{b.loop};
      next.await(q).add(note(seen, "next"));
      next.execute();
      b.drain();
      if (cancels) {
        if (called) q.enqueue(1);
        flow.cancel();
      } else {
        b.clock.advance(10ms);
        b.loop.iterate();
        if (called) q.enqueue(1);
      }
      b.drain();
      CHECK(static_cast<bool>(flow));
      if (!called) q.enqueue(1);
      full.dequeue();
      p.set_value(1);
      b.drain();
      CHECK(full.empty());
      CHECK(seen == (cancels                             ? lines{"next1"}
                     : called && seen.front() == "next1" ? lines{"next1", "Timeout"}
                                                         : lines{"Timeout", "next1"}));
    }
  }
}

TEST_CASE_TEMPLATE("rule 42: the handler runs when the flow has left all lines", Flow, STEPS_FLOWS) {
  bench b;
  numbers q, first;
  ring full(1);
  full.enqueue(0);
  async::promise<int> p;
  async::future<int> f = p.get_future();
  lines seen;
  Flow flow{b.loop};
  flow.select(on_pop(first,
                     [&](IAsyncSteps& asi) {
                       seen.push_back("first");
                       asi.waitExternal();
                     }),
              on_pop(q, note(seen, "q")), on_push(full, 9), on_ready(f, note_call(seen, "f")), after(5ms));
  flow.execute();
  b.drain();
  steps::AsyncSteps next{b.loop};
  next.select(on_pop(q, note(seen, "next")));
  next.execute();
  b.drain();
  first.enqueue(1);
  b.drain();
  q.enqueue(1);
  full.dequeue();
  p.set_value(1);
  b.pass(10ms);
  CHECK(seen == lines{"first", "next1"});
  CHECK(full.empty());
  CHECK(!flow);
  flow.cancel();
}

TEST_CASE("rule 42: the error handler of the step runs when it has left all lines") {
  bench b;
  numbers q;
  lines seen;
  steps::AsyncSteps first{b.loop}, next{b.loop};
  first.add([&](IAsyncSteps& asi) {
    asi.setTimeout(5ms);
    asi.select(on_pop(q, note(seen, "first")), [&](IAsyncSteps& handler, ErrorCode code) {
      seen.emplace_back(code);
      handler.add([](IAsyncSteps& wait) { wait.waitExternal(); });
    });
  });
  first.execute();
  b.drain();
  next.select(on_pop(q, note(seen, "next")));
  next.execute();
  b.pass(6ms);
  q.enqueue(1);
  b.drain();
  CHECK(seen == lines{"Timeout", "next1"});
  first.cancel();
}

TEST_CASE("rule 42: elements that act on queues and flows when they are moved") {
  struct scene {
    bench b;
    async::queue<meddler> q;
    numbers other;
    lines seen;
    steps::AsyncSteps flow{b.loop};
  };
  for (int which = 0; which < 3; ++which) {
    CAPTURE(which);
    scene s;
    s.flow.select(on_pop(s.q, [&](IAsyncSteps&, meddler&&) { s.seen.push_back("q"); }),
                  on_pop(s.other, note(s.seen, "other")), noting_code(s.seen));
    s.flow.execute();
    s.b.drain();
    s.q.enqueue();
    meddler::argument = &s;
    if (which == 0) meddler::action = [](void* p) { static_cast<scene*>(p)->other.enqueue(1); };
    if (which == 1) meddler::action = [](void* p) { static_cast<scene*>(p)->flow.cancel(); };
    if (which == 2) meddler::action = [](void*) { throw std::runtime_error("moved"); };
    s.b.drain();
    CHECK(static_cast<bool>(s.flow));
    CHECK(s.seen == (which == 2 ? lines{"moved"} : lines{"q"}));
    CHECK(s.q.empty());
    if (which == 0) CHECK(s.other.dequeue() == 1);
  }
  meddler::action = nullptr;
}

TEST_CASE_TEMPLATE("rule 41: branches select, and race() takes the first", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  numbers q;
  ring r(1);
  int sum = 0;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    auto& all = asi.parallel();
    all.repeat(50, [&](IAsyncSteps& s, std::size_t) {
      s.select(on_pop(q, [&](IAsyncSteps&, int v) { sum += v; }), on_pop(r, [&](IAsyncSteps&, int v) { sum += v; }));
    });
    all.repeat(25, [&](IAsyncSteps& s, std::size_t) { s.select(on_push(r, 1)); });
    all.repeat(25, [&](IAsyncSteps& s, std::size_t) { s.enqueue(q, 100); });
    all.select(after(1ms, note_call(seen, "after")));
  });
  flow.add([&](IAsyncSteps& asi) {
    auto& first = asi.race();
    first.select(on_pop(q, [](IAsyncSteps& s, int v) { s.success(v); }));
    first.select(after(5ms, [](IAsyncSteps& s) { s.success(-1); }));
  });
  flow.add([&](IAsyncSteps&, int v) { seen.push_back(std::to_string(v)); });
  flow.execute();
  b.pass(2ms);
  CHECK(sum == 2525);
  q.enqueue(3);
  b.drain();
  CHECK(seen == lines{"after", "3"});
  CHECK(static_cast<bool>(flow));
}
