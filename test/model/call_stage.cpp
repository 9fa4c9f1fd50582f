// SPDX-License-Identifier: BSL-1.0
//
// A call with a future, which is made by the pool or by who waits for it, whoever comes first; who lets go of it last
// frees it.
#include "relacy_runner.hpp"

#include <optional>

#include "async/detail/call/call_stage.hpp"

using async::detail::atomic;
using async::detail::call_stage;
using async::detail::cell;
using async::detail::yield_thread;
using model::check;

namespace {

/// The scope that the thread which makes a call gives it. Freed with the call.
struct scope {
  cell<unsigned> owner;  // plain data, unlike the product's, where it is more than a hint
};

/// As call_entry does it; each thread has a scope to give.
struct entry {
  std::optional<call_stage<scope>> stage{std::in_place};
  scope scopes[3];
  cell<unsigned> argument;
  cell<unsigned> result;
  cell<unsigned> used[3];  // by each thread, until it lets go

  void hand_in() {
    argument.set(3);
    stage->hand_in();
  }
  bool take_and_make(unsigned thread) {
    if (!stage->take()) return false;
    scopes[thread].owner.set(thread + 1);
    stage->begin(scopes[thread]);
    result.set(argument.get() + 4);
    stage->finish();
    return true;
  }
  bool take_and_refuse() {
    if (!stage->take()) return false;
    result.set(9);
    stage->finish();
    return true;
  }
  void look() const {
    if (const scope* const s = stage->scope()) check(s->owner.get() != 0, "a scope that can be seen is whole");
  }
  /// True: it was freed.
  bool release(unsigned thread) {
    used[thread].set(1);
    if (!stage->release()) return false;
    if (scope* const s = stage->scope()) s->owner.set(0);
    argument.set(0);
    result.set(0);
    for (cell<unsigned>& each : used) each.set(0);
    stage.reset();
    return true;
  }
};

enum class pool_does { makes, refuses };

/// Thread 0 has the future, thread 1 is the pool's.
template <pool_does What>
struct two_sides : rl::test_suite<two_sides<What>, 2> {
  entry call;
  atomic<entry*> queue{nullptr};
  bool has_made[2] = {};
  bool has_freed[2] = {};

  void thread(unsigned index) {
    if (index == 1) {
      entry* found = nullptr;
      while ((found = queue.load(std::memory_order_acquire)) == nullptr) yield_thread();
      has_made[1] = What == pool_does::makes ? found->take_and_make(1) : found->take_and_refuse();
      check(!found->stage->is_queued(), "what is taken waits no more");
    } else {
      call.hand_in();
      check(call.stage->is_queued() && !call.stage->is_done(), "it waits for somebody");
      queue.store(&call, std::memory_order_release);
      if (!call.stage->is_done()) has_made[0] = call.take_and_make(0);
      while (!call.stage->is_done()) {
        call.look();
        yield_thread();
      }
      check(call.result.get() == (What == pool_does::refuses && !has_made[0] ? 9U : 7U), "the result can be seen");
    }
    has_freed[index] = call.release(index);
  }
  void after() {
    check(has_made[0] != has_made[1], "the call is made once");
    check(has_freed[0] != has_freed[1], "it is freed once");
  }
};

/// The future goes without having been waited for.
struct dropped : rl::test_suite<dropped, 2> {
  entry call;
  bool has_freed[2] = {};

  void before() { call.hand_in(); }
  void thread(unsigned index) {
    if (index == 1) check(call.take_and_make(1), "nobody else makes it");
    has_freed[index] = call.release(index);
  }
  void after() { check(has_freed[0] != has_freed[1], "it is freed once"); }
};

/// Two wait for the future, and one lets go of it for both; the pool makes the call or is late.
struct two_wait : rl::test_suite<two_wait, 3> {
  entry call;
  atomic<unsigned> waiting{2};
  bool has_made[3] = {};
  bool has_freed[3] = {};

  void before() { call.hand_in(); }
  void thread(unsigned index) {
    has_made[index] = call.take_and_make(index);
    if (index != 2) {
      while (!call.stage->is_done()) {
        call.look();
        yield_thread();
      }
      check(call.result.get() == 7, "both see the result");
      if (waiting.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    }
    has_freed[index] = call.release(index);
  }
  void after() {
    check(has_made[0] + has_made[1] + has_made[2] == 1, "the call is made once");
    check(has_freed[0] + has_freed[1] + has_freed[2] == 1, "it is freed once");
  }
};

/// The call ends, and the next construct gets its scope. A thread that waits for the call, and has taken a task by that
/// scope, finds out that the task is not the call's.
struct recycled : rl::test_suite<recycled, 2> {
  entry call;
  atomic<scope*> tag_of_task{nullptr};  // as in a deque: published with the task

  void before() { call.hand_in(); }
  void thread(unsigned index) {
    if (index == 1) {
      check(call.stage->take(), "nobody else makes it");
      call.stage->begin(call.scopes[1]);
      scope* const mine = call.stage->end();
      check(mine == &call.scopes[1], "the scope is the caller's again");
      tag_of_task.store(mine, std::memory_order_release);
      call.stage->finish();
    } else {
      static_cast<void>(call.stage->scope());  // may be the scope, before the task is there
      const scope* tag = nullptr;
      while ((tag = tag_of_task.load(std::memory_order_acquire)) == nullptr) yield_thread();
      check(call.stage->scope() != tag, "a task of the next construct is not taken for one of the call");
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("call_stage", argc, argv);
  run.check<two_sides<pool_does::makes>>("a call is made once, by the pool or by who waits, and freed by the last");
  run.check<two_sides<pool_does::refuses>>("a call that the pool refuses is done, too");
  run.check<dropped>("a call whose future has gone is made, and freed once");
  run.check<two_wait>("two that wait for a call see its result");
  run.check<recycled>("a scope that has been recycled is not taken for the call's");
  return run.result();
}
