// SPDX-License-Identifier: BSL-1.0
// The reference interpreter against logs written by hand from steps/RULES.md: a judge that is judged first.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/program.hpp"
#include "support/program_random.hpp"
#include "support/program_shrink.hpp"
#include "support/program_text.hpp"
#include "support/reference.hpp"

using namespace testing::program;

namespace {

using nodes = std::vector<node>;

node step(int id, nodes sub = {}) {
  node made;
  made.id = id;
  made.sub = std::move(sub);
  return made;
}

node with(kind what, int id, nodes sub, int count = 0, std::string label = "") {
  node made = step(id, std::move(sub));
  made.what = what;
  made.count = count;
  made.label = std::move(label);
  return made;
}

node ends(ending end, int id, int result_or_delay = 0, std::string code = "") {
  node made = step(id);
  made.end = end;
  (is_wait(end) ? made.delay : made.result) = result_or_delay;
  made.code = std::move(code);
  return made;
}

node fails(int id, std::string code = "A") { return ends(ending::error, id, 0, std::move(code)); }
node gives(int id, int result) { return ends(ending::success, id, result); }

node takes(node of) {
  of.takes = true;
  return of;
}

node guarded(node of, handler on_error, std::string new_code = "", nodes rescue = {}) {
  of.on_error = on_error;
  of.new_code = std::move(new_code);
  of.rescue = std::move(rescue);
  return of;
}

node timed(node of, int ticks) {
  of.timeout = ticks;
  return of;
}

node cancelled(node of) {
  of.on_cancel = true;
  return of;
}

std::vector<std::string> log_of(const tree& program) {
  reference interpreter(program);
  std::vector<std::string> lines;
  for (const event& entry : interpreter.run()) lines.push_back(to_string(entry));
  CHECK(interpreter.result() == reference::verdict::exact);
  return lines;
}

std::vector<std::string> log_of(nodes steps) {
  tree program;
  program.steps = std::move(steps);
  return log_of(program);
}

using lines = std::vector<std::string>;

}  // namespace

TEST_CASE("reference [1]: sub-steps run before the level goes on") {
  CHECK(log_of({step(1, {step(2, {step(3)}), step(4)}), step(5)}) ==
        lines{"0 / run 1", "0 / run 2", "0 / run 3", "0 / run 4", "0 / run 5", "0 / end"});
}

TEST_CASE("reference [2]: a timeout or a cancel handler holds a step without sub-steps, but not one with") {
  CHECK(log_of({timed(step(1), 7), step(2)}) == lines{"0 / run 1", "7 / unhandled Timeout"});
  CHECK(log_of({cancelled(step(1)), step(2)}) == lines{"0 / run 1", "0 / stuck", "0 / oncancel 1"});
  CHECK(log_of({timed(cancelled(step(1, {step(2)})), 7), step(3)}) ==
        lines{"0 / run 1", "0 / run 2", "0 / run 3", "0 / end"});
}

TEST_CASE("reference [3]: results go to the next step and to no later one") {
  CHECK(log_of({gives(1, 11), takes(gives(2, 22)), takes(step(3))}) ==
        lines{"0 / run 1", "0 / run 2 arg=11", "0 / run 3 arg=22", "0 / end"});
  CHECK(log_of({gives(1, 11), step(2), takes(step(3))}) ==
        lines{"0 / run 1", "0 / run 2", "0 / unhandled InternalError"});
  CHECK(log_of({step(1, {gives(2, 22)}), takes(step(3))}) ==
        lines{"0 / run 1", "0 / run 2", "0 / run 3 arg=22", "0 / end"});
}

TEST_CASE("reference [4]: a missing argument is an error that the step's own handler sees") {
  CHECK(log_of({guarded(takes(step(1)), handler::success), step(2)}) ==
        lines{"0 / onerror 1 InternalError", "0 / run 2", "0 / end"});
}

TEST_CASE("reference [5]: success beside sub-steps is an error, and an error drops the sub-steps") {
  node both = gives(1, 11);
  both.sub = {step(2)};
  CHECK(log_of({guarded(both, handler::success)}) == lines{"0 / run 1", "0 / onerror 1 InternalError", "0 / end"});
  node failing = fails(1);
  failing.sub = {step(2)};
  CHECK(log_of({failing}) == lines{"0 / run 1", "0 / unhandled A info 1"});
}

