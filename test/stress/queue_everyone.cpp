// SPDX-License-Identifier: BSL-1.0
//
// Threads, coroutines, and flows on a pool and on a loop use one queue and one bounded_queue at once, by every call
// that waits. They time out, are cancelled and destroyed; the queues close at random, and fresh ones follow. Each
// element that went in comes out once, and nobody waits for ever.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "async/select.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"
#include "support/detached.hpp"
#include "support/scale.hpp"

namespace {

using async::after;
using async::on_pop;
using async::on_push;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::co;
using steps::interop::task;
using testing::detached;
using namespace std::chrono_literals;

unsigned random_number() {
  static std::atomic<unsigned> threads{0};
  thread_local auto random = static_cast<unsigned>(testing::seed() + 7919 * threads.fetch_add(1));
  random = random * 1664525U + 1013904223U;
  return random >> 16;
}
std::chrono::microseconds moment(unsigned most) { return std::chrono::microseconds(random_number() % most); }

/// Counts itself among the flows and coroutines that have not ended.
class living {
 public:
  explicit living(std::atomic<int>& count) : count_(count) { count_.fetch_add(1, std::memory_order_relaxed); }
  living(const living&) = delete;
  living& operator=(const living&) = delete;
  ~living() { count_.fetch_sub(1, std::memory_order_release); }

 private:
  std::atomic<int>& count_;
};

/// How often each way has taken an element or put it in.
struct tallies {
  std::atomic<std::uint64_t> threads{0}, coroutines{0}, flows{0}, coroutine_steps{0}, timeouts{0};
};

/// A number in a queue. One that is destroyed before it is taken is noted.
class item {
 public:
  static inline std::vector<std::atomic<unsigned char>>* dropped = nullptr;  // how often each number was

  item() = default;
  explicit item(std::size_t number) noexcept : number_(number) {}
  item(item&& other) noexcept : number_(other.take()) {}
  item& operator=(item&& other) noexcept {
    drop();
    number_ = other.take();
    return *this;
  }
  ~item() { drop(); }
  std::size_t take() noexcept { return std::exchange(number_, none); }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  void drop() noexcept {
    if (number_ != none) (*dropped)[take()].fetch_add(1, std::memory_order_relaxed);
  }
  std::size_t number_ = none;
};

/// One pair of queues, until their close.
struct exchange {
  exchange(std::size_t numbers, std::size_t room, bool without_limits, tallies& sums)
      : patient(without_limits), b(room), put(numbers), seen(numbers), dropped(numbers), tally(sums) {
    item::dropped = &dropped;
  }

  static constexpr std::size_t pings = 40;
  enum state : unsigned char { unused, offered, inside, refused };

  const bool patient;  // consumers wait without limits, so that nothing makes up for a lost wake-up
  async::queue<item> a;
  async::bounded_queue<item> b;
  std::vector<std::atomic<unsigned char>> put;   // a state of each number
  std::vector<std::atomic<unsigned char>> seen;  // how often it was taken
  std::vector<std::atomic<unsigned char>>
      dropped;  // how often a flow had taken it and was cancelled before its next step
  std::atomic<std::size_t> next{0};
  std::atomic<int> alive{0};
  tallies& tally;

  /// The last `pings` numbers are for ping().
  bool offer(std::size_t& n) {
    n = next.fetch_add(1, std::memory_order_relaxed);
    if (n >= put.size() - pings) return false;
    put[n].store(offered, std::memory_order_relaxed);
    return true;
  }
  void note_put(std::size_t n, bool is_in) { put[n].store(is_in ? inside : refused, std::memory_order_relaxed); }
  void note(item i, std::atomic<std::uint64_t>& by) {
    seen[i.take()].fetch_add(1, std::memory_order_relaxed);
    by.fetch_add(1, std::memory_order_relaxed);
  }

  // --- threads ---

