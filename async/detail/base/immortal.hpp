// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <mutex>        // for mutex
#include <type_traits>  // for conditional_t

#include "async/detail/base/platform.hpp"   // for mutex_is_constant
#include "async/detail/base/spin_lock.hpp"  // for spin_lock

namespace async::inline v0_1::detail {

/// A mutex that needs no code to begin, for immortal objects. On Windows it spins: these locks are held for a few
/// instructions, or while an object of the process is made.
using static_mutex = std::conditional_t<platform::mutex_is_constant, std::mutex, spin_lock>;

/// An object of static storage duration that needs no code to begin and is never destroyed. So it can be used before
/// main() and until the last thread-local destructor has run. It has no guard, which another thread could hold while
/// one calls fork().
///
///   inline constinit immortal<T> name;
template <class T>
union immortal {
  constexpr immortal() noexcept : value() {}
  ~immortal() {}
  immortal(const immortal&) = delete;
  immortal& operator=(const immortal&) = delete;

  T value;
};

}  // namespace async::inline v0_1::detail
