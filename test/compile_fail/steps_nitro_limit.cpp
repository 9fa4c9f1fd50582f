// SPDX-License-Identifier: BSL-1.0
//
// The limits of a flow with fixed memory have names; a number says nothing.
// expect: NitroSteps takes limits of steps::nitro, such as MaxSteps<8>
#include <type_traits>

#include "steps/nitrosteps.hpp"

int main() {
  async::event_loop loop;
  steps::NitroSteps<steps::nitro::MaxSteps<8>, steps::nitro::MaxTimeouts<1>> flow{loop};
#ifndef CONTROL
  steps::NitroSteps<std::integral_constant<int, 8>> wrong{loop};
#endif
}