  /// False: closed.
  bool put_by_thread(std::size_t n) {
    switch (random_number() % 8) {
      case 0:
        if (b.enqueue_for(moment(100), n)) return true;
        break;
      case 1:
        if (async::select(on_push(b, n), after(moment(100))) == 0) return true;
        break;
      case 2:
        if (b.enqueue(n)) return true;
        break;
      case 3:
        return a.enqueue(n);
      default:
        return b.blocking_enqueue(n);
    }
    return a.enqueue(n);
  }
  void produce_by_thread() {
    for (std::size_t n = 0; offer(n);) {
      const bool is_in = put_by_thread(n);
      note_put(n, is_in);
      if (!is_in) return;
    }
  }
  /// `one`: also waits for one queue alone, without a limit.
  void consume_by_thread(bool one) {
    const auto keep = [this](item i) { note(std::move(i), tally.threads); };
    item i;
    while (!a.is_closed() || !b.is_closed()) {
      bool is_taken = false;
      switch (patient ? 3 + random_number() % 5 : random_number() % 8) {
        case 0:
          is_taken = a.dequeue_for(i, moment(100));
          break;
        case 1:
          is_taken = b.dequeue_for(i, moment(100));
          break;
        case 2:
          is_taken = a.dequeue(i);
          break;
        case 3:
          is_taken = one ? a.blocking_dequeue(i) : b.dequeue(i);
          break;
        case 4:
          is_taken = one ? b.blocking_dequeue(i) : a.dequeue(i);
          break;
        case 5:
          if (!patient) {
            async::select(on_pop(b, keep), on_pop(a, keep), after(moment(200)));
            break;
          }
          [[fallthrough]];
        default:
          async::select(on_pop(a, keep), on_pop(b, keep));
      }
      if (is_taken) keep(std::move(i));
    }
    while (async::select(on_pop(b, keep), on_pop(a, keep)) != async::nothing_left) {
    }
  }

  // --- coroutines ---

  static constexpr int portion = 2000;  // elements of a coroutine, so that it does not take most of them

  template <class Queue>
  detached consume_by_coroutine(Queue& q) {
    const living here(alive);
    for (int left = portion; left != 0; --left) {
      std::optional<item> i = co_await q.pop();
      if (!i) co_return;
      note(std::move(*i), tally.coroutines);
    }
  }
  template <class Queue>
  detached produce_by_coroutine(Queue& q) {
    const living here(alive);
    std::size_t n = 0;
    for (int left = portion; left != 0 && offer(n); --left) {
      const bool is_in = co_await q.push(n);
      note_put(n, is_in);
      if (!is_in) co_return;
    }
  }
  /// Coroutines that wait, of which half are destroyed at once. No other thread uses the queues.
  void begin_with_coroutines() {
    for (int i = 0; i < 4; ++i) {
      const detached waits = i < 2 ? consume_by_coroutine(a) : consume_by_coroutine(b);
      if (i % 2 == 0) waits.handle.destroy();
    }
  }
  /// The same, while no other thread uses the queues and no coroutine waits for elements.
  void begin_with_full_queue() {
    for (std::size_t i = 0; i != b.capacity(); ++i) {
      std::size_t n = 0;
      REQUIRE(offer(n));
      REQUIRE(b.enqueue(n));
      note_put(n, true);
    }
    const std::size_t last = next.load(std::memory_order_relaxed);
    const detached goes = produce_by_coroutine(b);
    produce_by_coroutine(b);
    goes.handle.destroy();
    note_put(last, false);  // by the contract
  }

  // --- flows ---