TEST_CASE("reference [8]: swallowed and overruled errors stand") {
  CHECK(log_of({ends(ending::error_swallowed, 1, 0, "A"), step(2)}) == lines{"0 / run 1", "0 / unhandled A info 1"});
  CHECK(log_of({ends(ending::error_no_throw_success, 1, 0, "A"), step(2)}) ==
        lines{"0 / run 1", "0 / unhandled A info 1"});
}

TEST_CASE("reference [10]: cancel handler, then error handler, from the innermost level outward") {
  CHECK(
      log_of({guarded(cancelled(step(1, {guarded(cancelled(step(2, {fails(3), step(4)})), handler::silent), step(5)})),
                      handler::silent)}) == lines{"0 / run 1", "0 / run 2", "0 / run 3", "0 / oncancel 2",
                                                  "0 / onerror 2 A info 3", "0 / oncancel 1", "0 / onerror 1 A info 3",
                                                  "0 / unhandled A info 3"});
}

TEST_CASE("reference [11]: handlers recover, replace the error or let it pass") {
  CHECK(log_of({guarded(fails(1), handler::success), step(2)}) ==
        lines{"0 / run 1", "0 / onerror 1 A info 1", "0 / run 2", "0 / end"});
  CHECK(log_of({guarded(step(1, {guarded(fails(2), handler::error, "B")}), handler::silent)}) ==
        lines{"0 / run 1", "0 / run 2", "0 / onerror 2 A info 2", "0 / onerror 1 B info of handler 2",
              "0 / unhandled B info of handler 2"});
  CHECK(log_of({guarded(fails(1), handler::add, "", {step(2)}), step(3)}) ==
        lines{"0 / run 1", "0 / onerror 1 A info 1", "0 / run 2", "0 / run 3", "0 / end"});
  CHECK(log_of({guarded(fails(1), handler::add, "", {fails(2, "B")}), step(3)}) ==
        lines{"0 / run 1", "0 / onerror 1 A info 1", "0 / run 2", "0 / unhandled B info 2"});
  CHECK(log_of({guarded(fails(1), handler::add_error, "B", {step(2)})}) ==
        lines{"0 / run 1", "0 / onerror 1 A info 1", "0 / unhandled B info of handler 1"});
}

TEST_CASE("reference [16]: a timeout is raised at the innermost step and seen by inner handlers first") {
  CHECK(log_of({guarded(timed(step(1, {guarded(ends(ending::wait, 2), handler::silent)}), 5), handler::silent)}) ==
        lines{"0 / run 1", "0 / run 2", "5 / onerror 2 Timeout", "5 / onerror 1 Timeout", "5 / unhandled Timeout"});
  CHECK(log_of({timed(step(1, {guarded(ends(ending::wait, 2), handler::success), ends(ending::wait_success, 3, 9)}),
                      5)}) == lines{"0 / run 1", "0 / run 2", "5 / onerror 2 Timeout", "5 / run 3", "14 / end"});
}

TEST_CASE("reference [17]: cancel runs cancel handlers only, innermost first") {
  tree program;
  program.steps = {guarded(cancelled(step(1, {guarded(cancelled(step(2, {ends(ending::wait, 3)})), handler::success)})),
                           handler::success)};
  program.cancel_at_tick = 4;
  CHECK(log_of(program) == lines{"0 / run 1", "0 / run 2", "0 / run 3", "4 / oncancel 2", "4 / oncancel 1"});
  program.cancel_at_tick = 0;
  program.cancel_at_run = 2;
  CHECK(log_of(program) == lines{"0 / run 1", "0 / run 2", "0 / oncancel 2", "0 / oncancel 1"});
}

TEST_CASE("reference [20, 21]: waits end with a result or an error") {
  CHECK(log_of({ends(ending::wait_success, 1, 3), step(2)}) == lines{"0 / run 1", "3 / run 2", "3 / end"});
  CHECK(log_of({guarded(ends(ending::wait_error, 1, 3, "A"), handler::silent)}) ==
        lines{"0 / run 1", "3 / onerror 1 A info 1", "3 / unhandled A info 1"});
}

