// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <future>   // for future
#include <utility>  // for forward

#include "async/detail/base/config.hpp"      // for ASYNCSTEPS_CALL_STATE
#include "async/detail/call/call_entry.hpp"  // for call_entry
#include "async/detail/pool/pool_core.hpp"   // for pool_core

/// The shared states of the futures of async::async, and of those that async::future converts to. They are std::futures
/// with more behaviour: a wait inside a task makes the call that it waits for, or waits as threadpool::wait does; the
/// last future of async::async waits in its destructor.
///
/// libstdc++ and libc++ have virtual functions for that. Each has a separate file, for the releases that were tested;
/// one file of public parts serves other libraries. No other file names private parts of a standard library. With
/// libstdc++, get() and wait() also help for the futures of async::future; elsewhere only threadpool::wait does.
///
/// is_ready(future) of any std::future or std::shared_future: true if get() does not wait for another thread; also if
/// the future is deferred, so that get() runs it. Unlike a wait_for() of the user's it is no poll, which would let
/// other threads of the pool take the caller's place: they ask it for a task that sleeps, and loops ask it in their
/// turns.
#if ASYNCSTEPS_CALL_STATE == 1
#include "async/detail/call/call_state_libstdcxx.hpp"  // exports future_of_call, wait_for_call, is_ready
#elif ASYNCSTEPS_CALL_STATE == 2
#include "async/detail/call/call_state_libcxx.hpp"  // exports future_of_call, wait_for_call, is_ready
#else
#include "async/detail/call/call_state_portable.hpp"  // exports call_in_pool, wait_for_call, is_ready
#endif

namespace async::inline v0_1::detail {

#if ASYNCSTEPS_CALL_STATE != 0
/// future_of_call() of a call that a pool makes. Throws what pool_core::submit() throws, too.
template <class R, class... Parts>
std::future<R> call_in_pool(pool_core& pool, Parts&&... parts) {
  return future_of_call<true, R>(
      [&pool](call_entry& entry, const call_entry::operations& how) { entry.submit(pool, how); },
      std::forward<Parts>(parts)...);
}
#endif

}  // namespace async::inline v0_1::detail
