// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint8_t, uint64_t
#include <cstdio>   // for fprintf
#include <cstdlib>  // for abort

/// The entry of a fuzz target, called by libFuzzer, or by fuzz_replay.cpp with the inputs that are kept. Returns 0;
/// what is wrong ends the program.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace testing {

/// The bytes of an input as numbers; zeros behind its end.
class fuzz_input {
 public:
  fuzz_input(const std::uint8_t* data, std::size_t size) noexcept : at_(data), end_(data + size) {}

  bool empty() const noexcept { return at_ == end_; }
  std::uint8_t byte() noexcept { return empty() ? std::uint8_t{0} : *at_++; }
  /// Less than `bound`, which is at most 256.
  unsigned below(unsigned bound) noexcept { return byte() % bound; }
  /// Small numbers and powers of two with their neighbours, from two bytes.
  std::uint64_t number() noexcept {
    const unsigned shift = below(64);
    return (std::uint64_t{1} << shift) + byte() - 1;
  }
  /// As a source of random numbers.
  std::uint64_t operator()() noexcept { return byte(); }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

/// Ends the program when `condition` is not true.
inline void demand(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "it does not hold that %s\n", what);
  std::abort();
}

}  // namespace testing
