// SPDX-License-Identifier: BSL-1.0
//
// Many threads hand callbacks to a loop and cancel them, while it runs, sleeps, moves between threads and ends: each
// callback either runs or is cancelled, once, and is destroyed once.
#include "async/event_loop.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "steps/asynctool.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"

using async::event_loop;
using namespace std::chrono_literals;

namespace {

/// The fate of one callback.
struct fate {
  std::atomic<int> started{0};
  std::atomic<int> destroyed{0};
  std::atomic<int> cancelled{0};  // cancel() has said so
};

/// A callback that notes its fate.
class noting {
 public:
  explicit noting(fate& f) : fate_(&f) {}
  noting(noting&& other) noexcept : fate_(std::exchange(other.fate_, nullptr)) {}
  noting(const noting&) = delete;
  noting& operator=(const noting&) = delete;
  noting& operator=(noting&&) = delete;
  ~noting() {
    if (fate_ != nullptr) ++fate_->destroyed;
  }
  void operator()() { ++fate_->started; }

 private:
  fate* fate_;
};

struct totals {
  std::size_t started = 0;
  std::size_t dropped = 0;
};

/// Checks that each has been destroyed once, and has started or been cancelled once, or neither if the loop has ended.
totals judge(const std::vector<fate>& fates, bool all_must_run) {
  totals sum;
  std::size_t wrong = 0;
  for (const fate& f : fates) {
    const int ends = f.started + f.cancelled;
    if (f.destroyed != 1 || ends > 1 || (all_must_run && ends == 0)) ++wrong;
    sum.started += f.started == 1;
    sum.dropped += f.started == 0;
  }
  CHECK(wrong == 0);
  return sum;
}

/// One thread's use of a loop: hands in callbacks in every way, and cancels some, at once or later.
class user {
 public:
  user(event_loop& loop, std::uint64_t seed) : loop_(loop), random_(static_cast<unsigned>(seed)) {}

  void hand_in(fate& f) {
    const auto delay = std::chrono::microseconds(random_() % 300);
    switch (random_() % 8) {
      case 0:
        return loop_.post(noting(f));
      case 1:
        return static_cast<void>(loop_.immediate(noting(f)));
      case 2:
        return static_cast<void>(loop_.deferred(delay, noting(f)));
      default:
        break;
    }
    auto h = random_() % 2 == 0 ? loop_.immediate(noting(f)) : loop_.deferred(delay, noting(f));
    if (random_() % 4 == 0) std::this_thread::yield();
    auto copy = h;
    static_cast<void>(bool(copy));
    if (random_() % 2 == 0) {
      f.cancelled += h.cancel();
      f.cancelled += copy.cancel();
    } else {
      kept_.emplace_back(std::move(h), &f);
      if (kept_.size() == 16) cancel_kept();
    }
  }

 private:
  void cancel_kept() {
    for (auto& [handle, f] : kept_) {
      f->cancelled += handle.cancel();
    }
    kept_.clear();
  }

  event_loop& loop_;
  std::mt19937 random_;
  std::vector<std::pair<event_loop::handle, fate*>> kept_;
};

}  // namespace

TEST_CASE("nothing is lost or doubled when threads hand in and cancel while the loop runs and sleeps") {
  constexpr std::size_t threads = 3;
  const std::size_t each = testing::rounds(100000);
  std::vector<fate> fates(threads * each);
  {
    event_loop loop;
    std::thread runner([&] { loop.run(); });
    testing::run_threads(threads, [&](std::size_t index) {
      user u(loop, testing::seed() + index);
      for (std::size_t i = 0; i < each; ++i) {
        u.hand_in(fates[index * each + i]);
        if (i % 1000 == 0) std::this_thread::sleep_for(300us);  // the loop falls asleep
      }
    });
    loop.deferred(20ms, [&] { loop.stop(); });
    runner.join();
    while (loop.iterate().have_work) {
    }
  }
  const totals sum = judge(fates, true);
  CHECK(sum.started > 0);
  CHECK(sum.dropped > 0);
  std::printf("count: %zu callbacks\n", fates.size());
}

