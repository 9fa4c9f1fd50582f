// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t
#include <random>   // for mt19937_64
#include <string>   // for string, to_string
#include <utility>  // for move
#include <vector>   // for vector

#include "program.hpp"

namespace testing::program {

/// Makes a tree of the numbers that a `Source` gives: at most `max_depth` levels and `max_nodes` nodes.
template <class Source>
class generator {
 public:
  static constexpr int max_depth = 6;
  static constexpr int max_nodes = 40;

  explicit generator(Source numbers) : numbers_(std::move(numbers)) {}

  tree make() {
    tree made;
    left_ = 1 + below(max_nodes);
    made.steps = level(1, 4);
    if (made.steps.empty()) made.steps.push_back(step(1));
    if (one_in(6)) made.cancel_at_tick = ticks();
    return made;
  }

 private:
  int below(int bound) { return static_cast<int>(numbers_() % static_cast<std::uint64_t>(bound)); }
  bool one_in(int chance) { return below(chance) == 0; }
  int ticks() { return 1 + below(5000); }
  std::string code() { return std::string(1, static_cast<char>('A' + below(4))); }

  std::vector<node> level(int depth, int at_most) {
    std::vector<node> made;
    if (depth > max_depth) return made;
    for (int count = below(at_most + 1); count > 0 && left_ > 0; --count) made.push_back(any(depth));
    return made;
  }

  node any(int depth) {
    const int dice = below(24);
    if (dice < 12) return step(depth);
    if (dice < 13) return event(depth);
    if (dice < 16) return loop(depth);
    if (dice < 18) return sync(depth);
    if (dice < 21) return retry(depth);
    return group(depth);
  }

  node fresh(kind what) {
    --left_;
    node made;
    made.id = ++last_id_;
    made.what = what;
    return made;
  }

  node step(int depth) {
    node made = fresh(kind::step);
    made.takes = one_in(12);
    body(made, depth);
    guard(made, depth);
    return made;
  }

  node event(int depth) {
    node made = fresh(kind::event);
    made.event = below(number_of_events);
    guard(made, depth);
    return made;
  }

  node sync(int depth) {
    node made = fresh(kind::sync);
    made.mutex = below(mutexes + semaphores);
    made.takes = one_in(12);
    body(made, depth);
    guard(made, depth);
    return made;
  }

  node retry(int depth) {
    node made = fresh(kind::retry);
    made.count = one_in(20) ? 0 : 1 + below(4);
    made.pause = one_in(3) ? 0 : ticks();
    made.policy = below(2);
    body(made, depth);
    guard(made, depth);
    return made;
  }

  node group(int depth) {
    node made = fresh(one_in(3) ? kind::race : kind::parallel);
    made.sub = level(depth + 1, 4);
    made.bursts = one_in(3);
    guard(made, depth);
    return made;
  }

  node loop(int depth) {
    static constexpr kind kinds[] = {kind::loop, kind::repeat, kind::for_each, kind::every};
    node made = fresh(kinds[below(4)]);
    made.count = below(4);
    if (made.what == kind::every) {
      made.pause = one_in(8) ? 0 : ticks();
      made.policy = below(3);
    }
    if (one_in(2)) made.label = "L" + std::to_string(made.id);
    labels_.push_back(made.label);
    body(made, depth);
    labels_.pop_back();
    return made;
  }

  void body(node& made, int depth) {
    if (one_in(8)) {
      made.event = below(number_of_events);
      made.to_event = one_in(3) ? node::does::reset : node::does::set;
    }
    if (one_in(5)) made.timeout = ticks();
    made.on_cancel = one_in(4);
    if (!one_in(3)) made.sub = level(depth + 1, 3);
    finish(made);
  }

  void finish(node& made) {
    const int dice = below(36);
    if (!made.sub.empty()) {  // success() and errors beside sub-steps are the exception
      if (dice == 0) made.end = ending::success;
      if (dice == 1) made.end = ending::error;
      if (dice == 2) made.end = ending::error_no_throw;
    } else if (dice < 7) {
      made.end = ending::success;
    } else if (dice < 12) {
      static constexpr ending errors[] = {ending::error, ending::error, ending::error_no_throw, ending::error_swallowed,
                                          ending::error_no_throw_success};
      made.end = errors[dice - 7];
    } else if (dice < 17) {
      static constexpr ending waits[] = {ending::wait_success, ending::wait_error, ending::wait_success_direct,
                                         ending::wait_error_direct, ending::wait};
      made.end = waits[dice - 12];
      made.delay = ticks();
      if (made.end == ending::wait && !one_in(4)) made.timeout = ticks();
    } else if (dice < 20 && !labels_.empty()) {
      static constexpr ending jumps[] = {ending::break_loop, ending::break_loop_no_throw, ending::continue_loop,
                                         ending::continue_loop_no_throw};
      made.end = jumps[below(4)];
      if (one_in(2)) made.code = labels_[static_cast<std::size_t>(below(static_cast<int>(labels_.size())))];
      if (one_in(10)) made.code = "nowhere";
      return;
    }
    made.code = code();
    if (!one_in(3)) made.result = 100 + made.id;
  }

  void guard(node& made, int depth) {
    if (one_in(2)) return;
    static constexpr handler kinds[] = {handler::silent,         handler::success, handler::success,  handler::error,
                                        handler::error_no_throw, handler::add,     handler::add_error};
    made.on_error = kinds[below(7)];
    if (made.on_error == handler::add || made.on_error == handler::add_error) {
      if (left_ > 0 && depth < max_depth) {
        made.rescue.push_back(any(depth + 1));
      } else {
        made.on_error = handler::silent;
      }
    }
    if (made.on_error >= handler::error && made.on_error != handler::add) made.new_code = code();
    if (made.on_error == handler::success && one_in(2)) made.new_result = 500 + made.id;
  }

  Source numbers_;
  std::vector<std::string> labels_;  // of the loops around, the innermost last
  int left_ = 0;
  int last_id_ = 0;
};

/// The tree of a seed, the same one on every platform.
inline tree random_tree(std::uint64_t seed) { return generator(std::mt19937_64(seed)).make(); }

}  // namespace testing::program
