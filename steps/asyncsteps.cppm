// SPDX-License-Identifier: BSL-1.0
//
// The module asyncsteps: the public headers of async/ and steps/, and those of steps/interop/ that need nothing but the
// standard library. Files that import it and files that include headers share types and objects.
//
// Settings such as ASYNCSTEPS_TRACE=1 are defined where this file is compiled, and for files that include headers.
// Files that import it need none, and get no macros. Compiled with ASYNCSTEPS_IMPLEMENT it is also the library
// asyncsteps::compiled.
//
// test/import/names.py lists the public names that are missing here.
module;

#define ASYNCSTEPS_MODULE_UNIT

#include <version>  // for __cpp_lib_jthread

#include "async/async.hpp"
#include "async/trace.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/retry.hpp"
#include "steps/interop/stop_token.hpp"
#include "steps/interop/sync.hpp"
#include "steps/interop/task.hpp"
#include "steps/interop/when_all.hpp"
#include "steps/interop/with_timeout.hpp"
#include "steps/steps.hpp"

export module asyncsteps;

export namespace async {

// Pools.
using async::async;
using async::blocking_pool;
using async::blocking_pool_options;
using async::blocking_section;
using async::priority;
using async::threadpool;
using async::threadpool_options;
using async::threadpool_stats;
using async::usable_concurrency;

// Errors, and what stop() is told.
using async::discard;
using async::discard_t;
using async::dropped_call;
using async::queue_full;
using async::stopped;
using async::stopped_by_fork;

// Futures.
using async::future;
using async::future_group;
using async::make_exceptional_future;
using async::make_ready_future;
using async::promise;
using async::shared_future;
using async::when_all;
using async::when_any;
using async::when_any_result;

// Fork and join.
using async::auto_grain;
using async::current_group_is_cancelling;
using async::independent;
using async::independent_t;
using async::no_token;
using async::parallel_for;
using async::parallel_invoke;
using async::parallel_reduce;
using async::task_group;

// Queues and other things to wait for.
using async::after;
using async::bounded_queue;
using async::bounded_queue_traits;
using async::event;
using async::nothing_left;
using async::on_pop;
using async::on_push;
using async::on_ready;
using async::on_set;
using async::otherwise;
using async::queue;
using async::queue_traits;
using async::select;
using async::selection;

// Event loops.
using async::event_loop;
using async::manual_clock;
using async::time_source;

// Callables, and concepts.
using async::async_callable;
using async::loop_range;
using async::loop_token;
using async::parallel_body;
using async::parallel_index;
using async::reduce_body;
using async::reduce_join;
using async::task;
using async::task_function;
using async::unique_function;

// Traces.
using async::trace;
using async::trace_options;

}  // namespace async

export namespace steps {

// Flows.
using steps::AsyncSteps;
using steps::AsyncTool;
using steps::BranchTurns;
using steps::completion;
using steps::Every;
using steps::execute;
using steps::IAsyncSteps;
using steps::LoopLabel;
using steps::MissedTicks;
using steps::NitroSteps;
using steps::post;
using steps::Retry;
using steps::State;
using steps::Tick;

// Errors.
using steps::Error;
using steps::ErrorCode;
using steps::ErrorInfo;

// What flows wait for.
using steps::Event;
using steps::ISync;
using steps::Limiter;
using steps::Mutex;
using steps::Semaphore;
using steps::Throttle;

namespace errors {

using steps::errors::BrokenPromise;
using steps::errors::CommError;
using steps::errors::ConnectError;
using steps::errors::DefenseRejected;
using steps::errors::InternalError;
using steps::errors::InvalidRequest;
using steps::errors::InvokerError;
using steps::errors::LoopBreak;
using steps::errors::LoopCont;
using steps::errors::NotImplemented;
using steps::errors::NotSupportedVersion;
using steps::errors::PleaseReauth;
using steps::errors::QueueClosed;
using steps::errors::QueueFull;
using steps::errors::SecurityError;
using steps::errors::Stopped;
using steps::errors::Timeout;
using steps::errors::Unauthorized;
using steps::errors::UnknownInterface;

}  // namespace errors

namespace nitro {

using steps::nitro::ArenaBytes;
using steps::nitro::BranchBytes;
using steps::nitro::BurstSize;
using steps::nitro::defaults;
using steps::nitro::MaxCancels;
using steps::nitro::MaxErrorText;
using steps::nitro::MaxParallel;
using steps::nitro::MaxResultBytes;
using steps::nitro::MaxStackAllocs;
using steps::nitro::MaxStateBytes;
using steps::nitro::MaxSteps;
using steps::nitro::MaxTimeouts;
using steps::nitro::MayAllocate;

}  // namespace nitro

namespace interop {

using steps::interop::acquire;
using steps::interop::co;
using steps::interop::execute;
using steps::interop::post;
using steps::interop::retry;
using steps::interop::schedule;
using steps::interop::sleep_for;
using steps::interop::start;
using steps::interop::sync;
using steps::interop::task;
using steps::interop::when_all;
using steps::interop::when_any;
using steps::interop::when_any_result;
using steps::interop::when_ready;
using steps::interop::with_timeout;
#if defined(__cpp_lib_jthread)
using steps::interop::cancel_on_stop;
using steps::interop::stop_token_of;
#endif

}  // namespace interop

}  // namespace steps