TEST_CASE("nothing is lost or doubled when the loop ends while handles are being cancelled") {
  std::size_t dropped = 0;
  const std::size_t rounds = testing::rounds(3000);
  for (std::size_t round = 0; round < rounds; ++round) {
    constexpr std::size_t count = 64;
    std::vector<fate> fates(count);
    std::vector<event_loop::handle> handles(count);
    std::atomic<bool> go{false};
    auto loop = std::make_unique<event_loop>();
    async::detail::core_of(*loop).disown();
    for (std::size_t i = 0; i < count / 2; ++i) {  // as from another thread: in transit
      handles[i] = i % 2 == 0 ? loop->immediate(noting(fates[i])) : loop->deferred(1h, noting(fates[i]));
    }
    if (round % 2 == 0) loop->iterate();
    async::detail::core_of(*loop).adopt();
    for (std::size_t i = count / 2; i < count; ++i) {
      handles[i] = i % 2 == 0 ? loop->immediate(noting(fates[i])) : loop->deferred(1us, noting(fates[i]));
    }
    std::thread cancelling([&] {
      while (!go) std::this_thread::yield();
      for (std::size_t i = 0; i < count; ++i) {
        fates[i].cancelled += handles[i].cancel();
      }
    });
    go = true;
    if (round % 3 == 0) loop->iterate();
    if (round % 4 == 0) std::this_thread::yield();
    loop.reset();
    cancelling.join();
    dropped += judge(fates, false).dropped;
  }
  CHECK(dropped > 0);
}

TEST_CASE("a loop may end as soon as the last post has run, although its poster is still in the call") {
  const std::size_t rounds = testing::rounds(10000);
  std::atomic<event_loop*> target{nullptr};
  std::atomic<bool> done{false};
  std::thread poster([&] {
    while (!done) {
      event_loop* const loop = target.exchange(nullptr);
      if (loop == nullptr) {
        std::this_thread::yield();
      } else {
        loop->post([loop] { loop->stop(); });
      }
    }
  });
  for (std::size_t i = 0; i < rounds; ++i) {
    event_loop loop;
    target = &loop;
    loop.run();  // sleeps, is woken by the post, and stops
  }
  done = true;
  poster.join();
}

TEST_CASE("stop ends a run whenever it comes") {
  const std::size_t rounds = testing::rounds(5000);
  for (std::size_t i = 0; i < rounds; ++i) {
    steps::AsyncTool tool;
    if (i % 3 == 1) tool.deferred(std::chrono::microseconds(i % 50), [] {});
    if (i % 3 == 2) std::this_thread::yield();
  }
}

TEST_CASE("an embedded loop that moves between threads loses no post and no wake-up") {
  const std::size_t count = testing::rounds(50000);
  std::mutex driving;  // one thread drives the loop at a time
  std::mutex mutex;
  std::condition_variable changed;
  bool woken = true;
  bool done = false;
  std::size_t ran = 0;
  std::size_t missed = 0;
  event_loop loop([&] {
    const std::lock_guard lock(mutex);
    woken = true;
    changed.notify_one();
  });
  const auto drive = [&] {
    while (true) {
      {
        std::unique_lock lock(mutex);
        if (!changed.wait_for(lock, 30s, [&] { return woken || done; })) ++missed;
        if (done) return;
        woken = false;
      }
      const std::lock_guard lock(driving);
      const auto result = loop.iterate();
      const std::lock_guard again(mutex);
      if (result.have_work && result.delay == 0ns) woken = true;
      if (ran == 2 * count) done = true;
      changed.notify_all();
    }
  };
  std::thread first(drive);
  std::thread second(drive);
  testing::run_threads(2, [&](std::size_t) {
    for (std::size_t i = 0; i < count; ++i) {
      loop.post([&] { ++ran; });
      if (i % 256 == 0) std::this_thread::yield();
    }
  });
  first.join();
  second.join();
  CHECK(ran == 2 * count);
  CHECK(missed == 0);
}

TEST_CASE("a thread that made a loop hands callbacks in while another begins to run it") {
  const std::size_t rounds = testing::rounds(400);
  for (std::size_t round = 0; round != rounds; ++round) {
    std::vector<fate> fates(40);
    const auto loop = std::make_unique<event_loop>();
    testing::run_threads(2, [&](std::size_t index) {
      if (index == 1) return loop->run();
      user here(*loop, round);
      for (fate& f : fates) here.hand_in(f);
      loop->stop();
    });
    // No other thread runs the loop: the caller may turn and destroy it.
    while (loop->iterate().have_work) {
    }
    judge(fates, true);
  }
}

TEST_CASE("threads take turns with one loop, each when no other does") {
  event_loop loop;
  std::size_t inside = 0;  // only whoever is in the loop touches it
  std::size_t ran = 0;
  std::atomic<std::size_t> posted{0};
  testing::run_threads(3, [&](std::size_t) {
    for (std::size_t i = testing::rounds(20'000); i != 0; --i) {
      static_cast<void>(loop.immediate([&] {
        REQUIRE(++inside == 1);
        ++ran;
        --inside;
      }));
      posted.fetch_add(1, std::memory_order_relaxed);
      try {
        static_cast<void>(loop.iterate());
      } catch (const std::logic_error&) {  // another thread is in it
      }
    }
  });
  while (loop.iterate().have_work) {
  }
  CHECK(ran == posted.load());
}
