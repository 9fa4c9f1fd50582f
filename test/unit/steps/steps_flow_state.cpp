// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <vector>

#include "steps/detail/flow/flow_state.hpp"

using steps::detail::flow_state;
using steps::detail::verdict;

namespace {

struct state : flow_state {
  state() : flow_state(nullptr) {}
};

state queued(verdict why) {
  state s;
  if (why == verdict::error) s.mark_error();
  if (why == verdict::start || why == verdict::error) {
    s.start(why);
    return s;
  }
  s.start(verdict::start);
  s.begin_turn();
  s.end_turn(why);
  return s;
}
state running() {
  state s = queued(verdict::start);
  s.begin_turn();
  return s;
}
state waiting() {
  state s = running();
  s.mark_wait();
  s.suspend();
  return s;
}
state held(verdict why) {
  state s = running();
  s.block_end();
  if (why == verdict::cancel) {
    s.mark_cancel();
    s.hold_cancel();
  } else {
    s.hold_error();
  }
  return s;
}

const std::vector<verdict> beginnings{verdict::start, verdict::rerun, verdict::success, verdict::error};

}  // namespace

TEST_CASE("a flow begins idle, without a verdict and without remains") {
  const state s;
  CHECK(s.is_idle());
  CHECK(s.has_no_verdict());
  CHECK(!s.has_remains());
  CHECK(!s.is_detached());
  CHECK(!s.has_end_blockers());
}

TEST_CASE("a turn begins with what the flow was queued for, and without a verdict") {
  for (const verdict why : beginnings) {
    state s = queued(why);
    CHECK(s.is_queued());
    CHECK(s.current_verdict() == why);
    CHECK(s.begin_turn() == why);
    CHECK(s.is_running());
    CHECK(s.has_no_verdict());
  }
}

TEST_CASE("a step that waits suspends the flow until it is woken") {
  state s = waiting();
  CHECK(s.is_waiting());
  CHECK(s.has_no_verdict());
  CHECK(!s.is_end_held());
  s.wake(verdict::rerun);
  CHECK(s.is_queued());
  CHECK(s.begin_turn() == verdict::rerun);

  s = waiting();
  s.mark_error();
  CHECK(s.is_waiting());
  s.wake(verdict::error);
  CHECK(s.begin_turn() == verdict::error);
}

TEST_CASE("a flow that is queued to go on waits again when it is recalled") {
  for (const verdict why : {verdict::success, verdict::error}) {
    state s = queued(verdict::rerun);
    s.recall();
    CHECK(s.is_waiting());
    CHECK(s.has_no_verdict());
    if (why == verdict::error) s.mark_error();
    s.wake(why);
    CHECK(s.begin_turn() == why);
  }
}

TEST_CASE("a function that runs may change its verdict towards a stronger one only") {
  state s = running();
  s.mark_wait();
  CHECK(s.current_verdict() == verdict::wait);
  s.mark_yield();
  s.mark_wait();
  CHECK(s.current_verdict() == verdict::yield);
  CHECK(s.is_open());
  s.mark_error();
  s.mark_wait();
  CHECK(s.is_failing());
  CHECK(!s.is_open());
  s.mark_cancel();
  s.mark_error();
  s.mark_wait();
  CHECK(s.is_cancelled());

  s = running();
  s.mark_success();
  CHECK(s.has_succeeded());
  CHECK(!s.is_open());
  s.mark_error();
  CHECK(s.is_failing());
  s.clear_verdict();
  CHECK(s.has_no_verdict());
}

TEST_CASE("an end is held until the last blocker has gone") {
  state s = held(verdict::cancel);
  s.block_end();
  CHECK(s.is_cancel_held());
  CHECK(s.unblock_end() == flow_state::unblocked::nothing);
  CHECK(s.is_cancel_held());
  CHECK(s.unblock_end() == flow_state::unblocked::cancel);
  CHECK(s.is_running());
  CHECK(s.is_cancelled());

  s = held(verdict::error);
  CHECK(s.is_end_held());
  CHECK(!s.is_cancel_held());
  CHECK(s.unblock_end() == flow_state::unblocked::error);
  s.wake(verdict::error);
  CHECK(s.begin_turn() == verdict::error);
}

TEST_CASE("a blocker that goes while nothing is held changes nothing") {
  state s = waiting();
  s.block_end();
  CHECK(s.unblock_end() == flow_state::unblocked::nothing);
  CHECK(s.is_waiting());
  CHECK(!s.has_end_blockers());

  s = held(verdict::error);
  s.forget_blocker();
  CHECK(s.is_waiting());
  CHECK(s.is_failing());
  CHECK(!s.is_end_held());
}

TEST_CASE("a cancel begins from each state outside of a turn, and tells what the flow was queued for") {
  for (const verdict why : beginnings) {
    state s = queued(why);
    CHECK(s.begin_cancel() == why);
    CHECK(s.is_running());
    CHECK(s.is_cancelled());
    s.finish();
    CHECK(s.is_idle());
  }
  state s = waiting();
  CHECK(s.begin_cancel() == verdict::none);
  CHECK(s.is_cancelled());
  s = state();
  s.cancel_start();
  CHECK(s.is_idle());
  CHECK(s.is_cancelled());
}

TEST_CASE("a callback outside of a turn leaves the state as it was, with what it says unless that is a cancel") {
  state s = waiting();
  flow_state::interrupted before = s.enter_callback();
  CHECK(s.is_running());
  CHECK(s.leave_callback(before) == flow_state::callback_end::unchanged);
  CHECK(s.is_waiting());
  CHECK(s.has_no_verdict());

  before = s.enter_callback();
  s.mark_error();
  CHECK(s.leave_callback(before) == flow_state::callback_end::unchanged);
  CHECK(s.is_waiting());
  CHECK(s.is_failing());

  s = queued(verdict::start);
  before = s.enter_callback();
  s.mark_cancel();
  CHECK(s.leave_callback(before) == flow_state::callback_end::cancelled);
  CHECK(s.is_queued());
  CHECK(s.current_verdict() == verdict::start);
}

TEST_CASE("an execution that has ended is idle and has remains until they are cleared") {
  state s = running();
  s.add_place();
  s.mark_error();
  s.finish();
  CHECK(s.is_idle());
  CHECK(s.has_no_verdict());
  CHECK(s.has_remains());
  s.clear_remains();
  CHECK(!s.has_remains());
  CHECK(s.remove_place());
  CHECK(!s.remove_place());

  s = state();
  s.mark_error();  // no memory for a place
  s.fail_start();
  CHECK(s.is_running());
  CHECK(s.is_failing());
}