TEST_CASE("reference [22]: loops") {
  CHECK(log_of({with(kind::loop, 1, {step(2)}, 1), step(3)}) ==
        lines{"0 / run 1", "0 / run 2", "0 / run 1", "0 / run 3", "0 / end"});
  CHECK(log_of({with(kind::repeat, 1, {step(2)}, 2), step(3)}) ==
        lines{"0 / run 1 i=0", "0 / run 2", "0 / run 1 i=1", "0 / run 2", "0 / run 3", "0 / end"});
  CHECK(log_of({with(kind::for_each, 1, {step(2)}, 0), step(3)}) == lines{"0 / run 3", "0 / end"});
}

TEST_CASE("reference [23]: labels") {
  const auto nested = [](ending end, std::string label) {
    return nodes{
        with(kind::repeat, 1, {with(kind::repeat, 2, {ends(end, 3, 0, std::move(label)), step(4)}, 2)}, 2, "X"),
        step(5)};
  };
  CHECK(log_of(nested(ending::break_loop, "X")) ==
        lines{"0 / run 1 i=0", "0 / run 2 i=0", "0 / run 3", "0 / run 5", "0 / end"});
  CHECK(log_of(nested(ending::continue_loop, "X")) == lines{"0 / run 1 i=0", "0 / run 2 i=0", "0 / run 3",
                                                            "0 / run 1 i=1", "0 / run 2 i=0", "0 / run 3", "0 / run 5",
                                                            "0 / end"});
  CHECK(log_of(nested(ending::break_loop, "")) == lines{"0 / run 1 i=0", "0 / run 2 i=0", "0 / run 3", "0 / run 1 i=1",
                                                        "0 / run 2 i=0", "0 / run 3", "0 / run 5", "0 / end"});
  CHECK(log_of(nested(ending::break_loop, "Y")) ==
        lines{"0 / run 1 i=0", "0 / run 2 i=0", "0 / run 3", "0 / unhandled InternalError"});
}

TEST_CASE("reference [24]: handlers between body and loop see the break") {
  CHECK(log_of({with(kind::repeat, 1, {guarded(ends(ending::break_loop, 2), handler::silent)}, 2)}) ==
        lines{"0 / run 1 i=0", "0 / run 2", "0 / onerror 2 LoopBreak", "0 / end"});
}

TEST_CASE("reference [26]: branches take turns step by step") {
  CHECK(log_of({guarded(with(kind::parallel, 9, {step(1, {step(4)}), step(2, {fails(5)}), step(3, {step(6)})}),
                        handler::success)}) == lines{"0 /1 run 1", "0 /2 run 2", "0 /3 run 3", "0 /1 run 4",
                                                     "0 /2 run 5", "0 / onerror 9 A info 5", "0 / end"});
}

TEST_CASE("reference [28]: an error in a branch cancels the others, break reaches the loop around") {
  CHECK(log_of({with(kind::repeat, 8, {with(kind::parallel, 9, {cancelled(step(1)), ends(ending::break_loop, 2)})}, 3),
                step(3)}) ==
        lines{"0 / run 8 i=0", "0 /1 run 1", "0 /2 run 2", "0 /1 oncancel 1", "0 / run 3", "0 / end"});
  CHECK(log_of({guarded(timed(step(8, {with(kind::parallel, 9, {cancelled(step(1)), ends(ending::wait, 2)})}), 5),
                        handler::success)}) ==
        lines{"0 / run 8", "0 /1 run 1", "0 /2 run 2", "5 /1 oncancel 1", "5 / onerror 8 Timeout", "5 / end"});
}

TEST_CASE("reference [36, 37]: the first branch that succeeds wins a race, the last error is its own") {
  CHECK(log_of({with(kind::race, 9, {cancelled(step(1)), fails(2), gives(3, 33), step(4)}), takes(step(5))}) ==
        lines{"0 /1 run 1", "0 /2 run 2", "0 /3 run 3", "0 /1 oncancel 1", "0 / run 5 arg=33", "0 / end"});
  CHECK(log_of({guarded(with(kind::race, 9, {step(1, {fails(2)}), fails(3)}), handler::success)}) ==
        lines{"0 /1 run 1", "0 /3 run 3", "0 /1 run 2", "0 / onerror 9 A info 2", "0 / end"});
  CHECK(log_of({with(kind::repeat, 8, {with(kind::race, 9, {cancelled(step(1)), ends(ending::break_loop, 2)})}, 3)}) ==
        lines{"0 / run 8 i=0", "0 /1 run 1", "0 /2 run 2", "0 /1 oncancel 1", "0 / end"});
}

