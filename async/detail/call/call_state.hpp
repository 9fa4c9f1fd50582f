// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_CALL_STATE

/// The shared states of the futures of async::async, and of those that async::future converts to. They are std::futures
/// with more behaviour: a wait inside a task makes the call that it waits for, or waits as threadpool::wait does; the
/// last future of async::async waits in its destructor.
///
/// libstdc++ and libc++ have virtual functions for that. Each has a separate file, for the releases that were tested;
/// one file of public parts serves other libraries. With libstdc++, get() and wait() also help for the futures of
/// async::future; elsewhere only threadpool::wait does.
#if ASYNCSTEPS_CALL_STATE == 1
#include "async/detail/call/call_state_libstdcxx.hpp"  // exports call_in_pool, wait_for_call
#elif ASYNCSTEPS_CALL_STATE == 2
#include "async/detail/call/call_state_libcxx.hpp"  // exports call_in_pool, wait_for_call
#else
#include "async/detail/call/call_state_portable.hpp"  // exports call_in_pool, wait_for_call
#endif
