// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for any_of
#include <cstddef>    // for size_t
#include <string>     // for string
#include <utility>    // for move
#include <vector>     // for vector

#include "program.hpp"

/// Programs that do the same whatever their timing, and logs of them that can be compared.
namespace testing::program {

/// Makes programs independent of time: without timeouts, without waits that nobody ends, and without anything by which
/// branches that run side by side could influence each other. A program with branches is not cancelled.
///
/// A race comes out in one way only. In the first one of a program the first branch wins: it waits until the others
/// have begun, which either fail or wait until they are cancelled. In some later ones all branches fail alike. The rest
/// become parallel().
///
/// All syncs take the first mutex, but those around no other sync, which may take another object: a flow that has such
/// a place waits for no other one.
class untimed {
 public:
  static tree of(tree program) {
    untimed made;
    program.cancel_at_tick = 0;
    made.level(program.steps);
    if (made.has_branches_) program.cancel_at_run = 0;
    return program;
  }

  /// Whether is(node) is true of any of these nodes, or of those below.
  template <class F>
  static bool has(const std::vector<node>& nodes, F is) {
    return std::any_of(nodes.begin(), nodes.end(),
                       [&is](const node& each) { return is(each) || has(each.sub, is) || has(each.rescue, is); });
  }

 private:
  void level(std::vector<node>& nodes) {
    for (node& each : nodes) {
      change(each);
      level(each.sub);
      level(each.rescue);
      if (!is_group(each)) continue;
      has_branches_ = true;
      if (each.sub.size() < 2) continue;
      const bool is_race = each.what == kind::race;
      for (node& branch : each.sub) branch = contained(std::move(branch));
      if (is_race && !has_winner_) {
        has_winner_ = true;
        let_first_win(each);
      } else if (is_race && each.id % 2 == 0) {
        for (node& branch : each.sub) branch = failing(std::move(branch), each.id);
      } else {
        each.what = kind::parallel;
      }
    }
  }

  /// Rewrites a race. It runs inside a step that resets the events by which the losers tell that they have begun: the
  /// race may be in a loop.
  static void let_first_win(node& race) {
    node begin = step(5000 + race.id);
    node winner = step(2000 + race.sub.front().id);
    std::vector<node> branches;
    for (int loser = 0; loser != number_of_events && loser + 1 < static_cast<int>(race.sub.size()); ++loser) {
      node reset = step(6000 + race.id + loser);
      reset.to_event = node::does::reset;
      node begun = step(7000 + race.id + loser);
      begun.what = kind::event;
      node other = step(race.sub[static_cast<std::size_t>(loser) + 1].id);
      other.to_event = node::does::set;
      reset.event = begun.event = other.event = loser;
      other.on_cancel = other.id % 3 != 0;
      other.end = other.on_cancel ? ending::wait : ending::error_no_throw;
      other.code = "Lost";
      begin.sub.push_back(std::move(reset));
      winner.sub.push_back(std::move(begun));
      branches.push_back(std::move(other));
    }
    winner.sub.push_back(std::move(race.sub.front()));
    branches.insert(branches.begin() + race.id % static_cast<int>(branches.size() + 1), std::move(winner));
    race.sub = std::move(branches);
    begin.sub.push_back(std::move(race));
    race = std::move(begin);
  }

  /// The branch, and then an error that is the same for all branches of a race.
  static node failing(node branch, int race) {
    node all = step(2000 + branch.id);
    node error = step(3000 + race);
    error.end = ending::error;
    error.code = "Lost";
    all.sub.push_back(std::move(branch));
    all.sub.push_back(std::move(error));
    return all;
  }

  static node step(int id) {
    node made;
    made.id = id;
    return made;
  }

  static bool has_sync(const std::vector<node>& nodes) {
    return has(nodes, [](const node& each) { return each.what == kind::sync; });
  }

  static void change(node& of) {
    of.timeout = 0;
    of.to_event = node::does::nothing;
    if (of.what == kind::event) of.what = kind::step;
    // With two that are held at a time, branches could lock each other out, or not.
    of.mutex = has_sync(of.sub) || has_sync(of.rescue) ? 0 : of.id % (mutexes + semaphores);
    const bool only_waits = of.end == ending::none && of.on_cancel && of.sub.empty() && !is_group(of);
    if (only_waits || of.end == ending::wait) {
      of.end = ending::wait_success;
      of.delay += of.id;
    }
  }

  /// The branch with a handler that keeps all errors from its siblings.
  static node contained(node branch) {
    if (branch.what != kind::step && branch.what != kind::sync) {
      node outer = step(1000 + branch.id);
      outer.sub.push_back(std::move(branch));
      branch = std::move(outer);
    }
    branch.on_error = handler::success;
    branch.rescue.clear();
    return branch;
  }

  bool has_branches_ = false;
  bool has_winner_ = false;  // there is a race that its first branch wins
};

/// Appends events [at, end) of the flow `name` and the branches below it, with those of one branch together.
inline void append_by_flow(history& to, const history& from, const std::string& name) {
  for (std::size_t at = 0; at < from.size();) {
    if (from[at].branch == name) {
      to.push_back(from[at++]);
      continue;
    }
    std::size_t end = at;
    while (end < from.size() && from[end].branch != name) ++end;
    for (std::string last; at < end;) {  // branches in the order of their names
      std::string next;
      history events;
      for (std::size_t i = at; i < end; ++i) {
        const std::string& full = from[i].branch;
        const std::string child = full.substr(0, full.find('/', name == "/" ? 1 : name.size() + 1));
        if (child > last && (next.empty() || child < next)) {
          next = child;
          events.clear();
        }
        if (child == next) events.push_back(from[i]);
      }
      if (next.empty()) break;
      append_by_flow(to, events, next);
      last = next;
    }
    at = end;
  }
}

/// The history without times, and with the events of each branch together: equal for all orders in which the branches
/// of an untimed program can run.
inline history by_flow(history of) {
  for (event& each : of) {
    each.tick = 0;
    each.what = each.what.substr(0, each.what.find(" missed="));  // of the rounds of every()
  }
  history made;
  append_by_flow(made, of, "/");
  return made;
}

inline bool has_stuck(const history& of) {
  for (const event& each : of) {
    if (each.what == "stuck") return true;
  }
  return false;
}

}  // namespace testing::program