TEST_CASE("reference [29, 30]: sync hands arguments through, admits one flow and is recursive") {
  CHECK(log_of({gives(1, 11), takes(with(kind::sync, 2, {gives(3, 33)})), takes(step(4))}) ==
        lines{"0 / run 1", "0 / run 2 arg=11", "0 / run 3", "0 / run 4 arg=33", "0 / end"});
  CHECK(log_of({with(kind::sync, 1, {with(kind::sync, 2, {})})}) == lines{"0 / run 1", "0 / run 2", "0 / end"});
  CHECK(log_of({with(kind::parallel, 9,
                     {with(kind::sync, 1, {ends(ending::wait_success, 2, 5)}),
                      with(kind::sync, 3, {ends(ending::wait_success, 4, 5)})})}) ==
        lines{"0 /1 run 1", "0 /1 run 2", "5 /3 run 3", "5 /3 run 4", "10 / end"});
}

TEST_CASE("reference [18, 30]: a flow that is cancelled leaves the queue of the mutex") {
  CHECK(log_of({guarded(with(kind::parallel, 9,
                             {with(kind::sync, 1, {ends(ending::wait, 2)}), with(kind::sync, 3, {}), fails(4)}),
                        handler::success),
                with(kind::sync, 5, {})}) ==
        lines{"0 /1 run 1", "0 /4 run 4", "0 / onerror 9 A info 4", "0 / run 5", "0 / end"});
}

TEST_CASE("reference [51]: a semaphore takes a permit for each entry") {
  const auto entry = [](int id, nodes sub) {
    node made = with(kind::sync, id, std::move(sub));
    made.mutex = mutexes;
    return made;
  };
  CHECK(log_of({entry(1, {entry(2, {timed(entry(3, {}), 5)})})}) == lines{"0 / run 1", "0 / run 2", "0 / stuck"});
  CHECK(log_of({with(kind::parallel, 9,
                     {entry(1, {ends(ending::wait_success, 2, 5)}), entry(3, {ends(ending::wait_success, 4, 8)}),
                      entry(5, {})})}) ==
        lines{"0 /1 run 1", "0 /3 run 3", "0 /1 run 2", "0 /3 run 4", "5 /5 run 5", "8 / end"});
}

TEST_CASE("reference [47, 48]: retry() repeats what fails, after pauses that grow") {
  const auto retry = [](int attempts, int pause, nodes sub, int policy = 0) {
    node made = with(kind::retry, 1, std::move(sub), attempts);
    made.pause = pause;
    made.policy = policy;
    return made;
  };
  CHECK(log_of({retry(2, 0, {step(2)}), step(3)}) == lines{"0 / run 1 i=0", "0 / run 2", "0 / run 3", "0 / end"});
  CHECK(log_of({guarded(retry(3, 10, {cancelled(step(2, {fails(3)}))}), handler::silent)}) ==
        lines{"0 / run 1 i=0", "0 / run 2", "0 / run 3", "0 / oncancel 2", "10 / run 1 i=1", "10 / run 2", "10 / run 3",
              "10 / oncancel 2", "30 / run 1 i=2", "30 / run 2", "30 / run 3", "30 / oncancel 2",
              "30 / onerror 1 A info 3", "30 / unhandled A info 3"});
  CHECK(log_of({guarded(retry(2, 0, {fails(2)}), handler::add, "", {fails(3, "B")})}) ==
        lines{"0 / run 1 i=0", "0 / run 2", "0 / run 1 i=1", "0 / run 2", "0 / onerror 1 A info 2", "0 / run 3",
              "0 / unhandled B info 3"});
  CHECK(log_of({retry(3, 0, {fails(2, "C")}, 1)}) == lines{"0 / run 1 i=0", "0 / run 2", "0 / unhandled C info 2"});
  CHECK(log_of({guarded(retry(0, 0, {}), handler::success)}) == lines{"0 / onerror 1 InternalError", "0 / end"});
  CHECK(log_of({timed(retry(2, 10, {ends(ending::wait, 2)}), 5)}) ==
        lines{"0 / run 1 i=0", "0 / run 2", "15 / run 1 i=1", "15 / run 2", "20 / unhandled Timeout"});
  CHECK(log_of({timed(step(9, {retry(9, 10, {ends(ending::wait, 2)})}), 5)}) ==
        lines{"0 / run 9", "0 / run 1 i=0", "0 / run 2", "5 / unhandled Timeout"});
  CHECK(log_of({timed(step(9, {retry(9, 10, {fails(2)})}), 15)}) ==
        lines{"0 / run 9", "0 / run 1 i=0", "0 / run 2", "10 / run 1 i=1", "10 / run 2", "15 / unhandled Timeout"});
  CHECK(log_of({with(kind::repeat, 9, {retry(9, 10, {ends(ending::break_loop, 2)})}, 2)}) ==
        lines{"0 / run 9 i=0", "0 / run 1 i=0", "0 / run 2", "0 / end"});
}

