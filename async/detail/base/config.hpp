// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdio>   // for fprintf
#include <cstdlib>  // for abort

#if __cplusplus < 202002L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 202002L)
#error "asyncsteps needs C++20: g++ 11, clang 14 or newer, with -std=c++20"
#endif
#if !defined(__cpp_exceptions) && !defined(_CPPUNWIND)
#error "asyncsteps needs exceptions: build without -fno-exceptions"
#endif

/// Version of the library, also the version of the CMake package and of the pkg-config files. The inline namespaces,
/// such as async::v0_1, name the minor version: libraries compiled with different versions share a process, each with
/// pools of its own.
#define ASYNCSTEPS_VERSION_MAJOR 0
#define ASYNCSTEPS_VERSION_MINOR 1
#define ASYNCSTEPS_VERSION_PATCH 0

/// ASYNCSTEPS_TSAN, ASYNCSTEPS_ASAN: 1 when the code is built with ThreadSanitizer or AddressSanitizer, else 0.
#if defined(__SANITIZE_THREAD__)
#define ASYNCSTEPS_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ASYNCSTEPS_ASAN 1
#endif
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ASYNCSTEPS_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define ASYNCSTEPS_ASAN 1
#endif
#endif
#ifndef ASYNCSTEPS_TSAN
#define ASYNCSTEPS_TSAN 0
#endif
#ifndef ASYNCSTEPS_ASAN
#define ASYNCSTEPS_ASAN 0
#endif

/// Programs may also give the settings below, and ASYNCSTEPS_TRACE, by the names with ASYNC_ in place of ASYNCSTEPS_.
#if defined(ASYNC_CALL_STATE) && !defined(ASYNCSTEPS_CALL_STATE)
#define ASYNCSTEPS_CALL_STATE ASYNC_CALL_STATE
#endif
#if defined(ASYNC_REMOTE_FENCE) && !defined(ASYNCSTEPS_REMOTE_FENCE)
#define ASYNCSTEPS_REMOTE_FENCE ASYNC_REMOTE_FENCE
#endif
#if defined(ASYNC_TRACE) && !defined(ASYNCSTEPS_TRACE)
#define ASYNCSTEPS_TRACE ASYNC_TRACE
#endif

/// ASYNCSTEPS_CALL_STATE: how the std::futures of async::async and of async::future are made, see call_state.hpp. 1:
/// with the shared states of libstdc++; 2: with those of libc++; 0: with public parts of the standard library only.
/// Define it as 0, for a whole program, to choose the last. The internals that 1 and 2 rely on are the same in the
/// releases that are named here, and nothing else in this library names any.
#ifndef ASYNCSTEPS_CALL_STATE
#if defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE >= 11 && _GLIBCXX_RELEASE <= 16
#define ASYNCSTEPS_CALL_STATE 1
#elif defined(_LIBCPP_VERSION) && _LIBCPP_VERSION >= 140000 && _LIBCPP_VERSION < 240000
#define ASYNCSTEPS_CALL_STATE 2
#else
#define ASYNCSTEPS_CALL_STATE 0
#endif
#endif

/// ASYNCSTEPS_SHARED: marks a variable, a function with a static variable, or a class of exceptions that exists once in
/// a process, although each shared library compiles its own: with -fvisibility=hidden, too, the dynamic linker sees it.
/// Not for functions on fast paths. DLLs of Windows share nothing by themselves. Define it as nothing, for a whole
/// library with -fvisibility=hidden, to share nothing with other modules. asyncsteps::compiled contains them all, so
/// that modules which link to it as a shared library have them in common. (In asyncsteps.cppm, of which there is no
/// shared library, clang 19 cannot compile such variables.)
/// ASYNCSTEPS_SHARED_TYPE: the same for a class.
#ifndef ASYNCSTEPS_SHARED
#if !defined(__ELF__) && !defined(__MACH__)
#define ASYNCSTEPS_SHARED
#elif defined(ASYNCSTEPS_IMPLEMENT) && !defined(ASYNCSTEPS_MODULE_UNIT)
#define ASYNCSTEPS_SHARED [[gnu::visibility("default"), gnu::used]]
#else
#define ASYNCSTEPS_SHARED [[gnu::visibility("default")]]
#endif
#if defined(__ELF__) || defined(__MACH__)
#define ASYNCSTEPS_SHARED_TYPE [[gnu::visibility("default")]]
#endif
#endif
#ifndef ASYNCSTEPS_SHARED_TYPE
#define ASYNCSTEPS_SHARED_TYPE
#endif

/// ASYNCSTEPS_REMOTE_FENCE: 1 when the system may order the memory accesses of other threads, by membarrier() of Linux
/// or FlushProcessWriteBuffers() of Windows, so that a post to a pool needs no fence. Define it as 0, for a whole
/// program, where a filter that the program installs later forbids that call.
#ifndef ASYNCSTEPS_REMOTE_FENCE
#define ASYNCSTEPS_REMOTE_FENCE 1
#endif

