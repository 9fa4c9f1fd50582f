// SPDX-License-Identifier: BSL-1.0
#include "module/calls.hpp"

// For a program that is linked with the library.
extern "C" const module_test::calls* asyncsteps_test_module(module_test::note note);
extern module_entry linked_module;

namespace {
[[maybe_unused]] const bool known = (linked_module = &asyncsteps_test_module) != nullptr;
}