TEST_CASE("reference [49, 50]: every() has rounds at ticks, or late") {
  const auto rounds = [](int policy, int length) {
    node made = with(kind::every, 1, {ends(ending::wait_success, 2, length)}, 3);
    made.pause = 10;
    made.policy = policy;
    lines seen;
    for (const std::string& entry : log_of({made})) {
      if (entry.find("run 1") != std::string::npos) seen.push_back(entry);
    }
    return seen;
  };
  for (int policy = 0; policy < 3; ++policy) {
    CHECK(rounds(policy, 4) == lines{"0 / run 1 n=0 missed=0 late=0 took=0", "10 / run 1 n=1 missed=0 late=0 took=4",
                                     "20 / run 1 n=2 missed=0 late=0 took=4", "30 / run 1 n=3 missed=0 late=0 took=4"});
  }
  CHECK(rounds(0, 24) == lines{"0 / run 1 n=0 missed=0 late=0 took=0", "24 / run 1 n=1 missed=1 late=14 took=24",
                               "48 / run 1 n=2 missed=1 late=18 took=24", "72 / run 1 n=3 missed=2 late=22 took=24"});
  CHECK(rounds(1, 14) == lines{"0 / run 1 n=0 missed=0 late=0 took=0", "14 / run 1 n=1 missed=0 late=4 took=14",
                               "28 / run 1 n=2 missed=0 late=4 took=14", "42 / run 1 n=3 missed=0 late=4 took=14"});
  CHECK(rounds(2, 24) == lines{"0 / run 1 n=0 missed=0 late=0 took=0", "24 / run 1 n=1 missed=0 late=14 took=24",
                               "48 / run 1 n=2 missed=0 late=28 took=24", "72 / run 1 n=3 missed=0 late=42 took=24"});
}

TEST_CASE("reference: a program without steps ends") { CHECK(log_of(nodes{}) == lines{"0 / end"}); }

TEST_CASE("a failing program is shrunk to the steps that make it fail") {
  const auto fails = [](const tree& program) {
    for (const event& entry : reference(program).run()) {
      if (entry.what.rfind("onerror 3 Timeout", 0) == 0) return true;
    }
    return false;
  };
  tree program;
  program.steps = {gives(1, 11),
                   timed(cancelled(step(2, {guarded(ends(ending::wait, 3), handler::silent), step(4)})), 5), step(5)};
  CHECK(to_string(shrunk(program, fails)) == "2 add timeout=5\n  3 add, wait for ever\n    onerror: silent\n");
}

TEST_CASE("random trees end, use every construct and are the same for the same seed") {
  std::set<std::string> seen;
  std::size_t exact = 0;
  constexpr std::uint64_t trees = 3000;
  for (std::uint64_t seed = 0; seed < trees; ++seed) {
    const tree program = random_tree(seed);
    CAPTURE(seed);
    reference one(program);
    const history first = one.run();
    CHECK(one.result() != reference::verdict::too_long);
    CHECK(first == reference(program).run());
    CHECK(to_string(program) == to_string(random_tree(seed)));
    if (one.result() == reference::verdict::exact) ++exact;
    for (const event& entry : first) seen.insert(entry.what.substr(0, entry.what.find(' ')));
  }
  CHECK(seen == std::set<std::string>{"run", "onerror", "oncancel", "stuck", "unhandled", "end"});
  CHECK(exact > trees * 9 / 10);
}
