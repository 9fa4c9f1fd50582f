// SPDX-License-Identifier: BSL-1.0
// floor: 0
#pragma once
#include <cstddef>  // for size_t
#include <memory>   // for unique_ptr

namespace async::detail {

/// What a part of the library keeps for each loop, such as its slabs of memory. See loop_core::extension().
struct loop_extension {
  virtual ~loop_extension() = default;
  /// The loop is being destroyed: cancels what still waits. Called on the destroying thread, which counts as the
  /// loop's.
  virtual void close() noexcept {}
  /// Gives unused memory back to the system; returns the bytes.
  virtual std::size_t trim() noexcept { return 0; }

  const void* key = nullptr;
  std::unique_ptr<loop_extension> next;
};

}  // namespace async::detail