  void put_by_flow(IAsyncSteps& asi, std::size_t n) {
    const auto done = [this, n](IAsyncSteps&) { note_put(n, true); };
    switch (random_number() % 8) {
      case 0:
        asi.enqueue(a, n).add(done);
        return;
      case 1:  // a limit on the wait alone: the element is inside, or the time was up before
        asi.add([this, n](IAsyncSteps& wait) {
             wait.setTimeout(moment(300));
             wait.enqueue(b, n);
           })
            .add(done);
        return;
      case 2:
        asi.select(on_push(b, n, done), after(moment(200), [this, n](IAsyncSteps&) { note_put(n, a.enqueue(n)); }));
        return;
      case 3:
        asi.setTimeout(moment(300));
        asi.select(on_push(b, n, done));
        return;
      case 4:
        asi.setTimeout(moment(300));
        asi.add(co([this, n](IAsyncSteps&) -> task<> { note_put(n, co_await b.push(n)); }));
        return;
      default:
        asi.enqueue(b, n).add(done);
    }
  }
  void produce_by_flow(IAsyncSteps& asi) {
    asi.loop([this](IAsyncSteps& turn) {
      std::size_t n = 0;
      if (!offer(n)) return turn.breakLoop();
      turn.add([this, n](IAsyncSteps& one) { put_by_flow(one, n); },
               [this, n](IAsyncSteps& handler, ErrorCode code) {
                 const bool is_late = code == steps::errors::Timeout;
                 if (is_late) tally.timeouts.fetch_add(1, std::memory_order_relaxed);
                 if (put[n].load(std::memory_order_relaxed) == offered) note_put(n, is_late && a.enqueue(n));
                 if (is_late) handler.success();
               });
    });
  }
  template <class Queue>
  task<> take_some(Queue& q) {
    for (int left = 4; left != 0; --left) {
      std::optional<item> i = co_await q.pop();
      if (!i) co_return;
      note(std::move(*i), tally.coroutine_steps);
    }
  }
  void limit(IAsyncSteps& asi) {
    if (!patient) asi.setTimeout(moment(300));
  }
  void take_by_flow(IAsyncSteps& asi) {
    const auto keep = [this](IAsyncSteps&, item i) { note(std::move(i), tally.flows); };
    switch (random_number() % 8) {
      case 0:
        asi.add([this](IAsyncSteps& wait) {
             limit(wait);
             wait.await(a);
           })
            .add(keep);
        return;
      case 1:
        asi.add([this](IAsyncSteps& wait) {
             limit(wait);
             wait.await(b);
           })
            .add(keep);
        return;
      case 2:
        asi.select(on_pop(a, keep), on_pop(b, keep), after(patient ? 1h : moment(200)));
        return;
      case 3:
        limit(asi);
        asi.select(on_pop(b, keep), on_pop(a, keep));
        return;
      case 4:
        limit(asi);
        asi.add(co([this](IAsyncSteps&) -> task<> { co_await take_some(a); }));
        return;
      case 5:
        limit(asi);
        asi.add(co([this](IAsyncSteps&) -> task<> { co_await take_some(b); }));
        return;
      default:
        asi.select(on_pop(a, keep), on_pop(b, keep));
    }
  }
  void consume_by_flow(IAsyncSteps& asi) {
    asi.loop([this](IAsyncSteps& turn) {
      if (a.is_closed() && b.is_closed()) return turn.breakLoop();
      turn.add([this](IAsyncSteps& one) { take_by_flow(one); },
               [this](IAsyncSteps& handler, ErrorCode code) {
                 if (code == steps::errors::Timeout) {
                   tally.timeouts.fetch_add(1, std::memory_order_relaxed);
                   handler.success();
                 } else if (code == steps::errors::QueueClosed) {  // perhaps of one queue: the other may go on
                   handler.success();
                 }
               });
    });
  }
  template <class Place>
  std::unique_ptr<steps::AsyncSteps> start_flow(Place& place, bool consumes) {
    auto flow = std::make_unique<steps::AsyncSteps>(place);
    flow->add([this, consumes, here = std::make_shared<living>(alive)](IAsyncSteps& asi) {
      consumes ? consume_by_flow(asi) : produce_by_flow(asi);
    });
    flow->state().set_unhandled_error([](ErrorCode) {});  // QueueClosed
    flow->execute();
    return flow;
  }

  // --- the end ---

  bool is_out(std::size_t n) const { return seen[n].load(std::memory_order_relaxed) + dropped[n].load() != 0; }
  /// Puts a number into a queue that consumers wait for and calls f(), which ends one that may have been woken. Another
  /// one takes the number.
  template <class F>
  void ping(std::size_t n, F f) {
    while (!a.empty() || !b.empty()) std::this_thread::yield();
    note_put(n, n % 2 == 0 ? a.enqueue(n) : b.blocking_enqueue(n));
    f();
    const auto begin = std::chrono::steady_clock::now();
    while (!is_out(n)) {
      REQUIRE_MESSAGE(std::chrono::steady_clock::now() - begin < 20s,
                      "an element stays in a queue that consumers wait for");
      std::this_thread::yield();
    }
  }

