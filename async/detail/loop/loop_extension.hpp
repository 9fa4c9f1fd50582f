// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for byte, size_t
#include <memory>   // for unique_ptr, destroy_at
#include <new>      // for placement new
#include <utility>  // for move

#include "async/detail/base/config.hpp"  // for ASYNCSTEPS_SHARED

namespace async::inline v0_1::detail {

/// Data that a part of the library keeps for each loop, such as slabs of memory. See loop_core::extension().
struct ASYNCSTEPS_SHARED loop_extension {
  virtual ~loop_extension() = default;
  /// Cancels what still waits, because the loop is being destroyed. Called on the destroying thread, which counts as
  /// the loop's.
  virtual void close() noexcept {}
  /// Returns unused memory to the system; returns the number of bytes.
  virtual std::size_t trim() noexcept { return 0; }

  /// Destroys an extension that was made in the loop's own memory, or by new.
  struct release {
    void operator()(loop_extension* e) const noexcept {
      if (e->in_place) return std::destroy_at(e);
      delete e;
    }
  };
  using pointer = std::unique_ptr<loop_extension, release>;

  const void* key = nullptr;
  bool in_place = false;
  pointer next;
};

/// The extensions of one loop.
class loop_extensions {
 public:
  /// The extension of type T, made from the core on first use. The first of all, if small, takes no memory.
  template <class T, class Core>
  T& get(Core& core) {
    for (loop_extension* e = newest_.get(); e != nullptr; e = e->next.get()) {
      if (e->key == &key_of<T>) return static_cast<T&>(*e);
    }
    T* made = nullptr;
    if constexpr (sizeof(T) <= sizeof first_ && alignof(T) <= alignof(void*)) {
      if (newest_ == nullptr) made = ::new (static_cast<void*>(first_)) T(core);
    }
    const bool in_place = made != nullptr;
    if (!in_place) made = new T(core);
    made->in_place = in_place;
    made->key = &key_of<T>;
    made->next = std::move(newest_);
    newest_.reset(made);
    return *made;
  }

  void close() noexcept {
    for (loop_extension* e = newest_.get(); e != nullptr; e = e->next.get()) e->close();
  }
  std::size_t trim() noexcept {
    std::size_t freed = 0;
    for (loop_extension* e = newest_.get(); e != nullptr; e = e->next.get()) freed += e->trim();
    return freed;
  }
  void clear() noexcept { newest_.reset(); }

 private:
  template <class T>
  ASYNCSTEPS_SHARED static constexpr char key_of = 0;

  alignas(void*) std::byte first_[5 * sizeof(void*)];
  loop_extension::pointer newest_;
};

}  // namespace async::inline v0_1::detail
