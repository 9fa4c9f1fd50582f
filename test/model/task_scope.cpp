// SPDX-License-Identifier: BSL-1.0
//
// Scopes of nested constructs: cancellation, and which task belongs to which construct, while constructs end and others
// begin in the same scopes.
#include "relacy_runner.hpp"

#include <cstdint>

#include "async/detail/scope/task_scope.hpp"

using async::detail::atomic;
using async::detail::basic_task_scope;
using async::detail::yield_thread;
using model::check;

namespace {

/// Replaces the process's epoch: the epoch of this execution.
struct epoch {
  static inline atomic<std::uint64_t>* current = nullptr;
  struct counter {
    std::uint64_t load(std::memory_order order, model::place at = model::place::current()) const {
      return current->load(order, at);
    }
    std::uint64_t fetch_add(std::uint64_t by, std::memory_order order,
                            model::place at = model::place::current()) const {
      return current->fetch_add(by, order, at);
    }
    std::uint64_t fetch_or(std::uint64_t mask, std::memory_order order,
                           model::place at = model::place::current()) const {
      return current->fetch_or(mask, order, at);
    }
  };
  static constexpr counter now{};
};
using scope = basic_task_scope<epoch>;

/// Three nested scopes, and another one.
struct tree {
  atomic<std::uint64_t> now{async::detail::first_epoch};
  scope root, middle, leaf, other;
  atomic<unsigned> is_done{0};

  tree() { epoch::current = &now; }
  void grow() {
    root.begin(nullptr);
    middle.begin(&root);
    leaf.begin(&middle);
    other.begin(nullptr);
  }
  /// Advances the epoch, so that the next look at each scope walks up.
  void move_epoch() {
    scope moves;
    moves.begin(nullptr);
    moves.cancel();
  }
  void done() { is_done.store(1, std::memory_order_release); }
  bool can_see_it_done() const { return is_done.load(std::memory_order_acquire) != 0; }
};

/// The root is cancelled while two threads look at its inner scopes. Another cancel also advances the epoch.
template <bool MovesBefore>
struct cancelled : rl::test_suite<cancelled<MovesBefore>, 3>, tree {
  void before() {
    grow();
    if (MovesBefore) move_epoch();
  }
  void thread(unsigned index) {
    if (index == 0) {
      root.cancel();
      done();
    } else if (index == 1) {
      other.cancel();
      check(other.is_cancelled(), "the cancelling thread sees it");
      middle.is_cancelled();
    } else {
      leaf.is_cancelled();
      if (!can_see_it_done()) return;
      check(leaf.is_cancelled(), "an earlier cancel is seen");
      check(middle.is_cancelled() && root.is_cancelled(), "also on the way");
    }
  }
  void after() {
    check(root.is_cancelled() && middle.is_cancelled() && leaf.is_cancelled(), "all inner ones are cancelled");
    scope inside;
    inside.begin(&leaf);
    check(inside.is_cancelled(), "also a new one inside");
  }
};

/// An inner scope does not cancel the outer ones. A look at a scope does not lose the scope's own cancel.
struct own : rl::test_suite<own, 3>, tree {
  void before() {
    grow();
    move_epoch();
  }
  void thread(unsigned index) {
    if (index == 0) {
      middle.cancel();
      check(middle.is_cancelled(), "the cancelling thread sees it");
      done();
    } else if (index == 1) {
      check(!root.is_cancelled(), "the outer one is not cancelled");
      middle.is_cancelled();
    } else {
      middle.is_cancelled();
      if (can_see_it_done()) check(middle.is_cancelled() && leaf.is_cancelled(), "other threads see it");
    }
  }
  void after() {
    check(middle.is_cancelled() && leaf.is_cancelled(), "the inner one is cancelled");
    check(!root.is_cancelled() && !other.is_cancelled(), "no other is cancelled");
  }
};

/// A condition beside the cancels comes true. A look that does not ask for it does not keep a later one from asking.
/// Nor does the beginning of a construct that makes its first look afterwards, in another one or in none.
struct asked : rl::test_suite<asked, 3>, tree {
  void before() { grow(); }
  void thread(unsigned index) {
    if (index == 0) {
      condition.store(1, std::memory_order_relaxed);
      scope::make_all_ask();
      done();
    } else if (index == 1) {
      check(!middle.is_cancelled(), "it is not cancelled itself");
    } else {
      ask(middle);
      scope inside, outside;
      inside.begin(&middle);
      outside.begin(nullptr);
      if (!can_see_it_done()) return;
      check(ask(middle) && ask(inside) && ask(outside), "a condition that is true is seen");
    }
  }
  void after() {
    check(!middle.is_cancelled(), "it is not cancelled itself, later, too");
    check(ask(middle), "the condition is seen");
    check(ask(middle), "and seen again");
    scope late;
    late.begin(nullptr);
    check(ask(late), "also by a construct that begins later");
  }
  bool ask(scope& by) {
    return by.is_cancelled_or([this] { return condition.load(std::memory_order_relaxed) != 0; });
  }

