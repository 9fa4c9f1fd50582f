// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_TRACE

/// The points at which the library reports to async::trace. They expand to nothing unless every translation unit of the
/// program is compiled with -DASYNCSTEPS_TRACE=1.
///
/// ASYNCSTEPS_TRACE_SPAN(kind, name, about)     a span from here to the end of the block
/// ASYNCSTEPS_TRACE_INSTANT(kind, name, about)  an instant
/// ASYNCSTEPS_TRACE_THREAD(name, number)        the calling thread's name
/// ASYNCSTEPS_TRACES                            whether they expand to something

#if defined(ASYNCSTEPS_TRACE) && ASYNCSTEPS_TRACE

#include "async/detail/trace/trace_log.hpp"  // for trace_span, trace_instant, name_traced_thread

#define ASYNCSTEPS_TRACES true
#define ASYNCSTEPS_TRACE_SPAN(kind, name, about) \
  const ::async::detail::trace_span async_trace_span(::async::detail::trace_kind::kind, name, about)
#define ASYNCSTEPS_TRACE_INSTANT(kind, name, about) \
  ::async::detail::trace_instant(::async::detail::trace_kind::kind, name, about)
#define ASYNCSTEPS_TRACE_THREAD(name, number) ::async::detail::name_traced_thread(name, number)

#else

#define ASYNCSTEPS_TRACES false
#define ASYNCSTEPS_TRACE_SPAN(kind, name, about)
#define ASYNCSTEPS_TRACE_INSTANT(kind, name, about)
#define ASYNCSTEPS_TRACE_THREAD(name, number)

#endif
