// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <limits.h>   // for PTHREAD_STACK_MIN
#include <pthread.h>  // for pthread_create, pthread_attr_setstacksize

#include <algorithm>  // for max
#include <cstddef>    // for size_t
#include <exception>  // for exception_ptr
#include <new>        // for bad_alloc

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_ASAN, ASYNCSTEPS_TSAN

namespace testing {

/// How much larger a stack has to be: the sanitizers' frames are.
inline constexpr std::size_t stack_factor = ASYNCSTEPS_ASAN ? 16 : ASYNCSTEPS_TSAN ? 12 : 1;

/// Runs body() on a new thread with a stack of `bytes`, times stack_factor, or the least that the machine allows, and
/// waits for its end. Throws what it throws.
template <class Body>
void on_stack_of(std::size_t bytes, Body body) {
  struct call {
    Body& body;
    std::exception_ptr error{};
  } of_thread{body};
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) throw std::bad_alloc();
  pthread_t thread;
  const std::size_t size = std::max(bytes * stack_factor, static_cast<std::size_t>(PTHREAD_STACK_MIN));
  const auto run = [](void* argument) -> void* {
    auto* const made = static_cast<call*>(argument);
    try {
      made->body();
    } catch (...) {
      made->error = std::current_exception();
    }
    return nullptr;
  };
  const bool has_started = ::pthread_attr_setstacksize(&attributes, size) == 0 &&
                           ::pthread_create(&thread, &attributes, run, &of_thread) == 0;
  ::pthread_attr_destroy(&attributes);
  if (!has_started) throw std::bad_alloc();
  ::pthread_join(thread, nullptr);
  if (of_thread.error != nullptr) std::rethrow_exception(of_thread.error);
}

}  // namespace testing