  atomic<unsigned> condition{0};
};

/// A construct begins inside one that is being cancelled.
struct begins : rl::test_suite<begins, 2>, tree {
  void before() {
    root.begin(nullptr);
    middle.begin(&root);
  }
  void thread(unsigned index) {
    if (index == 0) {
      root.cancel();
      done();
    } else {
      middle.is_cancelled();
      leaf.begin(&middle);
      leaf.is_cancelled();
      if (can_see_it_done()) check(leaf.is_cancelled(), "an earlier cancel is seen");
    }
  }
  void after() { check(leaf.is_cancelled(), "it is cancelled"); }
};

/// A construct is cancelled, cleared, and cancelled again.
struct again : rl::test_suite<again, 2>, tree {
  void before() { grow(); }
  void thread(unsigned index) {
    if (index == 0) {
      root.cancel();
      root.clear();
      check(!root.is_cancelled() && !middle.is_cancelled(), "it is cleared");
      root.cancel();
      done();
    } else {
      leaf.is_cancelled();
      if (can_see_it_done()) check(leaf.is_cancelled(), "the second cancel is seen");
    }
  }
  void after() {
    check(leaf.is_cancelled(), "it is cancelled");
    root.clear();
    check(!leaf.is_cancelled(), "it is cleared");
  }
};

/// The outer construct has ended. Another one uses its scope and is cancelled.
struct recycled : rl::test_suite<recycled, 2>, tree {
  void before() {
    grow();
    move_epoch();
  }
  void thread(unsigned index) {
    if (index == 0) {
      root.end();
      root.begin(nullptr);
      root.cancel();
      check(root.is_cancelled(), "the new construct is cancelled");
    } else {
      check(!middle.is_cancelled(), "its outer construct is another one");
      check(!leaf.is_cancelled(), "also further in");
    }
  }
  void after() { check(!middle.is_cancelled() && !leaf.is_cancelled(), "also later"); }
};

/// The same, but the new construct lies inside another one, which is cancelled.
struct recycled_inside : rl::test_suite<recycled_inside, 2>, tree {
  void before() {
    grow();
    other.cancel();
  }
  void thread(unsigned index) {
    if (index == 0) {
      middle.end();
      middle.begin(&other);
      check(middle.is_cancelled(), "the new construct is cancelled");
    } else {
      check(!leaf.is_cancelled(), "its outer construct is another one");
    }
  }
  void after() { check(!leaf.is_cancelled(), "also later"); }
};

/// All outer constructs have ended. Their scopes are used again: one by a cancelled construct, one by a construct
/// inside another. The generations are equal, as both are the second construct in their scopes.
struct recycled_twice : rl::test_suite<recycled_twice, 2>, tree {
  void before() {
    other.begin(nullptr);
    other.end();
    grow();
    move_epoch();
  }
  void thread(unsigned index) {
    if (index == 0) {
      middle.end();
      root.end();
      root.begin(nullptr);
      root.cancel();
      middle.begin(&other);
      check(!middle.is_cancelled(), "the new construct in its scope is not cancelled");
    } else {
      check(!leaf.is_cancelled(), "none of these is an outer construct");
    }
  }
  void after() { check(!leaf.is_cancelled(), "also later"); }
};

/// A construct whose outer one has ended does not belong to the next user of that scope.
struct left_behind : rl::test_suite<left_behind, 2>, tree {
  void before() { grow(); }
  void thread(unsigned index) {
    if (index == 0) {
      middle.end();
      middle.begin(&other);
      done();
    } else {
      check(!other.contains(&leaf), "it has never been in that one");
      if (can_see_it_done()) check(other.contains(&middle) && !middle.contains(&leaf), "nor in the new one");
    }
  }
  void after() { check(!other.contains(&leaf) && !middle.contains(&leaf), "also later"); }
};

/// A thread that receives a task knows its constructs.
struct inside : rl::test_suite<inside, 2>, tree {
  atomic<scope*> task{nullptr};
  void before() {
    root.begin(nullptr);
    other.begin(nullptr);
    leaf.begin(&other);
    leaf.end();
  }
  void thread(unsigned index) {
    if (index == 0) {
      middle.begin(&root);
      leaf.begin(&middle);
      task.store(&leaf, std::memory_order_release);
      return;
    }
    root.contains(&leaf);  // like a late thief: the answer means nothing
    const scope* const got = task.load(std::memory_order_acquire);
    if (got == nullptr) return;
    check(root.contains(got) && middle.contains(got) && leaf.contains(got), "it belongs to these three");
    check(!other.contains(got) && !leaf.contains(&middle) && !root.contains(nullptr), "and to no other");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("task_scope", argc, argv);
  const model::effort some{.at_most = 100'000, .random = 100'000};
  run.check<cancelled<false>>("all inner scopes see an earlier cancel", some);
  run.check<cancelled<true>>("also those that have to walk up", some);
  run.check<own>("an inner construct is cancelled alone", some);
  run.check<asked>("a condition is asked again after a look without it");
  run.check<begins>("a construct begins inside a cancelled one");
  run.check<again>("a construct is cancelled twice, and cleared in between");
  run.check<recycled>("a construct in a recycled scope cancels nothing of the previous construct");
  run.check<recycled_inside>("nor does the outer one of the new construct");
  run.check<recycled_twice>("nor do two in scopes that were both outer ones");
  run.check<left_behind>("a construct whose outer one has ended is in no later construct of that scope");
  run.check<inside>("a task is known to belong to its outer constructs");
  return run.result();
}
