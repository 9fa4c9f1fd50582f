// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "relacy_runner.hpp"

// After the seam.
#include "async/queue.hpp"

/// Shared by the models of async::queue: segments of two slots, versions of two bits and no patience for stalled
/// producers.
namespace model {

/// Too strictly aligned to share a cache line, so that a segment of two lines has two slots.
struct alignas(128) wide : element {
  using element::element;
};

struct small : async::queue_traits {
  static constexpr unsigned version_bits = 2, index_bits = 6, slot_bits = 2;
  static constexpr std::size_t segment_bytes = 1;
  static constexpr unsigned stall_rounds = 1;
};
using queue = async::queue<wide, small>;

/// No enqueue of it can be taken back: consumers wait for a producer that has stopped, and no fence helps.
struct alignas(128) stuck : element {
  using element::element;
  stuck(stuck&& other) noexcept(false) : element(static_cast<element&&>(other)) {}
  stuck& operator=(stuck&&) noexcept = default;
};
using stuck_queue = async::queue<stuck, small>;
/// Made without exceptions: sleepers are woken at the end of a bulk of them.
struct alignas(128) quick : element {
  quick(unsigned v) noexcept : element(v) {}
  quick(quick&& other) noexcept(false) : element(static_cast<element&&>(other)) {}
  quick& operator=(quick&&) noexcept = default;
};
using quick_queue = async::queue<quick, small>;
static_assert(queue::is_always_lock_free && !stuck_queue::is_always_lock_free);

}  // namespace model
