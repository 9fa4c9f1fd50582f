// SPDX-License-Identifier: BSL-1.0
//
// Branches of a race or of a parallel() step end at once, and are asked to end. One decides; the parent reads what it
// has left, asks the others to end, and goes on when all have ended. The order of the calls is that of
// steps/detail/parallel/pool_branch.hpp and pool_parallel.hpp.
#include "relacy_runner.hpp"

#include "async/detail/loop/inbox.hpp"
#include "steps/detail/flow/branch_state.hpp"
#include "steps/detail/flow/join_state.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::inbox;
using async::detail::message;
using async::detail::yield_thread;
using model::check;
using steps::detail::branch_state;

namespace {

enum class outcome {
  wins,
  fails,   // in a race: decides if all others have failed
  leaves,  // for a loop around, or fails in a parallel() step
};

struct branch {
  atomic<std::uint32_t> word{0};
  atomic<unsigned> request{0};  // stands for its loop's inbox
  cell<unsigned> data{0};
  const int* tag = nullptr;
};

using join_state = steps::detail::join_state<branch, int>;

constexpr int results_of[] = {0, 1, 2, 3};
constexpr unsigned data_of(unsigned thread) { return 10 + thread; }

/// `decided` or `over`.
struct report : message {
  report() : message(nullptr) {}
};

/// The parent is thread 0. `Asks`: it asks all branches to end at any time, as for a timeout or a cancel.
template <bool Asks, outcome... Outcomes>
struct step : rl::test_suite<step<Asks, Outcomes...>, 1 + sizeof...(Outcomes)> {
  static constexpr unsigned branches = sizeof...(Outcomes);
  static constexpr outcome outcomes[] = {Outcomes...};

  branch all[branches];
  join_state join{branches};
  inbox parents;
  report decided, over;
  atomic<unsigned> is_over{0};  // for the branches' loops, which need not look for a request any more
  cell<unsigned> freed{0};
  bool has_ended[1 + branches] = {};  // the thread has come to zero
  bool has_claimed[branches] = {};
  unsigned arrived = 0;
  bool has_asked = false;

  void before() {
    for (branch& b : all) {
      branch_state word(b.word);
      word.offer();
      check(word.bind(false) == branch_state::binding::wanted, "each branch has a loop");
    }
  }

  void count_down(unsigned thread) {
    if (!join.drop()) return;
    check(freed.get() == 0, "the parent goes on after the count is zero");
    has_ended[thread] = true;
    if (thread != 0) parents.push(over);
  }

  void run(unsigned thread, branch& b) {
    b.data.set(data_of(thread));
    b.tag = &results_of[thread];
    const bool told = b.request.load(std::memory_order_acquire) != 0;
    if (told) {  // cancelled before its end
      count_down(thread);
    } else if (const outcome how = outcomes[thread - 1]; how == outcome::wins) {
      join.claim_win(b, b.tag);
    } else if (how == outcome::leaves || join.racer_failed()) {
      join.claim(b);
    }
    if (join.has_claimed(b)) {
      has_claimed[thread - 1] = true;
      parents.push(decided);
    }
    branch_state(b.word).end();
    count_down(thread);
    while (!told && is_over.load(std::memory_order_relaxed) == 0) {
      if (b.request.load(std::memory_order_acquire) != 0) return count_down(thread);
      yield_thread();
    }
  }

  void ask_all_to_end() {
    if (std::exchange(has_asked, true) || !join.hold()) return;
    for (branch& b : all) {
      const branch_state::request how = branch_state(b.word).ask_to_end();
      check(how != branch_state::request::dispose, "the branch has a loop");
      if (how != branch_state::request::send) continue;
      join.count_request();
      b.request.store(1, std::memory_order_release);
    }
    count_down(0);
  }
  void decided_arrived() {
    ++arrived;
    const unsigned decider = static_cast<unsigned>(&join.deciding_branch() - &all[0]);
    check(all[decider].data.get() == data_of(1 + decider), "the parent reads what the decider has left");
    check(join.is_won() == (outcomes[decider] == outcome::wins), "and how it has ended");
    for (const outcome how : outcomes) {
      check(outcomes[decider] != outcome::fails || how == outcome::fails, "a race is lost when all have failed");
    }
    ask_all_to_end();
    count_down(0);
  }
  void live() {
    if (Asks) ask_all_to_end();
    for (bool over_has_arrived = false; !over_has_arrived && !has_ended[0];) {
      for (message* m = parents.take(); m != nullptr;) {
        const message* const first = std::exchange(m, m->next.get());
        if (first == &decided) {
          decided_arrived();
        } else {
          check(first == &over && m == nullptr, "no report follows the last one");
          over_has_arrived = true;
        }
      }
      yield_thread();
    }
    is_over.store(1, std::memory_order_relaxed);
    const int* const results = join.take_results();
    check((results != nullptr) == join.is_won(), "a winner's results are there");
    if (results != nullptr) check(results == &results_of[1 + (&join.deciding_branch() - &all[0])], "and are its own");
    for (branch& b : all) b.data.set(0);  // freed
    freed.set(1);
  }

  void thread(unsigned index) {
    if (index == 0) return live();
    run(index, all[index - 1]);
  }
  void after() {
    unsigned zeros = 0, claims = 0;
    for (const bool it : has_ended) zeros += it;
    for (const bool it : has_claimed) claims += it;
    check(zeros == 1, "the count comes to zero once");
    check(claims <= 1 && arrived == claims, "one branch decides at most, and its report arrives once");
    check(Asks || claims == 1, "one branch decides unless all are told to end");
    check(!join.hold(), "the count stays zero");
  }
};

}  // namespace

int main(int argc, char** argv) {
  using enum outcome;
  model::runner run("join_state", argc, argv);
  run.check<step<false, wins, wins>>("two branches win a race at once");
  run.check<step<false, wins, fails>>("one wins while the other fails");
  run.check<step<false, fails, fails>>("both fail");
  run.check<step<false, wins, leaves>>(
      "one wins while the other leaves for a loop around, or both fail outside a race");
  run.check<step<true, wins, wins>>("two winners are asked to end");
  run.check<step<true, fails, fails>>("two losers are asked to end");
  run.check<step<true, wins, leaves>>("a winner and a branch that leaves are asked to end");
  const model::effort some{.at_most = 60'000};
  run.check<step<false, wins, wins, fails>>("two branches of three win", some);
  run.check<step<false, fails, fails, fails>>("all of three fail", some);
  return run.result();
}
