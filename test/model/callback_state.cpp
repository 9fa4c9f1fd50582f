// SPDX-License-Identifier: BSL-1.0
//
// A loop and the handles of a callback agree on whether it runs, and it ends once, after everything that they did.
#include "relacy_runner.hpp"

#include "async/detail/loop/callback_state.hpp"

using async::detail::callback_state;
using async::detail::cell;
using model::check;

namespace {

struct called_back {
  called_back(unsigned handles, bool in_transit) : state(handles, in_transit) {}
  callback_state state;
  cell<unsigned> used[3];  // the loop's, and each handle's
  unsigned ends = 0;

  void use(unsigned who) { used[who].set(7); }
  /// The end writes to all of it.
  void end_if(bool last) {
    if (!last) return;
    ++ends;
    for (cell<unsigned>& each : used) each.set(0);
  }
};

/// Two handles go, one of them in a turn of the loop, which then runs the callback.
struct handles_go : rl::test_suite<handles_go, 2> {
  called_back it{2, false};
  void thread(unsigned index) {
    it.use(1 + index);
    if (index == 1) return it.end_if(it.state.release());
    it.end_if(it.state.release_on_loop());
    check(it.state.claim(), "nobody cancels");
    it.use(0);
    it.end_if(it.state.release());
  }
  void after() { check(it.ends == 1, "it ends once"); }
};

/// A handle cancels a callback that the loop is about to run; if told, the loop drops it.
struct cancelled : rl::test_suite<cancelled, 2> {
  called_back it{1, false};
  bool told = false;
  bool ran = false;
  void thread(unsigned index) {
    if (index == 1) {
      it.use(1);
      told = it.state.cancel() == callback_state::cancelled::tell_the_loop;
      it.end_if(it.state.release());
    } else if (it.state.claim()) {
      it.use(0);
      ran = true;
      it.end_if(it.state.release());
    }
  }
  void after() {
    check(told != ran, "it runs or is cancelled");
    if (told) it.end_if(it.state.release());
    check(it.ends == 1, "it ends once");
  }
};

/// A handle cancels a callback in transit: its message reports that only after the loop has finished with it.
struct landing : rl::test_suite<landing, 2> {
  called_back it{1, true};
  cell<unsigned> mail;
  bool told = false;
  bool landed = false;
  void thread(unsigned index) {
    if (index == 1) {
      told = it.state.cancel() == callback_state::cancelled::tell_the_loop;
      if (told) mail.set(2);
      it.end_if(it.state.release());
    } else {
      mail.set(1);
      landed = it.state.land();
      if (!landed) it.end_if(it.state.release());
    }
  }
  void after() {
    check(told == landed, "the loop is told, or sees it");
    if (told) it.end_if(it.state.release());
    check(it.ends == 1, "it ends once");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("callback_state", argc, argv);
  run.check<handles_go>("handles go, on the loop and elsewhere");
  run.check<cancelled>("a handle cancels while the loop claims");
  run.check<landing>("a handle cancels while the loop takes it from its inbox");
  return run.result();
}
