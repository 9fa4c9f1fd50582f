// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for ptrdiff_t, size_t
#include <utility>  // for exchange, move
#include <vector>   // for vector

#include "program.hpp"

namespace testing::program {

/// All programs that are one simplification smaller: without a node, with a node's sub-steps in its place, without a
/// timeout, a handler, an ending.
class smaller {
 public:
  static std::vector<tree> of(const tree& program) {
    smaller made(program);
    made.levels(made.copy_.steps);
    return std::move(made.found_);
  }

 private:
  explicit smaller(const tree& program) : copy_(program) {}

  void levels(std::vector<node>& level) {
    for (std::size_t at = 0; at < level.size(); ++at) {
      const std::vector<node> before = level;
      level.erase(level.begin() + static_cast<std::ptrdiff_t>(at));
      found_.push_back(copy_);
      const std::vector<node> inner = before[at].sub;
      level.insert(level.begin() + static_cast<std::ptrdiff_t>(at), inner.begin(), inner.end());
      if (!inner.empty()) found_.push_back(copy_);
      level = before;
      tried(level[at].timeout, 0);
      tried(level[at].on_cancel, false);
      tried(level[at].takes, false);
      tried(level[at].pause, 0);
      tried(level[at].policy, 0);
      tried(level[at].bursts, false);
      tried(level[at].to_event, node::does::nothing);
      tried(level[at].end, ending::none);
      tried(level[at].result, 0);
      tried(level[at].on_error, handler::none);
      tried(level[at].what, kind::step);
      levels(level[at].sub);
      levels(level[at].rescue);
    }
  }

  template <class T>
  void tried(T& member, T value) {
    if (member == value) return;
    const T before = std::exchange(member, value);
    found_.push_back(copy_);
    member = before;
  }

  tree copy_;
  std::vector<tree> found_;
};

/// The smallest program found from `program` on for which `fails(program)` is true.
template <class F>
tree shrunk(tree program, F fails) {
  for (bool again = true; again;) {
    again = false;
    for (tree& candidate : smaller::of(program)) {
      if (!fails(candidate)) continue;
      program = std::move(candidate);
      again = true;
      break;
    }
  }
  return program;
}

}  // namespace testing::program
