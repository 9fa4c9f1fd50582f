// SPDX-License-Identifier: BSL-1.0
#include <atomic>   // for atomic
#include <cstdlib>  // for malloc, free, aligned_alloc
#include <new>      // for bad_alloc, align_val_t

#include "machine.hpp"  // for counted_allocations

namespace {

std::atomic<bool> counting{false};
std::atomic<std::uint64_t> counted{0};

void count() noexcept {
  if (counting.load(std::memory_order_relaxed)) counted.fetch_add(1, std::memory_order_relaxed);
}

void* checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// Not inlined: g++ would see free() paired with an operator new that it cannot look into, and warn.
[[gnu::noinline]] void release(void* memory) noexcept { std::free(memory); }

}  // namespace

namespace bench {

counted_allocations::counted_allocations() {
  counted.store(0, std::memory_order_relaxed);
  counting.store(true, std::memory_order_relaxed);
}
counted_allocations::~counted_allocations() { counting.store(false, std::memory_order_relaxed); }
std::uint64_t counted_allocations::calls() const { return counted.load(std::memory_order_relaxed); }

}  // namespace bench

// The array and nothrow forms of the standard library call these.
void* operator new(std::size_t size) {
  count();
  return checked(std::malloc(size == 0 ? 1 : size));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  count();
  const auto unit = static_cast<std::size_t>(alignment);
  return checked(std::aligned_alloc(unit, (size + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
