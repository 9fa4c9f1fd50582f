// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <mutex>    // for lock_guard
#include <utility>  // for exchange

#include "async/detail/pool/dropping.hpp"         // for dropping
#include "async/detail/pool/pool_core.hpp"        // for pool_core, task_scope
#include "async/detail/pool/pool_queues.hpp"      // for take_any
#include "async/detail/pool/priority_queues.hpp"  // for priority_order

/// The end of a pool: tasks that are dropped, tasks that are left over, stop().
namespace async::inline v0_1::detail {

inline bool pool_core::drop_instead(taken& t) noexcept {
  if (!shutdown_.discards()) [[likely]]
    return false;
  if (t.boxed && (t.boxed.tag != &posted_task || static_cast<posted_job*>(t.boxed.item)->how == nullptr)) return false;
  drop(t);
  return true;
}

[[gnu::noinline]] inline void pool_core::drop(taken& t) noexcept {
  const dropping here(this);
  if (t.boxed) {
    auto* const j = static_cast<posted_job*>(std::exchange(t.boxed, {}).item);
    j->how->discard(j);
  } else {
    t.plain.reset();
  }
  if (here.was_live()) count_dropped(1);
  sleepers_.notify_event();
}

inline void pool_core::drop_what_is_queued() {
  for (taken t; injector_.take(t.plain);) drop(t);
  if (priority_queues::both* const others = priorities_.find()) {
    priority_order order;
    for (taken t; order.take_last(*others, t.plain);) drop(t);
  }
  for (taken t; (t.boxed = steal(nullptr, [](const task_scope* tag) noexcept { return tag == &posted_task; }));) {
    if (!drop_instead(t)) run(nullptr, t);
  }
}

inline bool pool_core::run_all() {
  bool any = false;
  priority_order order;
  for (taken t; take_any(nullptr, t, order); any = true) {
    if (!drop_instead(t)) run(nullptr, t);
  }
  return any;
}

[[gnu::noinline]] inline void pool_core::run_left_over() {
  if (left_over_of == this) return;
  const left_alone here(this);
  priority_order order;
  for (taken t; take_any(nullptr, t, order);) run(nullptr, t);  // also if the pool discards: its count has been told
}

inline std::size_t pool_core::stop_and_discard() {
  not_inside_a_task("async::threadpool: stop() inside one of its tasks");
  if (is_left_behind()) return 0;
  shutdown_.discard();
  task_scope::make_all_look();  // task_groups look again whether their tasks are to be called
  shutdown_.begin();
  injector_.close();
  priorities_.close();
  crew_.request(worker::discard_request);
  pool_core* const before = come_inside();
  drop_what_is_queued();
  go_outside(before);
  stop();
  return dropped_.load(std::memory_order_relaxed);  // relaxed: the threads have ended
}

inline void pool_core::stop() {
  not_inside_a_task("async::threadpool: stop() inside one of its tasks");
  if (is_left_behind()) return;
  const std::lock_guard once(stop_mutex_);
  shutdown_.begin();
  crew_.close([this]() noexcept { return has_tasks() || quiescence_.has_threads_or_helpers(); });
  injector_.close();
  priorities_.close();
  if (crew_.wanted() != 0) idle_.wait([this] { return is_idle() || has_flows_only(); });
  crew_.join_all();
  stand_ins_.close();
  shutdown_.finish();
  const left_alone here(this);
  end_loops();
}

}  // namespace async::inline v0_1::detail
