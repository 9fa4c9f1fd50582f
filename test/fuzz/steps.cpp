// SPDX-License-Identifier: BSL-1.0
// Step programs made of the input: AsyncSteps and NitroSteps compared with the reference interpreter; and NitroSteps
// whose limits are too low for them, which end.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "steps/steps.hpp"
#include "support/fuzz.hpp"
#include "support/program.hpp"
#include "support/program_player.hpp"
#include "support/program_random.hpp"
#include "support/program_text.hpp"
#include "support/reference.hpp"

using namespace testing::program;

namespace {

using roomy =
    steps::NitroSteps<steps::nitro::MaxSteps<200>, steps::nitro::MaxTimeouts<40>, steps::nitro::MaxCancels<40>,
                      steps::nitro::MaxStackAllocs<40>, steps::nitro::MaxParallel<40>, steps::nitro::ArenaBytes<32768>,
                      steps::nitro::BranchBytes<8192>, steps::nitro::MaxErrorText<40>>;

template <std::uint32_t Steps, std::uint32_t Others, std::uint32_t Bytes>
using tight = steps::NitroSteps<steps::nitro::MaxSteps<Steps>, steps::nitro::MaxTimeouts<Others>,
                                steps::nitro::MaxCancels<Others>, steps::nitro::MaxStackAllocs<Others>,
                                steps::nitro::MaxParallel<Others>, steps::nitro::ArenaBytes<Bytes>,
                                steps::nitro::BranchBytes<256>, steps::nitro::MaxErrorText<8>>;

template <class Flow>
void compare(const tree& program, const history& wanted, const char* flow) {
  const history got = player<Flow, steps::Mutex>(program).run();
  if (normalized(got) == normalized(wanted)) return;
  std::fprintf(stderr, "%s differs:\n%swanted:\n%sgot:\n%s", flow, to_string(program).c_str(),
               to_string(wanted).c_str(), to_string(got).c_str());
  testing::demand(false, "a flow does what the reference does");
}

/// Its steps refuse what exceeds a limit; at the root, the caller is told.
template <class Flow>
void run(const tree& program) {
  try {
    player<Flow, steps::Mutex>(program).run();
  } catch (const steps::Error& refused) {
    testing::demand(refused.code() == steps::errors::InternalError, "a limit exceeded is InternalError");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::fuzz_input input(data, size);
  const int cancel_at_run = input.below(4) == 0 ? static_cast<int>(input.below(16)) : 0;
  tree program = generator(input).make();
  program.cancel_at_run = cancel_at_run;
  reference interpreter(program);
  const history wanted = interpreter.run();
  if (interpreter.result() == reference::verdict::exact) {
    compare<steps::AsyncSteps>(program, wanted, "AsyncSteps");
    compare<roomy>(program, wanted, "NitroSteps");
  }
  run<tight<4, 1, 512>>(program);
  run<tight<12, 3, 1024>>(program);
  return 0;
}
