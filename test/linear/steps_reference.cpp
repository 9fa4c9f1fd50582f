// SPDX-License-Identifier: BSL-1.0
// Random step programs run on the engine and on the reference interpreter: the logs must be equal.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "support/flows.hpp"
#include "support/program.hpp"
#include "support/program_player.hpp"
#include "support/program_random.hpp"
#include "support/program_shrink.hpp"
#include "support/program_text.hpp"
#include "support/reference.hpp"
#include "support/scale.hpp"

using namespace testing::program;

namespace {

template <class Flow>
bool differs(const tree& program) {
  reference interpreter(program);
  const history wanted = normalized(interpreter.run());
  return interpreter.result() == reference::verdict::exact &&
         normalized(player<Flow, steps::Mutex>(program).run()) != wanted;
}

/// Compares a program; one that differs is shown, shrunk.
template <class Flow>
bool agrees(const tree& program, std::uint64_t seed) {
  if (!differs<Flow>(program)) return true;
  const tree small = shrunk(program, differs<Flow>);
  INFO("tree of seed ", seed, ":\n", to_string(small), "wanted:\n", to_string(reference(small).run()), "got:\n",
       to_string(player<Flow, steps::Mutex>(small).run()));
  CHECK(false);
  return false;
}

template <class Flow>
void compare(std::size_t trees) {
  for (std::uint64_t n = 0, seed = testing::seed(); n < trees; ++n, ++seed) {
    if (!agrees<Flow>(random_tree(seed), seed)) return;
  }
  std::printf("count: %zu step programs compared\n", trees);
}

template <class Flow>
void cancel_everywhere(std::size_t trees) {
  std::size_t points = 0;
  for (std::uint64_t n = 0, seed = testing::seed(); n < trees; ++n, ++seed) {
    tree program = random_tree(seed);
    reference whole(program);
    whole.run();
    for (int at = 1; at <= whole.runs(); ++at, ++points) {
      program.cancel_at_run = at;
      if (!agrees<Flow>(program, seed)) return;
    }
  }
  std::printf("count: %zu cancel points compared\n", points);
}

using nitro =
    steps::NitroSteps<steps::nitro::MaxSteps<200>, steps::nitro::MaxTimeouts<40>, steps::nitro::MaxCancels<40>,
                      steps::nitro::MaxStackAllocs<40>, steps::nitro::MaxParallel<40>, steps::nitro::ArenaBytes<32768>,
                      steps::nitro::BranchBytes<8192>, steps::nitro::MaxErrorText<40>>;

}  // namespace

TEST_CASE("AsyncSteps runs random programs as the rules say") { compare<steps::AsyncSteps>(testing::rounds(250'000)); }
TEST_CASE("NitroSteps runs random programs as the rules say") { compare<nitro>(testing::rounds(25'000)); }
TEST_CASE("AsyncSteps is cancelled in any step as the rules say") {
  cancel_everywhere<steps::AsyncSteps>(testing::rounds(1000));
}
TEST_CASE("NitroSteps is cancelled in any step as the rules say") { cancel_everywhere<nitro>(testing::rounds(300)); }