/// ASYNCSTEPS_INLINED: marks a lambda whose calls are inlined, after its parameters; nothing for compilers without it.
#if defined(__GNUC__)
#define ASYNCSTEPS_INLINED __attribute__((always_inline))
#else
#define ASYNCSTEPS_INLINED
#endif

/// ASYNCSTEPS_COMPILED: define it where a program is linked with asyncsteps::compiled. Headers then declare what that
/// library has, and do not define it: all functions of some length that are no templates.
/// ASYNCSTEPS_IMPLEMENT: define it in the one source file that is, or replaces, that library. It includes
/// <async/async.hpp> and <steps/steps.hpp>.
///
/// ASYNCSTEPS_DEFINED: 1 where headers define these functions, else 0.
/// ASYNCSTEPS_FUNCTION: begins the definition of such a function, in place of `inline`.
/// ASYNCSTEPS_TEMPLATE: begins the explicit instantiation of a template for the arguments that most programs have: its
/// declaration, or its definition in that source file. Not defined where there is no such library, nor for clang, which
/// takes no declaration in a file that also imports the module.
#if defined(ASYNCSTEPS_COMPILED) && !defined(ASYNCSTEPS_IMPLEMENT)
#define ASYNCSTEPS_DEFINED 0
#else
#define ASYNCSTEPS_DEFINED 1
#endif
#if defined(ASYNCSTEPS_IMPLEMENT)
#define ASYNCSTEPS_FUNCTION
#else
#define ASYNCSTEPS_FUNCTION inline
#endif
#if defined(ASYNCSTEPS_IMPLEMENT) && !defined(ASYNCSTEPS_MODULE_UNIT)
#define ASYNCSTEPS_TEMPLATE template
#elif !ASYNCSTEPS_DEFINED && !defined(__clang__)
#define ASYNCSTEPS_TEMPLATE extern template
#endif

/// Checks an invariant of this library in builds without NDEBUG: prints the file and line, then calls std::abort.
#ifdef NDEBUG
#define ASYNCSTEPS_ASSERT(condition) static_cast<void>(0)
#else
#define ASYNCSTEPS_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::async::detail::assertion_failed(#condition, __FILE__, __LINE__))
#endif

namespace async::inline v0_1::detail {

/// Size of the unit in which cores exchange memory.
inline constexpr std::size_t cache_line = 64;

/// Distance that keeps two independently written words apart: two lines, since x86 fetches lines in pairs.
/// (std::hardware_destructive_interference_size varies with compiler flags, which would break the ABI.)
inline constexpr std::size_t no_sharing = 2 * cache_line;

[[noreturn]] inline void assertion_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: asyncsteps: assertion failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace async::inline v0_1::detail

#if defined(ASYNCSTEPS_COMPILED) || defined(ASYNCSTEPS_IMPLEMENT)
#if defined(ASYNCSTEPS_TRACE) && ASYNCSTEPS_TRACE
#define ASYNCSTEPS_TRACED 1
#else
#define ASYNCSTEPS_TRACED 0
#endif
#if defined(_GLIBCXX_DEBUG)  // which changes the layout of containers
#define ASYNCSTEPS_DEBUG_CONTAINERS 1
#else
#define ASYNCSTEPS_DEBUG_CONTAINERS 0
#endif
#define ASYNCSTEPS_JOINED(what, a, b, c, d, e, f) \
  what##_with_trace_##a##_call_state_##b##_remote_fence_##c##_asan_##d##_tsan_##e##_glibcxx_debug_##f
#define ASYNCSTEPS_NAMED(...) ASYNCSTEPS_JOINED(__VA_ARGS__)
#define ASYNCSTEPS_WITH_SETTINGS(what)                                                                       \
  ASYNCSTEPS_NAMED(what, ASYNCSTEPS_TRACED, ASYNCSTEPS_CALL_STATE, ASYNCSTEPS_REMOTE_FENCE, ASYNCSTEPS_ASAN, \
                   ASYNCSTEPS_TSAN, ASYNCSTEPS_DEBUG_CONTAINERS)

namespace async::inline v0_1::detail {

/// Named by the settings of asyncsteps::compiled: with others, a program that uses it does not link.
void ASYNCSTEPS_WITH_SETTINGS(compiled)() noexcept;
#if ASYNCSTEPS_DEFINED
void ASYNCSTEPS_WITH_SETTINGS(compiled)() noexcept {}
#else
/// Named by the settings, too: under one name for all, the linker would keep that of the first file only.
[[gnu::used]] inline void (*const ASYNCSTEPS_WITH_SETTINGS(used))() noexcept = &ASYNCSTEPS_WITH_SETTINGS(compiled);
#endif

}  // namespace async::inline v0_1::detail
#endif
