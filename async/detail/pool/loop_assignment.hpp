// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>   // for unique_ptr
#include <span>     // for span
#include <utility>  // for exchange

#include "async/detail/pool/hosted_loop.hpp"  // for hosted_loop
#include "async/detail/pool/pool_worker.hpp"  // for worker

namespace async::detail {

/// Which worker drives which event loop.
///
/// Each loop belongs to a worker, its owner, which drives it. While the owner has no thread, a wanted worker drives it;
/// while no worker is wanted, none does. A loop goes from one driver to the next by these steps:
///
///     unassigned --assign()--> given to a worker, which is woken --take_up()--> driven
///          ^                                                                      |  the driver ends, or
///          |                                                                      |  the owner has a thread again
///          +--------put_down()-------- released <---------take_out_...()----------+
///
/// A driver gives a loop away only between two turns, and takes one up before its next task.
///
/// Threads     all members under the crew's mutex; take_up() and take_out_...() by the worker's thread. The loops that
///             take_out_for_owners() returns are to be released without the mutex: a release waits for a thread inside
///             the loop, which may need the mutex.
class loop_assignment {
 public:
  using workers = std::span<const std::unique_ptr<worker>>;

  /// Takes in a loop that no worker drives.
  void add(hosted_loop& h) noexcept {
    h.driver.clear();
    h.next = unassigned_;
    unassigned_ = &h;
  }
  /// The same with a list of released loops.
  void put_down(hosted_loop* list) noexcept {
    while (list != nullptr) add(*std::exchange(list, list->next));
  }

  /// Finds drivers for unassigned loops, and asks drivers for the loops of workers that have a thread again. `wanted`:
  /// workers number 0 to the last wanted one.
  void assign(workers wanted) noexcept {
    if (wanted.empty()) return;
    for (hosted_loop* list = std::exchange(unassigned_, nullptr); list != nullptr;) {
      hosted_loop& h = *std::exchange(list, list->next);
      give(h, *wanted[h.owner.index % wanted.size()]);  // the owner, if it is wanted
    }
    for (const auto& w : wanted) {
      worker* const driver = w->own_loop.driver.get();
      if (driver != w.get()) call(*driver);
    }
  }

  /// Makes the worker drive the loops that it has been given.
  static void take_up(worker& w) noexcept {
    w.must_review.store(false, std::memory_order_relaxed);  // relaxed: written under the mutex
    w.loops.add(std::exchange(w.given, nullptr));
  }
  /// Takes from the worker the loops whose owners are wanted, except its own.
  static hosted_loop* take_out_for_owners(worker& w, workers wanted) noexcept {
    return w.loops.take([&](const hosted_loop& h) noexcept { return &h.owner != &w && h.owner.index < wanted.size(); });
  }
  /// Takes all loops from a worker, which has released those that it drives.
  static hosted_loop* take_out_all(worker& w) noexcept {
    take_up(w);
    return w.loops.take([](const hosted_loop&) noexcept { return true; });
  }

 private:
  static void give(hosted_loop& h, worker& w) noexcept {
    h.next = w.given;
    w.given = &h;
    h.driver.set(w);
    call(w);
  }
  /// Makes the worker review its loops before its next task.
  static void call(worker& w) noexcept {
    w.must_review.store(true, std::memory_order_relaxed);  // relaxed: ordered by the sleepers' lock, else seen in time
    worker::wake(w);
  }

  hosted_loop* unassigned_ = nullptr;
};

}  // namespace async::detail
