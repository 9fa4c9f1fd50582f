// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for byte
#include <memory>   // for shared_ptr
#include <new>      // for placement new
#include <utility>  // for move

namespace steps::inline v0_1::interop::nats::detail {

/// In a child of fork(): whether an object is the parent's. Then it stays as it is for ever, for its threads are gone,
/// and its locks may be held.
template <class T>
bool leave_behind(std::shared_ptr<T>& object) noexcept {
  if (!object->is_left_behind()) return false;
  alignas(std::shared_ptr<T>) std::byte never_destroyed[sizeof(std::shared_ptr<T>)];
  ::new (static_cast<void*>(never_destroyed)) std::shared_ptr<T>(std::move(object));
  return true;
}

}  // namespace steps::inline v0_1::interop::nats::detail
