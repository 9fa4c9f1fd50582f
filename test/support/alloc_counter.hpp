// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>   // for atomic
#include <cstddef>  // for size_t
#include <cstdlib>  // for malloc, free, posix_memalign
#include <limits>   // for numeric_limits
#include <memory>   // for align
#include <new>      // for bad_alloc, align_val_t, get_new_handler

#include "async/detail/base/block_cache.hpp"  // for slabs_are_off

/// Replaces the program's operator new and delete by ones that count and can fail. Include it in one file of a test
/// program only.
///
///   testing::alloc_counter counter;            // counts the calls of this program from here on
///   pool.post(f);
///   CHECK(counter.calls() == 1);
///
///   for (std::size_t k = 0;; ++k) {            // every allocation fails once
///     testing::fail_alloc failing(k);          // the k-th call from here (0: the next one) throws std::bad_alloc
///     try { work(); } catch (const std::bad_alloc&) { continue; }
///     if (!failing.has_failed()) break;        // there were at most k allocations: all have been tried
///   }
///
/// In a program with this header, each slab of the library's recycled memory holds one block, so that each block is
/// seen.
///
/// A compiler may leave out a new-expression whose object is deleted unseen (clang does): let it escape, as through
/// escape(). Calls of all threads count; only those of the thread that made a fail_alloc fail, unless it was made with
/// `all_threads`.
namespace testing {

namespace alloc {

inline constexpr std::size_t never = (std::numeric_limits<std::size_t>::max)();

inline std::atomic<std::size_t> calls{0};
inline std::atomic<std::size_t> live{0};
inline std::atomic<std::size_t> failures{0};
inline std::atomic<std::size_t> countdown_of_all{never};
inline thread_local std::size_t countdown_of_thread = never;
inline thread_local bool none_for_thread = false;
inline thread_local bool spares_thread = false;  // from the failures of all threads
inline thread_local std::size_t calls_of_thread = 0;
/// Has the library's recycled memory put small blocks into slabs, or not. Before there are threads.
inline bool use_slabs(bool yes) noexcept {
  async::detail::blocks::slabs_are_off = !yes || ASYNCSTEPS_ASAN != 0;
  return yes;
}
inline const bool uses_slabs = use_slabs(false);

inline bool must_fail() noexcept {
  if (none_for_thread) return true;
  if (countdown_of_thread != never && countdown_of_thread-- == 0) return true;  // 0 - 1 is never: fails once
  if (spares_thread) return false;
  std::size_t left = countdown_of_all.load(std::memory_order_relaxed);
  while (left != never) {
    if (countdown_of_all.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) return left == 0;
  }
  return false;
}

#if defined(__unix__) || defined(__APPLE__)
/// Memory for more than the default alignment.
inline void* allocate_aligned(std::size_t size, std::size_t alignment) noexcept {
  void* memory = nullptr;
  return ::posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}
inline void free_aligned(void* memory) noexcept { std::free(memory); }
#else
/// Memory for more than the default alignment, from malloc(), whose pointer lies before it.
inline void* allocate_aligned(std::size_t size, std::size_t alignment) noexcept {
  std::size_t space = size + alignment;
  void* const block = std::malloc(sizeof(void*) + space);
  if (block == nullptr) return nullptr;
  void* memory = static_cast<void**>(block) + 1;
  std::align(alignment, size, memory, space);
  static_cast<void**>(memory)[-1] = block;
  return memory;
}
inline void free_aligned(void* memory) noexcept { std::free(static_cast<void**>(memory)[-1]); }
#endif

inline bool is_default(std::size_t alignment) noexcept { return alignment <= alignof(std::max_align_t); }

inline void* allocate(std::size_t size, std::size_t alignment) {
  calls.fetch_add(1, std::memory_order_relaxed);
  ++calls_of_thread;
  while (must_fail()) {
    failures.fetch_add(1, std::memory_order_relaxed);
    const std::new_handler make_room = std::get_new_handler();
    if (make_room == nullptr) throw std::bad_alloc();
    make_room();
  }
  if (size == 0) size = 1;
  void* const memory = is_default(alignment) ? std::malloc(size) : allocate_aligned(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

inline void* try_allocate(std::size_t size, std::size_t alignment) noexcept {
  try {
    return allocate(size, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Not inlined: g++ would see malloc's block freed behind a call of new that it did not look into, and warn.
[[gnu::noinline]] inline void release(void* memory, std::size_t alignment) noexcept {
  if (memory == nullptr) return;
  live.fetch_sub(1, std::memory_order_relaxed);
  is_default(alignment) ? std::free(memory) : free_aligned(memory);
}

}  // namespace alloc

/// Keeps the compiler from seeing what becomes of the object at `pointer`.
template <class T>
T* escape(T* pointer) noexcept {
  __asm__ __volatile__("" : "+r"(pointer) : : "memory");
  return pointer;
}

/// Counts calls of operator new since it was made.
class alloc_counter {
 public:
  alloc_counter() noexcept { reset(); }
  void reset() noexcept {
    calls_ = alloc::calls.load(std::memory_order_relaxed);
    live_ = alloc::live.load(std::memory_order_relaxed);
    of_thread_ = alloc::calls_of_thread;
  }
  /// Calls by all threads.
  std::size_t calls() const noexcept { return alloc::calls.load(std::memory_order_relaxed) - calls_; }
  /// Calls by this thread.
  std::size_t calls_of_this_thread() const noexcept { return alloc::calls_of_thread - of_thread_; }
  /// Blocks that are allocated beyond those at the start; negative when more were given back.
  std::ptrdiff_t live() const noexcept {
    return static_cast<std::ptrdiff_t>(alloc::live.load(std::memory_order_relaxed) - live_);
  }

 private:
  std::size_t calls_ = 0;
  std::size_t live_ = 0;
  std::size_t of_thread_ = 0;
};

/// The fewest calls of operator new, by all threads, in any run of `work`. Up to 1,000 runs, until one makes at most
/// `enough`: each task that another thread steals moves a block to that thread's cache, and the caches of three threads
/// hold 200 blocks.
template <class F>
std::size_t fewest_calls(F work, std::size_t enough = 0) {
  std::size_t fewest = alloc::never;
  for (int i = 0; i < 1'000 && fewest > enough; ++i) {
    const alloc_counter counter;
    work();
    if (counter.calls() < fewest) fewest = counter.calls();
  }
  return fewest;
}

/// Makes the k-th call of operator new from here on throw std::bad_alloc, once; ends with its scope.
class fail_alloc {
 public:
  enum class scope { this_thread, all_threads };

  explicit fail_alloc(std::size_t k, scope threads = scope::this_thread) noexcept
      : failures_(alloc::failures.load(std::memory_order_relaxed)) {
    if (threads == scope::this_thread) {
      alloc::countdown_of_thread = k;
    } else {
      alloc::countdown_of_all.store(k, std::memory_order_relaxed);
    }
  }
  ~fail_alloc() { stop(); }
  fail_alloc(const fail_alloc&) = delete;
  fail_alloc& operator=(const fail_alloc&) = delete;

  /// No failure from here on, for code that checks what is left.
  void stop() noexcept {
    alloc::countdown_of_thread = alloc::never;
    alloc::countdown_of_all.store(alloc::never, std::memory_order_relaxed);
  }
  bool has_failed() const noexcept { return alloc::failures.load(std::memory_order_relaxed) != failures_; }

 private:
  std::size_t failures_;
};

/// Makes every call of operator new by this thread throw std::bad_alloc, until the end of its scope.
class no_memory {
 public:
  no_memory() noexcept { alloc::none_for_thread = true; }
  ~no_memory() { alloc::none_for_thread = false; }
  no_memory(const no_memory&) = delete;
  no_memory& operator=(const no_memory&) = delete;
};

}  // namespace testing

// Not inline, as the standard asks of replacements. All forms, since a sanitizer's runtime replaces those left out.
void* operator new(std::size_t size) { return testing::alloc::allocate(size, 0); }
void* operator new[](std::size_t size) { return testing::alloc::allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t to) { return testing::alloc::allocate(size, std::size_t(to)); }
void* operator new[](std::size_t size, std::align_val_t to) { return testing::alloc::allocate(size, std::size_t(to)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return testing::alloc::try_allocate(size, 0); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return testing::alloc::try_allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
  return testing::alloc::try_allocate(size, std::size_t(to));
}
void* operator new[](std::size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
  return testing::alloc::try_allocate(size, std::size_t(to));
}
void operator delete(void* memory) noexcept { testing::alloc::release(memory, 0); }
void operator delete[](void* memory) noexcept { testing::alloc::release(memory, 0); }
void operator delete(void* memory, std::size_t) noexcept { testing::alloc::release(memory, 0); }
void operator delete[](void* memory, std::size_t) noexcept { testing::alloc::release(memory, 0); }
void operator delete(void* memory, std::align_val_t to) noexcept { testing::alloc::release(memory, std::size_t(to)); }
void operator delete[](void* memory, std::align_val_t to) noexcept { testing::alloc::release(memory, std::size_t(to)); }
void operator delete(void* memory, std::size_t, std::align_val_t to) noexcept {
  testing::alloc::release(memory, std::size_t(to));
}
void operator delete[](void* memory, std::size_t, std::align_val_t to) noexcept {
  testing::alloc::release(memory, std::size_t(to));
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { testing::alloc::release(memory, 0); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { testing::alloc::release(memory, 0); }
