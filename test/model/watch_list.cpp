// SPDX-License-Identifier: BSL-1.0
//
// A future is made ready while somebody begins to watch it, and stops watching it: the watcher sees it ready or is
// told, and is let alone once it has been removed.
#include "relacy_runner.hpp"

#include "async/detail/future/watch_list.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::future_watcher;
using async::detail::watch_list;
using async::detail::yield_thread;
using model::check;

namespace {

/// The part of a future that matters here.
struct promised {
  atomic<unsigned> ready{0};
  cell<unsigned> value{0};

  void complete(watch_list& list) {
    value.set(7);
    ready.store(1, std::memory_order_release);
    list.tell(this);
  }
};

struct watcher : future_watcher {
  watcher() : future_watcher(&on_told) {}
  static void on_told(future_watcher& w) noexcept {
    auto& self = static_cast<watcher&>(w);
    self.times.set(self.times.get() + 1);
    self.told_it.store(1, std::memory_order_release);
  }
  cell<unsigned> times{0};  // also: nobody is told whose memory is gone
  atomic<unsigned> told_it{0};
};

/// Threads 0 and 1 watch a future each, in one list; thread 2 completes them. The first one waits to be told, unless it
/// sees that the future is ready; the second one stops watching.
struct watched : rl::test_suite<watched, 3> {
  watch_list list;
  promised futures[2];
  watcher watchers[2];
  bool told[2] = {};

  void thread(unsigned index) {
    if (index == 2) {
      for (promised& f : futures) f.complete(list);
      return;
    }
    promised& future = futures[index];
    watcher& mine = watchers[index];
    list.add(mine, &future);
    const bool is_ready = future.ready.load(std::memory_order_acquire) != 0;
    told[index] = index == 0 ? !is_ready || !list.remove(mine) : !list.remove(mine);
    while (told[index] && mine.told_it.load(std::memory_order_acquire) == 0) yield_thread();
    check(mine.times.get() == (told[index] ? 1U : 0U), "a watcher is told once, or has been removed");
    if (is_ready || told[index]) check(future.value.get() == 7, "the value is there");
    mine.times.set(100);  // the watcher's memory is used for something else
  }
  void after() {
    for (const watcher& w : watchers) check(w.times.get() == 100 && !w.is_listed.get(), "nobody is told afterwards");
  }
};

/// Two watch the same future.
struct shared : rl::test_suite<shared, 3> {
  watch_list list;
  promised future;
  watcher watchers[2];

  void thread(unsigned index) {
    if (index == 2) return future.complete(list);
    watcher& mine = watchers[index];
    list.add(mine, &future);
    if (future.ready.load(std::memory_order_acquire) != 0 && list.remove(mine)) return;
    while (mine.told_it.load(std::memory_order_acquire) == 0) yield_thread();
    check(mine.times.get() == 1 && future.value.get() == 7, "both are told");
  }
  void after() {
    for (const watcher& w : watchers) check(!w.is_listed.get(), "the list is empty");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("watch_list", argc, argv);
  run.check<watched>("a future is made ready while threads begin and stop to watch it");
  run.check<shared>("a future is made ready while two threads begin to watch it");
  return run.result();
}
