// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t

// In front of libstdc++'s header of this name: sleep and wake-up of std::atomic::wait(), std::barrier and std::latch by
// the system. Up to version 14 its own compares the word before it takes the mutex, which notifiers do not take: on
// Windows a wake-up can be missed. It uses these functions where the macro is defined.
#if defined(__GLIBCXX__) && _GLIBCXX_RELEASE <= 14
#define _GLIBCXX_HAVE_PLATFORM_WAIT 1

extern "C" {
int __stdcall WaitOnAddress(volatile void*, void*, unsigned long long, unsigned long);
void __stdcall WakeByAddressAll(void*);
void __stdcall WakeByAddressSingle(void*);
}

namespace std::__detail {

template <class T>
void __platform_wait(const T* word, std::uint64_t expected) noexcept {
  static_assert(sizeof(T) == sizeof(expected));
  constexpr unsigned long for_ever = 0xffffffffUL;
  ::WaitOnAddress(const_cast<T*>(word), &expected, sizeof(expected), for_ever);
}

template <class T>
void __platform_notify(const T* word, bool all) noexcept {
  if (all) {
    ::WakeByAddressAll(const_cast<T*>(word));
  } else {
    ::WakeByAddressSingle(const_cast<T*>(word));
  }
}

}  // namespace std::__detail
#endif

#include_next <bits/atomic_wait.h>
