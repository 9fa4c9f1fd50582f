// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t
#include <mutex>    // for lock_guard
#include <utility>  // for exchange

#include "async/detail/base/atomics.hpp"         // for atomic
#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_SHARED
#include "async/detail/base/forks.hpp"           // for guarded_member
#include "async/detail/base/immortal.hpp"        // for immortal
#include "async/detail/base/platform.hpp"        // for keep_until_thread_end
#include "async/detail/scope/current_scope.hpp"  // for task_scope, scope_of_thread, scope_setting
#include "async/detail/scope/task_scope.hpp"     // exports basic_task_scope

namespace async::inline v0_1::detail {

/// Counts the cancellations in the process, in steps of first_epoch: the lowest bits are those of a scope's word.
struct cancel_epoch {
  ASYNCSTEPS_SHARED static inline constinit atomic<std::uint64_t> now{first_epoch};
};

/// Recycled scopes: each thread keeps some, a process-wide store has the rest. No scope is ever freed, because other
/// threads may look at one that has ended, see basic_task_scope.
namespace scopes {

inline constexpr unsigned batch = 64;

struct store : guarded_member {
  static store& instance() noexcept;

  task_scope* first = nullptr;  // guarded by the mutex

  void put(task_scope*& list, unsigned count) noexcept {
    const std::lock_guard lock(mutex);
    for (; count != 0; --count) {
      task_scope* const s = std::exchange(list, list->next_free);
      s->next_free = std::exchange(first, s);
    }
  }
  unsigned take(task_scope*& list) noexcept {
    const std::lock_guard lock(mutex);
    unsigned count = 0;
    for (; first != nullptr && count != batch; ++count) {
      task_scope* const s = std::exchange(first, first->next_free);
      s->next_free = std::exchange(list, s);
    }
    return count;
  }
};
ASYNCSTEPS_SHARED inline constinit immortal<store> all_free;
inline store& store::instance() noexcept {
  forks.value.join(all_free.value);
  return all_free.value;
}

/// The scopes of one thread. Constant-initialised and trivially destructible, so that access costs no guard.
struct thread_scopes {
  task_scope* first;  // list of free ones
  unsigned count;     // length of the list
  bool had_keeper;    // the thread has a keeper, or had one
  bool has_keeper;    // else the thread keeps no scopes: nobody would give them back at its end
};
ASYNCSTEPS_SHARED inline constinit thread_local thread_scopes mine{};

struct keeper {
  keeper() noexcept { mine.had_keeper = mine.has_keeper = true; }
  ~keeper() {
    mine.has_keeper = false;
    store::instance().put(mine.first, std::exchange(mine.count, 0U));
  }
  keeper(const keeper&) = delete;
  keeper& operator=(const keeper&) = delete;
};

inline void keep() noexcept {
  if (!mine.had_keeper) static_cast<void>(platform::keep_until_thread_end<keeper>());
}

void refill();
void give_back() noexcept;

}  // namespace scopes

/// The tags of jobs in a deque that were posted and that no construct joins, in place of a scope. posted_by_flow: while
/// the pool stops, by a turn of a loop, or by such a job. The stop does not wait for these as for others, see
/// flow_watch.
ASYNCSTEPS_SHARED inline constinit task_scope posted_task{};
ASYNCSTEPS_SHARED inline constinit task_scope posted_by_flow{};
inline bool is_posted(const task_scope* tag) noexcept { return tag == &posted_task || tag == &posted_by_flow; }

/// The scope of the task that the calling thread runs; null: none.
inline task_scope* current_scope() noexcept { return scope_of_thread; }

/// A scope for a new construct inside `outer`. Throws std::bad_alloc.
inline task_scope& begin_scope(task_scope* outer) {
  scopes::thread_scopes& mine = scopes::mine;
  if (mine.count == 0) [[unlikely]]
    scopes::refill();
  --mine.count;
  task_scope* const s = std::exchange(mine.first, mine.first->next_free);
  s->begin(outer);
  return *s;
}
inline void end_scope(task_scope& s) noexcept {
  scopes::thread_scopes& mine = scopes::mine;
  s.end();
  s.next_free = std::exchange(mine.first, &s);
  if (++mine.count == 2 * scopes::batch || !mine.has_keeper) [[unlikely]]
    scopes::give_back();
}

/// While it lives, the calling thread runs a task of this scope.
class scope_guard : scope_setting {
 public:
  explicit scope_guard(task_scope* s) noexcept : scope_setting(is_posted(s) ? nullptr : s) {}
};

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void scopes::refill() {
  keep();
  mine.count = store::instance().take(mine.first);
  if (mine.count != 0) return;
  task_scope* const fresh = new task_scope[batch];
  for (unsigned i = 0; i != batch; ++i) fresh[i].next_free = std::exchange(mine.first, &fresh[i]);
  mine.count = batch;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void scopes::give_back() noexcept {
  const unsigned count = mine.has_keeper ? batch : mine.count;
  store::instance().put(mine.first, count);
  mine.count -= count;
}
#endif

}  // namespace async::inline v0_1::detail
