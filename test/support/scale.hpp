// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for max
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <cstdio>     // for printf
#include <cstdlib>    // for getenv, strtoull

namespace testing {

/// Size of a test run, from the environment (ASYNCSTEPS_TEST_SCALE): in the release build 1 by
/// default, 4 with --ci and --all, 100 with --soak; in other builds 1, and 20 with --soak.
inline std::size_t scale() {
  static const std::size_t value = [] {
    const char* text = std::getenv("ASYNCSTEPS_TEST_SCALE");
    return text == nullptr ? std::size_t{1}
                           : (std::max)(std::size_t{1}, static_cast<std::size_t>(std::strtoull(text, nullptr, 10)));
  }();
  return value;
}

/// True when the program is built with a sanitizer, which makes it about ten times slower.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

/// True when the program is built with -O0, which makes it about four times slower.
#if defined(__OPTIMIZE__)
inline constexpr bool optimised = true;
#else
inline constexpr bool optimised = false;
#endif

/// True when the program runs on an emulated processor, which makes it more than ten times slower.
inline bool emulated() { return std::getenv("ASYNCSTEPS_TEST_EMULATED") != nullptr; }

/// How often to repeat what a fast run repeats `count` times: times scale(), a quarter of it without optimisation, a
/// tenth under a sanitizer or an emulator, at least once.
inline std::size_t rounds(std::size_t count) {
  return (std::max<std::size_t>)(1, count * scale() / (sanitized || emulated() ? 10 : optimised ? 1 : 4));
}

/// Seed of random tests, from the environment (ASYNCSTEPS_TEST_SEED), else always the same; printed once, so that the
/// output of a test that fails says how to replay it.
inline std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* text = std::getenv("ASYNCSTEPS_TEST_SEED");
    const std::uint64_t number = text == nullptr ? 20250101 : std::strtoull(text, nullptr, 10);
    std::printf("seed: %llu\n", static_cast<unsigned long long>(number));
    return number;
  }();
  return value;
}

}  // namespace testing
