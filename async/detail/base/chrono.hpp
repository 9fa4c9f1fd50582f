// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <version>  // for __GLIBCXX__, _LIBCPP_VERSION

/// Has the durations, time points and clocks of `<chrono>`. Its calendar takes a tenth of the time that files of users
/// take to compile. libstdc++ and libc++ have the rest in `<condition_variable>`, too, whose functions take it.
#if defined __GLIBCXX__ || defined _LIBCPP_VERSION
#include <condition_variable>
#else
#include <chrono>
#endif