  void close() {
    if (random_number() % 2 == 0) {
      a.close();
      b.close();
    } else {
      b.close();
      std::this_thread::sleep_for(moment(50));
      a.close();
    }
  }
  void drain() {
    while (auto left = a.dequeue()) ++seen[left->take()];
    while (auto left = b.dequeue()) ++seen[left->take()];
  }
  /// The number of elements. `cancels`: of flows. Each may have had one number in hand, taken or about to be put in, or
  /// just put in.
  std::size_t check(std::size_t cancels) const {
    std::size_t elements = 0, in_hand = 0, wrong = 0;
    for (std::size_t n = 0; n != put.size(); ++n) {
      const unsigned char how = put[n];
      const int times = seen[n] + dropped[n];
      elements += seen[n];
      in_hand += dropped[n] + (how == offered ? 1U : 0U);
      const bool is_right = how == offered ? times <= 1 : times == (how == inside ? 1 : 0);
      if (is_right) continue;
      if (++wrong <= 5) std::printf("number %zu: state %u, came out %d times\n", n, unsigned{how}, times);
    }
    CHECK(wrong == 0);
    CHECK(in_hand <= cancels);
    return elements;
  }
};

struct run_counts {
  std::size_t elements = 0, cancels = 0, closes = 0;
};

/// One pair of queues, from first use to last.
void run_exchange(async::threadpool& pool, async::event_loop& loop, tallies& tally, run_counts& counts) {
  constexpr std::size_t numbers = 25'000;
  const bool is_patient = counts.closes % 4 < 2;
  const std::size_t close_at = counts.closes % 4 != 3 ? numbers : numbers / 4 + random_number() % (numbers / 2);
  exchange all(numbers + exchange::pings, std::size_t{1} << random_number() % 8, is_patient, tally);
  std::size_t cancels = 0;
  {
    counts.closes % 2 == 0 ? all.begin_with_coroutines() : all.begin_with_full_queue();
    std::vector<std::thread> threads;
    threads.emplace_back([&all] { all.produce_by_thread(); });
    threads.emplace_back([&all] { all.consume_by_thread(true); });
    threads.emplace_back([&all] { all.consume_by_thread(false); });
    threads.emplace_back([&all] {
      all.consume_by_coroutine(all.a);
      all.consume_by_coroutine(all.b);
      all.produce_by_coroutine(all.b);
      all.produce_by_thread();
    });
    std::array<std::unique_ptr<steps::AsyncSteps>, 12> flows;
    const auto start = [&](std::size_t i) {
      flows[i] = i % 3 == 0 ? all.start_flow(loop, i < 6) : all.start_flow(pool, i < 6);
    };
    for (std::size_t i = 0; i != flows.size(); ++i) start(i);
    while (all.next.load(std::memory_order_relaxed) < close_at) {
      std::this_thread::sleep_for(moment(1000));
      const std::size_t i = random_number() % flows.size();
      if (random_number() % 2 == 0) flows[i]->cancel();
      start(i);  // which destroys the one before, and perhaps cancels it
      ++cancels;
      if (random_number() % 8 == 0) pool.configurepool(1 + random_number() % 3);
    }
    for (std::size_t i = 0; is_patient && i != exchange::pings; ++i) {
      const std::size_t which = i % 6;
      all.ping(numbers + i, [&] {
        if (random_number() % 2 == 0) std::this_thread::sleep_for(moment(30));
        flows[which].reset();
      });
      start(which);
      ++cancels;
    }
    all.close();
    for (std::thread& t : threads) t.join();
    const auto begin = std::chrono::steady_clock::now();
    while (all.alive.load(std::memory_order_acquire) != 0) {
      REQUIRE_MESSAGE(std::chrono::steady_clock::now() - begin < 60s, "a flow or a coroutine waits for ever");
      std::this_thread::sleep_for(100us);
    }
  }
  all.drain();
  counts.elements += all.check(cancels);
  counts.cancels += cancels;
  ++counts.closes;
}

}  // namespace

TEST_CASE("each element comes out once while threads, coroutines and flows wait for the same two queues") {
  const std::size_t elements = testing::rounds(2'500'000);
  async::threadpool pool(2);
  steps::AsyncTool tool;
  tallies tally;
  run_counts counts;
  while (counts.elements < elements) {
    CAPTURE(counts.closes);
    run_exchange(pool, tool.loop(), tally, counts);
  }
  std::printf("count: %zu elements\n", counts.elements);
  std::printf("count: %zu cancels\n", counts.cancels);
  std::printf("count: %zu closes\n", 2 * counts.closes);
  std::printf("count: %llu timeouts\n", static_cast<unsigned long long>(tally.timeouts.load()));
  for (const auto* by : {&tally.threads, &tally.coroutines, &tally.flows, &tally.coroutine_steps}) {
    CHECK(*by > elements / 100);  // every way of taking has its share
  }
  std::printf("taken by threads %llu, coroutines %llu, flows %llu, coroutines as steps %llu\n",
              static_cast<unsigned long long>(tally.threads), static_cast<unsigned long long>(tally.coroutines),
              static_cast<unsigned long long>(tally.flows), static_cast<unsigned long long>(tally.coroutine_steps));
}
