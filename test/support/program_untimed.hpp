// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <string>   // for string
#include <utility>  // for move
#include <vector>   // for vector

#include "program.hpp"

/// Programs that do the same whatever their timing, and logs of them that can be compared.
namespace testing::program {

/// Makes programs independent of time: without timeouts, without waits that nobody ends, and without anything by which
/// branches that run side by side could influence each other. A program with branches is not cancelled.
class untimed {
 public:
  static tree of(tree program) {
    untimed made;
    program.cancel_at_tick = 0;
    made.level(program.steps);
    if (made.has_branches_) program.cancel_at_run = 0;
    return program;
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
      each.what = kind::parallel;  // who wins a race is a matter of timing
      for (node& branch : each.sub) branch = contained(std::move(branch));
    }
  }

  static void change(node& of) {
    of.timeout = 0;
    of.to_event = node::does::nothing;
    if (of.what == kind::event) of.what = kind::step;
    of.mutex = 0;  // with two, branches could lock each other out, or not
    const bool only_waits = of.end == ending::none && of.on_cancel && of.sub.empty() && !is_group(of);
    if (only_waits || of.end == ending::wait) {
      of.end = ending::wait_success;
      of.delay += of.id;
    }
  }

  /// The branch with a handler that keeps all errors from its siblings.
  static node contained(node branch) {
    if (branch.what != kind::step && branch.what != kind::sync) {
      node outer;
      outer.id = 1000 + branch.id;
      outer.sub.push_back(std::move(branch));
      branch = std::move(outer);
    }
    branch.on_error = handler::success;
    branch.rescue.clear();
    return branch;
  }

  bool has_branches_ = false;
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
