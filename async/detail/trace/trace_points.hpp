// SPDX-License-Identifier: BSL-1.0
#pragma once

/// The points at which the library reports to async::trace. They expand to nothing unless every translation unit of the
/// program is compiled with -DASYNC_TRACE=1.
///
/// ASYNC_TRACE_SPAN(kind, name, about)     a span from here to the end of the block
/// ASYNC_TRACE_INSTANT(kind, name, about)  an instant
/// ASYNC_TRACE_THREAD(name, number)        the calling thread's name

#if defined(ASYNC_TRACE) && ASYNC_TRACE

#include "async/detail/trace/trace_log.hpp"  // for trace_span, trace_instant, name_traced_thread

#define ASYNC_TRACE_SPAN(kind, name, about) \
  const ::async::detail::trace_span async_trace_span(::async::detail::trace_kind::kind, name, about)
#define ASYNC_TRACE_INSTANT(kind, name, about) \
  ::async::detail::trace_instant(::async::detail::trace_kind::kind, name, about)
#define ASYNC_TRACE_THREAD(name, number) ::async::detail::name_traced_thread(name, number)

#else

#define ASYNC_TRACE_SPAN(kind, name, about)
#define ASYNC_TRACE_INSTANT(kind, name, about)
#define ASYNC_TRACE_THREAD(name, number)

#endif
