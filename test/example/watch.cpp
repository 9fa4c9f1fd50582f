// SPDX-License-Identifier: BSL-1.0
//
// Settings that change while a program runs. Flows, coroutines, tasks and threads use the newest ones, and wait for the
// next change. A reader that is slow misses versions in between, and never the last one.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::IAsyncSteps;
using steps::interop::start;
using steps::interop::task;

namespace {

// [watched]
/// A value that changes, and those who wait for its next change. Any thread calls any member at any time.
template <class T>
class watched {
 public:
  struct version {
    explicit version(T v) : value(std::move(v)) {}
    const T value;
    async::event replaced;  // set when there is a newer version; not when the last one goes
  };
  /// A reader keeps a version as long as it uses the value, or waits for `replaced`.
  using pointer = std::shared_ptr<version>;

  explicit watched(T first) : newest_(std::make_shared<version>(std::move(first))) {}

  pointer get() const {
    const std::lock_guard here(lock_);
    return newest_;
  }
  void set(T value) {
    pointer other = std::make_shared<version>(std::move(value));
    {
      const std::lock_guard here(lock_);
      newest_.swap(other);
    }
    other->replaced.set();  // outside the lock: coroutines go on inside this call
  }

 private:
  mutable std::mutex lock_;
  pointer newest_;
};
// [/watched]

struct settings {
  int number = 0;
  std::chrono::milliseconds limit{0};
  bool is_last = false;
};

/// What one reader has seen.
struct diary {
  void write(const settings& s) {
    in_order = in_order && s.number > last;
    last = s.number;
    ++seen;
  }
  int last = -1, seen = 0;
  bool in_order = true;
};

// [flow]
void follow(IAsyncSteps& asi, const watched<settings>& all, diary& mine) {
  asi.loop([&](IAsyncSteps& round) {
    auto& now = round.stack<watched<settings>::pointer>(all.get());  // lives until the end of this round
    mine.write(now->value);
    if (now->value.is_last) round.breakLoop();
    round.await(now->replaced);  // no thread waits
  });
}
// [/flow]

task<> follow(const watched<settings>& all, diary& mine) {
  for (;;) {
    const auto now = all.get();
    mine.write(now->value);
    if (now->value.is_last) co_return;
    co_await now->replaced.on_set();
  }
}

/// A thread, or a task of a pool.
void follow_asleep(const watched<settings>& all, diary& mine) {
  for (;;) {
    const auto now = all.get();
    mine.write(now->value);
    if (now->value.is_last) return;
    now->replaced.wait();
  }
}

}  // namespace

int main() {
  constexpr int last = 100;
  constexpr std::size_t flows = 10'000, coroutines = 100;
  watched<settings> all(settings{});
  std::vector<diary> diaries(flows + coroutines + 2);

  async::threadpool pool;
  async::future_group readers;
  for (std::size_t i = 0; i != flows; ++i) {
    readers.add(steps::post(pool, [&all, &mine = diaries[i]](IAsyncSteps& asi) { follow(asi, all, mine); }));
  }
  for (std::size_t i = flows; i != flows + coroutines; ++i) readers.add(start(follow(all, diaries[i])));
  readers.add(pool.post([&] { follow_asleep(all, diaries[flows + coroutines]); }));
  std::thread reader([&] { follow_asleep(all, diaries.back()); });

  for (int i = 1; i <= last; ++i) {
    std::this_thread::sleep_for(1ms);
    all.set({i, 10ms * i, i == last});
  }
  readers.when_empty().get();
  reader.join();

  std::size_t good = 0, seen = 0;
  for (const diary& each : diaries) {
    good += each.in_order && each.last == last ? 1U : 0U;
    seen += static_cast<std::size_t>(each.seen);
  }
  std::printf("%zu readers have seen %.1f of %d versions on average\n", good,
              static_cast<double>(seen) / static_cast<double>(diaries.size()), last + 1);
  return good == diaries.size() ? 0 : 1;
}
