// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for uint32_t
#include <string_view>  // for string_view

#include "steps/detail/engine/engine.hpp"  // for take_limited, misuse

namespace steps::inline v0_1::detail {

/// True unless the flow has fixed memory with no room for `size` bytes: the mistake is known then.
inline bool has_room(flow& f, std::size_t size) noexcept {
  if (f.limit == nullptr || static_cast<std::size_t>(f.end - f.top) >= size || may_allocate(f)) return true;
  misuse(f, arena_exceeded(f));
  return false;
}

/// One unit of a limit of a flow with fixed memory: given back at the end of the claim, unless a scope keeps it. A flow
/// without limits gives any number.
class limit_claim {
 public:
  limit_claim() noexcept = default;
  limit_claim(const limit_claim&) = delete;
  limit_claim& operator=(const limit_claim&) = delete;
  ~limit_claim() {
    if (left_ != nullptr) ++*left_;
  }

  /// Takes a unit of `what`, and makes sure of `room` bytes. False: there is none, and the mistake `exceeded` is known.
  bool take(flow& f, std::uint32_t limits::* what, std::size_t room, std::string_view exceeded) noexcept {
    if (f.limit == nullptr) return true;
    if (!take_limited(f, what, room, exceeded)) return false;
    left_ = &(f.limit->*what);
    return true;
  }
  /// The scope that has been made gives the unit back when it is left.
  void keep() noexcept { left_ = nullptr; }

 private:
  std::uint32_t* left_ = nullptr;  // null: nothing to give back
};

}  // namespace steps::inline v0_1::detail
