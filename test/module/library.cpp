// SPDX-License-Identifier: BSL-1.0
#include "module/module.hpp"

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED [[gnu::visibility("default")]]
#endif

extern "C" EXPORTED const module_test::calls* asyncsteps_test_module(module_test::note note);

extern "C" const module_test::calls* asyncsteps_test_module(module_test::note note) {
  noted = note;
  return &own_calls;
}
