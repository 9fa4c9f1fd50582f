// SPDX-License-Identifier: BSL-1.0
//
// Scopes of constructs inside each other: who is cancelled, and whose task is whose, while constructs end and others
// begin in their scopes.
#include "relacy_runner.hpp"

#include <cstdint>

#include "async/detail/scope/task_scope.hpp"

using async::detail::atomic;
using async::detail::basic_task_scope;
using async::detail::yield_thread;
using model::check;

namespace {

/// Stands for the process's epoch; that of this execution.
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
  };
  static constexpr counter now{};
};
using scope = basic_task_scope<epoch>;

/// Three inside each other, and another one.
struct tree {
  atomic<std::uint64_t> now{2};
  scope root, middle, leaf, other;
  atomic<unsigned> is_done{0};

  tree() { epoch::current = &now; }
  void grow() {
    root.begin(nullptr);
    middle.begin(&root);
    leaf.begin(&middle);
    other.begin(nullptr);
  }
  /// The epoch moves on, so that the next look at each scope walks up.
  void move_epoch() {
    scope moves;
    moves.begin(nullptr);
    moves.cancel();
  }
  void done() { is_done.store(1, std::memory_order_release); }
  bool can_see_it_done() const { return is_done.load(std::memory_order_acquire) != 0; }
};

/// The root is cancelled while its inner scopes are looked at, from two threads; another cancel moves the epoch, too.
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
      check(other.is_cancelled(), "who has cancelled sees it");
      middle.is_cancelled();
    } else {
      leaf.is_cancelled();
      if (!can_see_it_done()) return;
      check(leaf.is_cancelled(), "a cancel that happened before is seen");
      check(middle.is_cancelled() && root.is_cancelled(), "on the way, too");
    }
  }
  void after() {
    check(root.is_cancelled() && middle.is_cancelled() && leaf.is_cancelled(), "all in it are cancelled");
    scope inside;
    inside.begin(&leaf);
    check(inside.is_cancelled(), "and what begins there");
  }
};

/// What is inside does not cancel what is around; a look at a scope does not lose the scope's own cancel.
struct own : rl::test_suite<own, 3>, tree {
  void before() {
    grow();
    move_epoch();
  }
  void thread(unsigned index) {
    if (index == 0) {
      middle.cancel();
      check(middle.is_cancelled(), "who has cancelled sees it");
      done();
    } else if (index == 1) {
      check(!root.is_cancelled(), "what is around is not cancelled");
      middle.is_cancelled();
    } else {
      middle.is_cancelled();
      if (can_see_it_done()) check(middle.is_cancelled() && leaf.is_cancelled(), "and others see it");
    }
  }
  void after() {
    check(middle.is_cancelled() && leaf.is_cancelled(), "what is in it is cancelled");
    check(!root.is_cancelled() && !other.is_cancelled(), "and nothing else");
  }
};

/// A construct begins in one that is cancelled meanwhile.
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
      if (can_see_it_done()) check(leaf.is_cancelled(), "a cancel that happened before is seen");
    }
  }
  void after() { check(leaf.is_cancelled(), "it is cancelled"); }
};

/// A construct is cancelled, and as new, and cancelled again.
struct again : rl::test_suite<again, 2>, tree {
  void before() { grow(); }
  void thread(unsigned index) {
    if (index == 0) {
      root.cancel();
      root.clear();
      check(!root.is_cancelled() && !middle.is_cancelled(), "it is as new");
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
    check(!leaf.is_cancelled(), "it is as new");
  }
};

/// The construct around has ended, and its scope is that of another one, which is cancelled.
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
      check(root.is_cancelled(), "the new construct is");
    } else {
      check(!middle.is_cancelled(), "that is not the construct around");
      check(!leaf.is_cancelled(), "not farther up either");
    }
  }
  void after() { check(!middle.is_cancelled() && !leaf.is_cancelled(), "nor later"); }
};

/// The same, and that one lies in another, which is cancelled.
struct recycled_inside : rl::test_suite<recycled_inside, 2>, tree {
  void before() {
    grow();
    other.cancel();
  }
  void thread(unsigned index) {
    if (index == 0) {
      middle.end();
      middle.begin(&other);
      check(middle.is_cancelled(), "the new construct is");
    } else {
      check(!leaf.is_cancelled(), "that is not the construct around");
    }
  }
  void after() { check(!leaf.is_cancelled(), "nor later"); }
};

/// All around has ended. Its scopes are used again, by a cancelled construct and by one inside another, which has the
/// number that the cancelled one has: both are the second in their scopes.
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
      check(!middle.is_cancelled(), "the new construct in its scope is not");
    } else {
      check(!leaf.is_cancelled(), "none of these was around it");
    }
  }
  void after() { check(!leaf.is_cancelled(), "nor later"); }
};

/// A construct whose own around has ended is no part of the one that uses that scope now.
struct left_behind : rl::test_suite<left_behind, 2>, tree {
  void before() { grow(); }
  void thread(unsigned index) {
    if (index == 0) {
      middle.end();
      middle.begin(&other);
      done();
    } else {
      check(!other.contains(&leaf), "it was never in that");
      if (can_see_it_done()) check(other.contains(&middle) && !middle.contains(&leaf), "and is not in the new one");
    }
  }
  void after() { check(!other.contains(&leaf) && !middle.contains(&leaf), "nor later"); }
};

/// A thread that gets a task knows in which constructs that is.
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
    root.contains(&leaf);  // as a thief asks that is late: means nothing
    const scope* const got = task.load(std::memory_order_acquire);
    if (got == nullptr) return;
    check(root.contains(got) && middle.contains(got) && leaf.contains(got), "it is in these three");
    check(!other.contains(got) && !leaf.contains(&middle) && !root.contains(nullptr), "and in no other");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("task_scope", argc, argv);
  const model::effort some{.at_most = 100'000, .random = 100'000};
  run.check<cancelled<false>>("a cancel that happened before is seen by all inside", some);
  run.check<cancelled<true>>("so it is by those who have to look up", some);
  run.check<own>("a construct inside is cancelled alone", some);
  run.check<begins>("a construct begins in one that is cancelled");
  run.check<again>("a construct is cancelled twice, and as new between");
  run.check<recycled>("a construct in the scope of one that has ended cancels nothing that was in that");
  run.check<recycled_inside>("nor does what is around the new construct");
  run.check<recycled_twice>("nor do two whose scopes were both around");
  run.check<left_behind>("a construct whose surroundings have ended is in no construct that begins in their scope");
  run.check<inside>("a task is known to be in the constructs around it");
  return run.result();
}
