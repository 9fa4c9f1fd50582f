// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_CALL_STATE

/// Has std::reference_wrapper, std::ref and std::bad_function_call. The rest of `<functional>` takes a tenth of the
/// time that files of users take to compile. The known releases of libstdc++ have these three in `<future>`, too, which
/// pools and flows include anyway.
#if ASYNCSTEPS_CALL_STATE == 1
#include <future>
#else
#include <functional>
#endif
